"""`python -m tests.planted [FAULT …]`: makes each deliberate fault, and says which of the tests nearest to it finds it.

Exit status: 0 each was found; 1 one was not, or is on the list of those found elsewhere only, and was found; 2 wrong
arguments, or tests that fail without a fault; 130 interrupted, 143 ended.
"""

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from tests.planted.faults import ALL, Planted
from tests.planted.rooms import FOUND_ELSEWHERE, files_near
from tests.planted.search import FAULT_SECONDS_MAX, Found, Search, TestsFail

INTERRUPTED = 130
ENDED = 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__, allow_abbrev=False)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="to be made (all)")
    parser.add_argument("--list", action="store_true", help="list the faults, and the files of tests that come first")
    parser.add_argument(
        "--seconds", type=float, default=FAULT_SECONDS_MAX, metavar="S", help="until the tests of a fault are ended"
    )
    said = parser.parse_args(arguments)
    if unknown := [name for name in said.faults if name not in ALL]:
        parser.error(f"there is no fault {unknown[0]!r}; --list lists them")
    chosen = [ALL[name] for name in said.faults or ALL]
    if said.list:
        for fault in chosen:
            first, others = files_near(fault)
            _say(sys.stdout, f"{fault.name}: {fault.text}\n    {' '.join(first) or '-'}, and {len(others)} more")
        return 0
    try:
        return search(Search(files_near, said.seconds), chosen, FOUND_ELSEWHERE, sys.stdout)
    except KeyboardInterrupt:
        return INTERRUPTED


def search(search: Search, faults: Sequence[Planted], elsewhere: Mapping[str, str], out: TextIO) -> int:
    """Look for each fault, print which test found it as a row of a table, and return the exit status."""
    found: dict[str, Found] = {}
    _say(out, "| fault | found first by | with | seconds |\n| --- | --- | --- | --- |")
    for fault in faults:
        try:
            found[fault.name] = search.find(fault)
        except TestsFail as failure:
            _say(out, f"\nTests nearest to {fault.name} fail without it:\n{failure}")
            return 2
        _say(out, _row(fault, found[fault.name]))
    return tell(found, elsewhere, out)


def tell(found: Mapping[str, Found], elsewhere: Mapping[str, str], out: TextIO) -> int:
    """Print which faults were not found, and which are on the list of those found elsewhere; return the exit status."""
    missed = [name for name, each in found.items() if each.test is None and (each.is_slip or name not in elsewhere)]
    listed = [name for name in found if name in elsewhere]
    found_here = [name for name in listed if found[name].test is not None]
    _list(out, "Known to be found elsewhere only", [f"{name}: {elsewhere[name]}" for name in listed])
    _list(out, "NOT FOUND by the tests nearest to them", [f"{name}: {found[name].text}" for name in missed])
    _list(out, "FOUND, and on the list of those found elsewhere only: tests/planted/rooms.py", found_here)
    _say(out, f"\nfaults made: {len(found)}; not found: {len(missed)}; known to be found elsewhere: {len(listed)}")
    return int(bool(missed or found_here))


def _row(fault: Planted, found: Found) -> str:
    by = "it does not fit the product" if found.is_slip else found.test or "NOTHING"
    text = found.text.replace("|", "/")[:120]
    return f"| {fault.name} | {by.removeprefix('tests/')} | {text} | {found.seconds:.0f} |"


def _list(out: TextIO, title: str, lines: Sequence[str]) -> None:
    if lines:
        _say(out, f"\n{title}:\n" + "\n".join(f"    {line}" for line in lines))


def _say(out: TextIO, text: str) -> None:
    print(text, file=out, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in its background has it ignored
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))  # not without ending the tests that are running
    sys.exit(main())
