"""`oms demo`: the main job on real input, with kills on the way, and a verdict."""

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options, output
from cli.demo_flights import FLIGHTS
from cli.demo_screen import Screen
from cli.failures import ExitCode, Usage
from cli.wording import counted, size_text
from journal.iotest_place import look_at

if TYPE_CHECKING:  # the engine is imported when the command runs
    from cli.demo_seen import Seen

FLIGHTS_MIN = 1000  # a day and more: from its first hour on a cancelled flight keeps the files
IN_MEMORY = ("tmpfs", "ramfs")


def demo(  # noqa: PLR0913
    spool: Annotated[
        Path | None,
        typer.Option(
            "--spool", "-s", metavar="DIR", help="An empty directory; it is kept.  [default: a temporary one]"
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary directory.")] = False,
    flights: Annotated[
        int, typer.Option(min=FLIGHTS_MIN, max=FLIGHTS, metavar="N", help="Only the first N flights of the year.")
    ] = FLIGHTS,
    rounds: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="How many writers are killed.")] = 2,
    seed: Annotated[int, typer.Option(metavar="N", help="Chooses the moments of the kills.")] = 2013,
    as_json: options.AsJson = False,
) -> None:
    """Run the main job on 336,776 real flights, a kill included.

    Writes what happened to the flights that left New York City in 2013,
    kills the writer in the middle of its commits, recovers, proves that
    nothing acknowledged is lost and nothing is there by half, goes on,
    cleans up, and says what it saw. Takes about a minute at most.
    Exits 1 when the proof fails; the directory is kept then.
    """
    from cli.demo_seen import Settings
    from cli.demo_steps import Demo

    screen = Screen(is_silent=as_json)
    with _directory(spool, keep=keep) as place:
        seen = Demo(Settings(spool=place.path, flights=flights, rounds=rounds, seed=seed), screen).run()
        place.is_kept |= not seen.holds
        _tell(seen, screen)
    if as_json:
        output.print_json(seen.as_dict() | {"kept": place.is_kept})
    elif place.is_kept:
        screen.facts({"To look around:": f"oms stats --spool {shlex.quote(str(place.path))}"})
    if not seen.holds:
        raise typer.Exit(ExitCode.NO)


class _Place:
    """The spool directory, and whether it stays."""

    def __init__(self, path: Path, *, is_kept: bool) -> None:
        self.path = path
        self.is_kept = is_kept


@contextmanager
def _directory(named: Path | None, *, keep: bool) -> Iterator[_Place]:
    """Yield a directory that nothing is in; remove it at the end unless it stays."""
    if named is not None:
        if named.exists() and (not named.is_dir() or any(named.iterdir())):
            raise Usage(f"{named} is not an empty directory; the demo needs one of its own")
        yield _Place(named.absolute(), is_kept=True)
        return
    place = _Place(Path(tempfile.mkdtemp(prefix="oms-demo-")), is_kept=keep)
    try:
        yield place
    finally:
        if not place.is_kept:
            shutil.rmtree(place.path, ignore_errors=True)


def _tell(seen: "Seen", screen: Screen) -> None:
    """Print what was seen, in figures, and the verdict."""
    screen.heading("What was seen")
    spool = seen.settings.spool
    mount = look_at(spool).mount
    system = mount.file_system if mount is not None else "unknown file system"
    in_memory = ": in memory, the rates are not a disk's" if system in IN_MEMORY else ""
    begun = sum(each.under_way for each in seen.rounds)
    whole = sum(len(each.outcome.whole) for each in seen.rounds)
    recoveries = ", ".join(f"{each.recovery.seconds:.2f} s" for each in seen.rounds)
    facts = {
        "directory": f"{spool} ({system}{in_memory})",
        "written": f"{counted(seen.acknowledged, 'operation')}, {seen.rate:,.0f} a second, every commit durable",
        "killed": f"{counted(len(seen.rounds), 'writer')}, {begun:,} commits begun: {whole:,} got through whole",
        "recovered": f"in {recoveries}",
    }
    if seen.compaction is not None:
        left = seen.bytes - seen.compaction.freed_bytes
        facts["files"] = f"{len(seen.files):,}, {size_text(seen.bytes)}; {size_text(left)} after clean-up"
    screen.facts(facts | {"took": f"{seen.seconds:.0f} s"})
    screen.heading(_verdict(seen))
    for text in seen.findings.texts:
        screen.say(f"- {text}")
    if more := seen.findings.count - len(seen.findings.texts):
        screen.say(f"- and {more:,} more")


def _verdict(seen: "Seen") -> str:
    if seen.holds:
        return f"Verdict: it holds. All {seen.acknowledged:,} acknowledged operations are there, none by half."
    return f"Verdict: it does NOT hold; {counted(seen.findings.count, 'difference')}."
