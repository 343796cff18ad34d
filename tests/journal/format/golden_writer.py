"""Write the golden files of the format version that our encoder writes: `python -m tests.journal.format.golden_writer`.

A golden file is never edited and never written again: a new version of the format gets new files,
and the old ones say for ever what the older versions were.
"""

import json
import sys
import tempfile
from pathlib import Path

from oms_journal.journal.format.headers import VERSION
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
    return refused


if __name__ == "__main__":
    sys.exit(main())
