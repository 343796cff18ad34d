"""The note that starts leave for one another in `omsmsg.found`: JSON behind its checksum."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.files import read_whole
from oms_journal.journal.format.headers import CHECKSUM, xxh3


def encode(said: Mapping[str, object]) -> bytes:
    """Return the file's bytes."""
    text = json.dumps(said).encode()
    return CHECKSUM.pack(xxh3(text)) + text


def read(disk: Disk, directory: Path) -> dict[str, Any] | None:
    """Return what the note says, nothing of one that cannot be read any more; None where there is none. DiskError."""
    data = read_whole(disk, directory / names.FOUND)
    if data is None:
        return None
    text = data[CHECKSUM.size :]  # behind it the JSON
    if data[: CHECKSUM.size] != CHECKSUM.pack(xxh3(text)):
        return {}
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def first_sequence(disk: Disk, directory: Path) -> int:
    """Return the first sequence of which anything can have been durable, as far as a start has noted it. DiskError."""
    numbers = (read(disk, directory) or {}).get("numbers")
    first = numbers.get("first_sequence") if isinstance(numbers, dict) else None
    return first if isinstance(first, int) else 1
