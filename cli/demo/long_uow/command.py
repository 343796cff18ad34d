"""`oms long-uow`: a unit of work that takes long, with its user status as progress and as a request to stop."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oms_journal.cli import options, output
from oms_journal.cli.demo.directory import own_directory
from oms_journal.cli.demo.screen import Screen
from oms_journal.cli.failures import ExitCode, Usage
from oms_journal.cli.output import counted

if TYPE_CHECKING:  # the broker is imported when the command runs
    from oms_journal.cli.demo.long_uow.run import Seen, Settings, Who

PAGES_MAX, KILLS_MAX = 1000, 100
SHOWN = 4  # of the sender's looks at a unit of work, about so many are shown


def long_uow(
    spool: Annotated[
        Path | None,
        typer.Option("--spool", "-s", metavar="DIR", help="An empty directory.  [default: a temporary one]"),
    ] = None,
    pages: Annotated[
        int, typer.Option(min=4, max=PAGES_MAX, metavar="N", help="How many pages a unit of work has.")
    ] = 24,
    kills: Annotated[int, typer.Option(min=0, max=KILLS_MAX, metavar="N", help="How many processes are killed.")] = 4,
    seed: Annotated[int, typer.Option(metavar="N", help="Chooses whom and when.")] = 2003,
    as_json: options.AsJson = False,
) -> None:
    """Let a unit of work take long, be watched, and be stopped.

    A sender, a worker and a broker are processes of their own. The worker
    receives a unit of work of many pages, does them one by one, and says in
    its user status how far it is. The sender watches it there. Whoever is
    killed meanwhile is started again, and goes on from what the broker knows.
    Then the sender wants a longer one stopped, by the same user status, and
    the worker cancels it. Exits 1 when anything is not as it should be; the
    directory is kept then.
    """
    from oms_journal.cli.demo.long_uow.run import Run, Settings

    screen = Screen(is_silent=as_json)
    with own_directory(spool, "long-uow") as place:
        settings = Settings(
            spool=place.path if spool is not None else place.path / "spool",
            results=_results(place.path, is_named=spool is not None),
            pages=pages,
            kills=kills,
            seed=seed,
        )
        screen.heading("A unit of work that takes long")
        seen = Run(settings, _Showing(settings, is_silent=as_json).show).run()
        place.is_kept |= not seen.holds
        if not as_json:
            _tell(seen, screen)
    if as_json:
        output.print_json(seen.as_dict() | {"kept": place.is_kept})
    elif place.is_kept:
        screen.facts({"To look around:": f"oms dump --spool {shlex.quote(str(settings.spool))}"})
    if not seen.holds:
        raise typer.Exit(ExitCode.NO)


def _results(place: Path, *, is_named: bool) -> Path:
    """Return where the worker notes what it has done: beside the spool directory, which it is named after."""
    path = place.with_name(f"{place.name}.pages") if is_named else place / "pages"
    if path.exists():
        raise Usage(f"{path} is there already, of another run")
    return path


class _Showing:
    """Prints what the processes do, a line each; of the progress only some."""

    def __init__(self, settings: "Settings", *, is_silent: bool) -> None:
        self._is_silent = is_silent
        self._every = max(1, settings.pages // SHOWN)
        self._status = ""
        self._done = -1

    def show(self, who: "Who", said: dict[str, Any]) -> None:
        text = "" if self._is_silent else self._text(said)
        if text:
            output.print_line(f"  {who.value:7} {text}")
            sys.stdout.flush()

    def _text(self, said: dict[str, Any]) -> str:
        match said:
            case {"killed": page}:
                return f"killed after page {page}"
            case {"ready": _}:
                return "begins"
            case {"begins": _, "done": 0}:
                return "receives the unit of work"
            case {"begins": _, "done": done, "deliveries": count}:
                return f"receives it, attempt {count + 1}, and goes on after page {done}"
            case {"ends": _, "status": status, "user_status": user_status}:
                return f"ends it: {status}, {user_status!r}"
            case {"hears": status, "user_status": user_status}:
                return self._heard(status, user_status)
            case _:
                return ""

    def _heard(self, status: str, user_status: str) -> str:
        from oms_journal.cli.demo.long_uow.work import Progress

        progress = Progress.read(user_status)
        if status == self._status and not progress.is_stop and progress.done < self._done + self._every:
            return ""
        self._status, self._done = status, progress.done
        return f"hears {status}, {user_status!r}"


def _tell(seen: "Seen", screen: Screen) -> None:
    """Print what was seen, and the verdict."""
    screen.heading("What was seen")
    facts = {}
    for act, name in zip(seen.acts, ("first", "second"), strict=True):
        done = seen.done[act.uowid]
        killed = ", ".join(who.value for who in act.killed) or "nobody"
        facts[f"the {name}"] = f"{len(done)} of {counted(act.pages, 'page')} done, {act.heard[-1][0]}"
        facts[f"the {name}, killed"] = f"{killed}; {counted(done.total() - len(done), 'page')} done again"
    screen.facts(facts | {"took": f"{seen.seconds:.0f} s, seed {seen.settings.seed}"})
    if seen.holds:
        screen.heading("Verdict: it holds. No page was left out, and the request to stop was heard.")
    else:
        screen.heading(f"Verdict: it does NOT hold; {counted(len(seen.findings), 'difference')}.")
    for text in seen.findings:
        screen.say(f"- {text}")
