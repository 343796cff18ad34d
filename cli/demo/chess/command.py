"""`oms chess`: chess-by-mail over a broker, a whole game between processes that are killed, or move by move by hand."""

import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from oms_journal.cli import options, output
from oms_journal.cli.demo.chess.match import Match, MatchSettings, Played, Visit
from oms_journal.cli.demo.chess.pgn import OPERA, RESULTS, Game, PgnError, Side, move_fault, numbered, read, written
from oms_journal.cli.demo.chess.scoresheet import Sheet, sheet_path
from oms_journal.cli.demo.chess.step import ATTRIBUTES, BROKER_ID, Call, Outcome, Said, open_broker, step
from oms_journal.cli.demo.demonstration import demonstrate, own_place
from oms_journal.cli.demo.screen import WIDTH_MAX, Screen
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.interrupts import delay_signals
from oms_journal.cli.output import counted
from oms_journal.journal.names import DataFileName, parse

KILLS, KILLS_MAX, SEED = 12, 1000, 1858


def chess(  # noqa: PLR0913
    side: Annotated[
        Side | None, typer.Argument(help="Make one step of a game by hand, for this side.", show_default=False)
    ] = None,
    move: Annotated[
        str | None,
        typer.Argument(help="Its move as a PGN has it, or a result; else it looks.", show_default=False),
    ] = None,
    spool: Annotated[
        Path | None,
        typer.Option("--spool", "-s", metavar="DIR", help="The game's directory.  [default: a temporary one]"),
    ] = None,
    pgn: Annotated[
        Path | None, typer.Option("--pgn", metavar="FILE", help="The game to play.  [default: Morphy at the opera]")
    ] = None,
    kills: Annotated[
        int | None, typer.Option(min=0, max=KILLS_MAX, metavar="N", help=f"How many are killed.  [default: {KILLS}]")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help=f"Chooses the moments of the kills.  [default: {SEED}]")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Play chess by mail over a broker: a whole game, with kills.

    White is a client, black a server. They never run at the same time. They exchange their moves as persistent units of
    work on one long conversation. Each is a process that opens a broker on the spool directory, makes one step and
    ends, or is killed in the middle of it. In the end oms compares the game with what the broker has delivered to each
    of them. If it is not each move once, in order, oms exits 1 and keeps the directory.

    With a side you make one step by hand: `oms chess white e4 --spool DIR`. Then look with `oms chess black --spool
    DIR`. oms checks how a move is written. It does not check whether the move is legal.
    """
    if side is None:
        settings = _game(pgn), KILLS if kills is None else kills, SEED if seed is None else seed
        _play(spool, *settings, as_json=as_json)
        return
    if (pgn, kills, seed) != (None, None, None):
        raise Usage("--pgn, --kills and --seed are for a whole game, without white or black")
    if spool is None:
        raise Usage("--spool DIR is missing: the directory of the game")
    _make_step(spool, side, move, as_json=as_json)


def _game(pgn: Path | None) -> Game:
    try:
        return read(pgn or OPERA)
    except PgnError as fault:
        raise Usage(f"--pgn {fault}") from fault
    except OSError as failure:
        raise Usage(f"--pgn {pgn} cannot be read: {failure.strerror}") from failure


# A whole game.


def _play(spool: Path | None, game: Game, kills: int, seed: int, *, as_json: bool) -> None:
    def watch(visit: Visit) -> None:
        _show(visit, is_last=visit.place == len(game.moves))

    with own_place(spool, "chess") as place:
        _check_beside(place.spool)
        settings = MatchSettings(spool=place.spool, game=game, kills=kills, seed=seed)

        def show(screen: Screen) -> Played:
            _introduce(game, screen)
            played = Match(settings, watch if not as_json else lambda _: None).run()
            _print_seen(played, screen)
            return played

        look_around = {"To look around:": f"oms dump --spool {shlex.quote(str(settings.spool))}"}
        demonstrate(place, show, lambda: look_around, as_json=as_json)


def _check_beside(spool: Path) -> None:
    """Usage where a scoresheet lies already: they lie beside the spool directory."""
    for path in (sheet_path(spool, side) for side in Side):
        if path.exists():
            raise Usage(f"{path} is there already, of another game")


def _introduce(game: Game, screen: Screen) -> None:
    named = [game.tags.get(name, "?") for name in ("White", "Black", "Site", "Date")]
    screen.heading(f"{named[0]} – {named[1]}, {named[2]}, {named[3].removesuffix('.??.??')}")
    screen.explain(
        "Every line is a process: it opens a broker on the spool directory, asks for its last unit of work "
        "(SYNCPOINT OPTION=LAST; 00780305: it has none), receives the other side's move, answers it in the same "
        "commit, and ends. Who was killed is started again, and finds out by LAST how far it had come."
    )
    if not screen.is_silent:
        output.print_line(_row("", "", "LAST says", "receives", "sends", "unit of work"))


def _row(*cells: str) -> str:
    number, side, last, received, sent, end = cells
    return f"{number:>5} {side:6} {last:10} {received:9} {sent:9} {end}".rstrip()


def _show(visit: Visit, *, is_last: bool) -> None:
    """Print what one process did."""
    last, received, sent, end = visit.answer(Call.LAST), visit.answer(Call.RECEIVE), "", ""
    for call in (Call.SEND_FIRST, Call.SEND, Call.COMMIT, Call.COMMIT_BOTH):
        if (answered := visit.answer(call)) is not None:
            end, sent = answered[0], answered[1] or sent
    match visit.outcome:
        case None:
            after = visit.calls[-1][0].name.replace("_", " ") if visit.calls else ""
            end = f"killed after {after}" if after else "killed while the broker began"
        case Outcome.WAITS | Outcome.OVER if visit.is_late:
            end = "the commit had got through"
        case Outcome.WAITS:
            end = "waits for the other side"
        case Outcome.OVER:
            end = "the game is over"
        case _:
            pass
    number = "end" if is_last else f"{visit.place // 2 + 1}."
    answers = ("" if last is None else last[0], "" if received is None else received[1], sent)
    output.print_line(_row(number, visit.side.value, *answers, end))
    sys.stdout.flush()


def _print_seen(played: Played, screen: Screen) -> None:
    """Print what was seen, and the verdict."""
    settings, moves = played.settings, played.settings.game.moves
    screen.heading("What was seen")
    facts = {
        "game": f"{counted(len(moves) - 1, 'move')} and the result, {moves[-1]}",
        "processes": f"{len(played.visits)}, each with a broker of its own; {played.kills} killed, "
        f"seed {settings.seed}",
    }
    for side, score in played.scores.items():
        again = score.deliveries - len(score.received)
        facts[side.value] = (
            f"received {counted(len(score.received), 'unit')} of work, {again} of them once more after a kill; "
            f"sent {len(score.sent)}"
        )
    screen.facts(facts | {"took": f"{played.seconds:.0f} s"})
    text = "Each side has recorded the game, each move once, in order."
    screen.verdict(text, played.findings, len(played.findings), holds=played.holds)


# One step by hand.


def _make_step(spool: Path, side: Side, move: str | None, *, as_json: bool) -> None:
    said = None if move is None else _written(move)
    _check_directory(spool, begins=side is Side.WHITE and move is not None)

    def choose(moves: Sequence[str]) -> str | None:
        fault = "" if said is None else move_fault(said, moves)
        if fault:
            raise Usage(f"{fault}; nothing was sent")
        return said

    calls: list[Said] = []
    with delay_signals(), open_broker(spool, BROKER_ID, **ATTRIBUTES) as broker:
        sheet = Sheet(spool, side)
        outcome = step(broker, side, sheet, choose, calls.append)
    moves = list(sheet.score.moves)
    if outcome is Outcome.TO_MOVE and sheet.score.heard is not None:
        moves.append(sheet.score.heard.move)
    if as_json:
        output.print_json(_document(side, outcome, moves, calls))
    else:
        _print_step(spool, side, outcome, moves, calls)
    if said is not None and outcome is not Outcome.MOVED:
        raise Failure(f"{said} was not sent", ExitCode.NO)


def _written(move: str) -> str:
    found = written(move)
    if found is None:
        shown = move or "an empty text"
        raise Usage(f"{shown} is no move as a PGN has it (e4, Nbd7, exd8=Q+, O-O), nor one of {', '.join(RESULTS)}")
    return found


def _check_directory(spool: Path, *, begins: bool) -> None:
    """Fail unless a game is there, or can begin there."""
    if spool.exists() and not spool.is_dir():
        raise Usage(f"--spool {spool} is not a directory")
    names = [path.name for path in spool.iterdir()] if spool.exists() else []
    if not names and not begins:
        advice = f"white begins one: oms chess white MOVE --spool {shlex.quote(str(spool))}"
        raise Usage(f"--spool {spool} holds no game; {advice}")
    if names and not any(isinstance(parse(name), DataFileName) for name in names):
        raise Usage(f"--spool {spool} holds other things, and no game: give a directory of its own")


def _document(side: Side, outcome: Outcome, moves: Sequence[str], calls: Sequence[Said]) -> dict[str, Any]:
    return {
        "side": side.value,
        "outcome": outcome.value,
        "moves": list(moves),
        "calls": [{"call": said.call.value, "answer": said.answer, "move": said.move} for said in calls],
    }


def _print_step(spool: Path, side: Side, outcome: Outcome, moves: Sequence[str], calls: Sequence[Said]) -> None:
    for said in calls:
        output.print_line(f"  {said.call.value:36} {said.answer:12} {said.move}".rstrip())
    output.print_line()
    for line in textwrap.wrap(numbered(moves), WIDTH_MAX - 2, break_on_hyphens=False):
        output.print_line(f"  {line}")
    output.print_line(f"  {_next(side, outcome, moves, shlex.quote(str(spool)))}")


def _next(side: Side, outcome: Outcome, moves: Sequence[str], spool: str) -> str:
    """Say how the game stands, and what can be done."""
    other = side.other.value
    match outcome:
        case Outcome.MOVED if moves[-1] in RESULTS:
            return f"The game is over; {other} has yet to hear of it: oms chess {other} --spool {spool}"
        case Outcome.MOVED:
            return f"It is {other}'s turn: oms chess {other} MOVE --spool {spool}"
        case Outcome.TO_MOVE:
            return f"It is {side.value}'s turn: oms chess {side.value} MOVE --spool {spool}"
        case Outcome.WAITS:
            return f"{other.capitalize()} has not answered yet; it is {other}'s turn."
        case Outcome.LOST:
            return f"The last move was never received by {other}: the game is lost."
        case Outcome.NO_GAME:
            return f"No game is in progress; white begins: oms chess white MOVE --spool {spool}"
        case _:
            return f"The game is over: {moves[-1]}"
