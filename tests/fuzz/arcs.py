"""Which lines of the program followed one another while something ran: how a corpus is measured, and made small."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.support.project import NAME, SOURCES

Arc = tuple[str, int, int]  # the file, and two lines that ran one behind the other
_PRODUCT = str(SOURCES / NAME)


def arcs_of(run: Callable[[], object]) -> set[Arc]:
    """Return the pairs of lines of the distributed packages that the call ran through, in this thread.

    An exception that it lets out is its caller's.
    """
    found: set[Arc] = set()
    before: dict[int, int] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(_PRODUCT):
            return None
        line, place = frame.f_lineno, id(frame)
        found.add((Path(file).name, before.get(place, 0) if event != "call" else 0, line))
        before[place] = line
        return trace

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(earlier)
    return found


def smallest(play: Callable[[bytes], None], inputs: Iterable[bytes]) -> tuple[list[bytes], int]:
    """Return inputs, the shortest first, that together run every pair of lines that all of them do; and how many pairs.

    An input that breaks a promise is left out.
    """
    kept: list[bytes] = []
    seen: set[Arc] = set()
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        try:
            found = arcs_of(lambda data=data: play(data))  # type: ignore[misc]
        except Exception:
            continue
        if not found <= seen:
            kept.append(data)
            seen |= found
    return kept, len(seen)
