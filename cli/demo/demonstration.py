"""The frame of a demonstration: a directory of its own, what is shown there, the verdict, the exit code."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import typer

from oms_journal.cli import output
from oms_journal.cli.demo.screen import Screen
from oms_journal.cli.failures import ExitCode, Usage


class Shown(Protocol):
    """What a demonstration has seen."""

    @property
    def holds(self) -> bool:
        """Whether all is as it should be."""

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs."""


S = TypeVar("S", bound=Shown)


@dataclass(slots=True)
class Place:
    """A spool directory, and whether it stays. What lies beside it, its name begins with the directory's."""

    spool: Path
    is_kept: bool


def demonstrate(
    place: Place, show: Callable[[Screen], S], look_around: Callable[[], Mapping[str, str]], *, as_json: bool
) -> S:
    """Show what there is to be shown, and say what was seen. It exits with NO, and the place stays, unless it holds.

    `look_around` returns how a person looks around in a place that stays.
    """
    screen = Screen(is_silent=as_json)
    seen = show(screen)
    place.is_kept |= not seen.holds
    if as_json:
        output.print_json(seen.as_dict() | {"kept": place.is_kept})
    elif place.is_kept:
        screen.facts(look_around())
    if not seen.holds:
        raise typer.Exit(ExitCode.NO)
    return seen


@contextmanager
def own_place(named: Path | None, what: str, *, keep: bool = False) -> Iterator[Place]:
    """Yield a directory that nothing is in: the one that was named, or a temporary one, removed unless it stays.

    `what` needs it: "demo". Usage where the one that was named holds anything: it may be somebody's.
    """
    if named is not None:
        if named.exists() and (not named.is_dir() or any(named.iterdir())):
            raise Usage(f"--spool {named} is not an empty directory; the {what} needs one of its own")
        yield Place(named.absolute(), is_kept=True)
        return
    folder = Path(tempfile.mkdtemp(prefix=f"oms-{what}-"))
    place = Place(folder / "spool", is_kept=keep)
    try:
        yield place
    finally:
        if not place.is_kept:
            shutil.rmtree(folder, ignore_errors=True)
