"""The program `oms`: the installed command, and `python -m oms_journal.cli`. Its libraries are an extra."""

import sys
from importlib.util import find_spec

from oms_journal.cli.failures import Usage, tell

_LIBRARIES = ("typer", "rich")


def main() -> None:
    """Run the command; where a library is missing that it takes, say which line to run, and exit with 2."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        text = f"the command needs packages that are not installed ({', '.join(missing)})"
        failure = Usage(f"{text}: pip install 'oms-journal[cli]'", error="NotInstalled")
        tell(failure, as_json="--json" in sys.argv)
        sys.exit(failure.code)
    from oms_journal.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
