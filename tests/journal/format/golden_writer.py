"""Write the golden files and directories of the version we write: `python -m tests.journal.format.golden_writer`.

A golden file is never edited and never written again: a new version of the format gets new files,
and the old ones say for ever what the older versions were.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from oms_journal.journal.format.headers import VERSION
from tests.support.journals import golden_directories
from tests.support.journals.annotated import annotated
from tests.support.journals.golden_files import GOLDEN, NAMES, make, told


def main() -> int:
    """Write the files that do not exist yet; return 1 when one did."""
    refused = 0
    for name in NAMES:
        target = GOLDEN / f"v{VERSION}-{name}.hex"
        if target.exists():
            sys.stderr.write(f"{target.name} exists and stays as it is\n")
            refused = 1
            continue
        with tempfile.TemporaryDirectory() as directory:
            path = make(Path(directory), name)
            said = [json.dumps(one, ensure_ascii=False) for one in told(path)]
            target.write_text(annotated(path.read_bytes()), encoding="utf-8")
        target.with_suffix(".json").write_text("[\n" + ",\n".join(said) + "\n]\n", encoding="utf-8")
    return _write_directories() or refused


def _write_directories() -> int:
    refused = 0
    for name in golden_directories.MAKERS:
        target = golden_directories.DIRECTORIES / f"v{VERSION}-{name}"
        if target.exists():
            sys.stderr.write(f"{target.name} exists and stays as it is\n")
            refused = 1
            continue
        with tempfile.TemporaryDirectory() as directory:
            made = Path(directory) / name
            golden_directories.make(made, name)
            shutil.copytree(made, target)
            said = golden_directories.told(made)
        target.with_suffix(".json").write_text(_lines(said), encoding="utf-8")
    return refused


def _lines(said: dict[str, Any]) -> str:
    """Return JSON with a line for each operation."""
    operations = said["read"].pop("operations")
    rest = json.dumps({**said, "operations": []}, ensure_ascii=False)
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in operations)
    return rest.replace('"operations": []', f'"operations": [\n{lines}\n]') + "\n"


if __name__ == "__main__":
    sys.exit(main())
