"""What the system says of a directory's file system and device. Linux says it in files; elsewhere little is known.

`None` always means: not known.
"""

import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MOUNTINFO = Path("/proc/self/mountinfo")
CPUINFO = Path("/proc/cpuinfo")
SYS_DEVICES = Path("/sys/dev/block")
FLUSHES_COLUMN = 15  # of the device's `stat`: flush requests completed since it was found
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo."""

    mount_point: str
    file_system: str
    source: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The directory that is measured, its file system and device."""

    directory: str
    mount: Mount | None
    device: str | None  # the whole device, not its partition
    write_cache: str | None  # "write back": it may lose what was not flushed; "write through": it does not
    is_rotational: bool | None
    physical_block_size: int | None  # what the device writes as a whole
    is_stacked: bool  # made of other devices, which are the ones that are flushed
    is_virtual_machine: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def look_at(directory: Path, *, devices: Path = SYS_DEVICES) -> Device:
    """Return what the system says of the directory."""
    where = directory.resolve()
    mount = find_mount(parse_mounts(_text(MOUNTINFO) or ""), where)
    device = _device(where, mount, devices)
    rotational = _text(device / "queue/rotational") if device else None
    block = (_text(device / "queue/physical_block_size") if device else None) or ""
    return Device(
        directory=str(where),
        mount=mount,
        device=device.name if device else None,
        write_cache=_text(device / "queue/write_cache") if device else None,
        is_rotational=None if rotational is None else rotational == "1",
        physical_block_size=int(block) if block.isdecimal() and int(block) else None,
        is_stacked=device is not None and any(_entries(device / "slaves")),
        is_virtual_machine=" hypervisor" in (_text(CPUINFO) or ""),
    )


def flushes(place: Device) -> int | None:
    """Return how many flushes the device has completed, or None when its counter says nothing."""
    if place.device is None or place.is_stacked:
        return None
    columns = (_text(Path("/sys/block") / place.device / "stat") or "").split()
    count = int(columns[FLUSHES_COLUMN]) if len(columns) > FLUSHES_COLUMN else 0
    return count or None  # a counter that never moved may be one that never does


def parse_mounts(text: str) -> list[Mount]:
    """Return the mounts of a mountinfo file, in the order they were made."""
    return [mount for line in text.splitlines() if (mount := _parse_mount(line))]


def _parse_mount(line: str) -> Mount | None:
    before, dash, after = line.partition(" - ")
    head, tail = before.split(" "), after.split(" ")
    if not dash or len(head) < 6 or len(tail) < 3:
        return None
    options = dict.fromkeys([*head[5].split(","), *tail[2].split(",")])
    return Mount(_plain(head[4]), file_system=tail[0], source=_plain(tail[1]), options=tuple(options))


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def find_mount(mounts: Iterable[Mount], directory: Path) -> Mount | None:
    """Return the mount the directory is in: the deepest one, and of several there the last."""
    above = {str(directory), *map(str, directory.parents)}
    found = None
    for mount in mounts:
        if mount.mount_point in above and (found is None or len(mount.mount_point) >= len(found.mount_point)):
            found = mount
    return found


def _device(directory: Path, mount: Mount | None, devices: Path) -> Path | None:
    """Return the directory of the block device under /sys: of a partition, the device it is a part of."""
    numbers = [directory.stat().st_dev]
    if mount is not None and mount.source.startswith("/dev/"):
        with contextlib.suppress(OSError):
            numbers.append(Path(mount.source).stat().st_rdev)  # the directory's own is not a device's on btrfs
    for number in numbers:
        node = devices / f"{os.major(number)}:{os.minor(number)}"
        if node.exists():
            found = node.resolve()
            return found.parent if (found / "partition").exists() else found
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _entries(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []
