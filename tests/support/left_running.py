"""Processes that are left when a program has ended: those of its session, and those that were told a word by it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

SECONDS_MAX = 10.0  # a worker of Spark's ends by itself, a moment after its Java process


def of_session(session: int) -> dict[int, str]:
    """Return the processes of a session, with their command lines; none where no file system shows them."""
    found = {}
    for process, stat in _every("stat"):
        fields = stat.rpartition(")")[2].split()
        if int(fields[3]) == session and fields[0] != "Z":
            found[int(process.name)] = _read(process / "cmdline").replace("\0", " ")
    return found


def has_begun_java(session: int) -> bool:
    """Say whether Spark's Java process has come so far that it has opened what Python speaks with it by."""
    return any(_has_open(process, "/py4j-") for process in of_session(session))


def _has_open(process: int, word: str) -> bool:
    try:
        return any(word in str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir())
    except OSError:  # it has just been closed, or has ended
        return False


def told(word: str) -> dict[int, str]:
    """Return the processes in whose environments a word stands, with their command lines."""
    there = (process for process, variables in _every("environ") if word in variables)
    return {int(process.name): _read(process / "cmdline").replace("\0", " ") for process in there}


def after_a_while(look: Callable[[], dict[int, str]]) -> dict[int, str]:
    """Return what is left, as soon as that is nothing."""
    ends = time.monotonic() + SECONDS_MAX
    while (left := look()) and time.monotonic() < ends:
        time.sleep(0.05)
    return left


def _every(file: str) -> Iterator[tuple[Path, str]]:
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        if found := _read(path):
            yield path.parent, found


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended, or is somebody else's
        return ""
