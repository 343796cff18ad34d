"""`oms cmd`: gives a running broker an operator's command, and asks before one that destroys something."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from oms_journal.broker.admin.commands import COMMANDS
from oms_journal.cli import options, output
from oms_journal.cli.broker import operator
from oms_journal.cli.broker.queries import shown
from oms_journal.cli.failures import Usage
from oms_journal.cli.output import Column, counted, printable

_OPTIONS = (
    "IMMED",
    "QUIESCE",
    "ACCEPTED",
    "CANCELLED",
    "PROCESSED",
    "DISCARDED",
    *(f"LEVEL{number}" for number in range(1, 9)),
)

CommandWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[COMMAND] [OBJECT] [OPTION] [NAME=VALUE]...",
        help="What to do, and to what; without a command, what there is.",
        show_default=False,
    ),
]


ExceptAtBroker = Annotated[
    Path | None,
    typer.Option(
        "--except",
        metavar="FILE",
        help="With RELEASE: discard as PROCESSED what FILE names, one a line; release the rest. - is standard input.",
    ),
]


def command(  # noqa: PLR0913 - the command line's options
    words: CommandWords = None,
    known: ExceptAtBroker = None,
    yes: options.Yes = False,
    broker: operator.Broker = operator.BROKER_DEFAULT,
    user: operator.User = "",
    password: operator.Password = "",
    ca_file: operator.CaFile = "",
    as_json: options.AsJson = False,
) -> None:
    """Give a running broker a command: shut down, purge, set a status …

    `oms cmd` lists the commands. With NAME=VALUE you say what a command is about: `oms cmd SHUTDOWN SERVICE QUIESCE
    service=GAME/CHESS/BLACK`, `oms cmd PURGE uowid=…`.
    """
    server = operator.Server(broker, user, password, ca_file)
    plain, said = operator.said_of(words or ())
    if not plain:
        _list(server.get("command", has="commands"), as_json=as_json)
        return
    order = _order(plain, said)
    if known is not None:
        _release_rest(server, order, known, yes=yes, as_json=as_json)
        return
    _confirm(order, yes=yes)
    answer = server.post("/command", order)
    if as_json:
        output.print_json(answer)
        return
    done = f"{answer['command']} done"
    output.print_line(f"{done}, {counted(answer['affected'], 'thing')} affected" if answer["affected"] > 1 else done)
    for row in answer["rows"]:
        output.print_line(", ".join(f"{name} {shown(name, value)}" for name, value in row.items()))


def _release_rest(server: operator.Server, order: dict[str, Any], known: Path, *, yes: bool, as_json: bool) -> None:
    """Release what is held but for what a file names, which is discarded as PROCESSED."""
    from oms_journal.cli.broker import held  # takes the engine, which no other command to a broker does

    held.check_order(order)
    found, split = held.compare_list(server, order, held.names_in(known))
    if found and not split.discarded:
        output.note(f"nothing of what is held is named in {known}: is it the right list?")
    if not yes and found:
        if not sys.stdin.isatty():
            raise Usage("there is no terminal to ask on: give --yes to RELEASE without a question")
        question = (
            f"Discard {len(split.discarded):,} as PROCESSED, which {known} names, and release {len(split.released):,}?"
        )
        typer.confirm(printable(question), abort=True, err=True)
    done = {"DISCARD": 0, "RELEASE": 0}
    for each in held.orders(order, found, split):
        done[each["command"]] += held.give_order(server, each)
    released, discarded = done["RELEASE"], done["DISCARD"]
    if as_json:
        output.print_json({"released": released, "discarded": discarded, "unknown": split.unknown})
        return
    output.print_line(f"{released:,} released, {discarded:,} discarded as PROCESSED")
    if split.unknown:
        output.print_line(f"{split.unknown:,} of what {known} names {'is' if split.unknown == 1 else 'are'} not held")


def _order(plain: Sequence[str], said: Sequence[tuple[str, str]]) -> dict[str, Any]:
    order: dict[str, Any] = {"command": plain[0].upper()}
    for word in map(str.upper, plain[1:]):
        place = "option" if word in _OPTIONS else "object"
        if place in order:
            raise Usage(f"{order[place]} and {word} cannot both be the {place}; `oms cmd` lists objects and options")
        order[place] = word
    for name, value in said:
        if name in order:
            raise Usage(f"{name} is said twice")
        order[name] = _value(name, value)
    return order


def _value(name: str, value: str) -> Any:
    if name == "client_id":
        if not value.isascii() or not value.isdigit():
            raise Usage(f"client_id={value} is no number; `oms info PARTICIPANT` shows it")
        return int(value)
    if name in ("exclude_attach", "all"):
        if value.lower() not in ("yes", "no", "true", "false"):
            raise Usage(f"{name} is yes or no, not {value!r}")
        return value.lower() in ("yes", "true")
    return value


def _confirm(order: dict[str, Any], *, yes: bool) -> None:
    """Ask before something is lost or somebody cut off; without a terminal there is nobody to ask."""
    known = COMMANDS.get(order["command"].replace("_", "-"))
    if yes or known is None or not known.destroys:
        return
    if not sys.stdin.isatty():
        raise Usage(f"there is no terminal to ask on: give --yes to {known.name} without a question")
    about = " ".join(str(value) for name, value in order.items() if name != "command" and value not in ("", True))
    typer.confirm(printable(f"{known.name} {about}: {known.says}?"), abort=True, err=True)


def _list(there: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(there)
        return
    rows = [
        (each["command"], " ".join(each["objects"]), " ".join(_short(each["options"])), each["says"])
        for each in there["commands"]
    ]
    output.print_table(
        [Column("command"), Column("object", wraps=True), Column("option", wraps=True), Column("")], rows
    )


def _short(names: Sequence[str]) -> Sequence[str]:
    """Return options as they are listed: levels as one."""
    levels = [name for name in names if name.startswith("LEVEL")]
    return [f"{levels[0]}…{levels[-1]}"] if levels else names
