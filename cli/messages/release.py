"""`oms release`: decide about the messages that are held back, by what somebody knows of them, after asking.

Released is handed out again, discarded is delivered: a consumer has it. What is asked for is found out without the
lock, then done in commits of their own: who is interrupted gives the command again.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oms_journal.cli import interrupts, options, output
from oms_journal.cli.broker import held as held_units
from oms_journal.cli.broker.held import BY_NUMBER, BY_PRODUCER, BY_UOWID
from oms_journal.cli.failures import ExitCode, Usage
from oms_journal.cli.messages.remove import COMMIT_MESSAGES_MAX, ask, moment
from oms_journal.cli.messages.sources import lines_of
from oms_journal.cli.output import counted
from oms_journal.cli.stores import database, view

if TYPE_CHECKING:  # the engine is imported when a command needs it
    from oms_journal.broker.kernel.restart.hold import HeldItem
    from oms_journal.database.view import DatabaseView
    from oms_journal.journal.reading.message import Message

BY_PROPERTY = "property:"

By = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="What a line of FILE is: number, producer-id, property:NAME; of a broker's store also uowid.",
        show_default=False,
    ),
]
Subscriber = Annotated[
    str | None,
    typer.Option(
        "--subscriber",
        metavar="WHO",
        help="Of a broker's store: only what is held for WHO, a USER-ID or a subscription's identifier.",
    ),
]
Except = Annotated[
    Path | None,
    typer.Option(
        "--except",
        metavar="FILE",
        help="Discard what FILE names, one a line: a consumer has it; release the rest. - is standard input.",
    ),
]


@dataclass(slots=True)
class Plan:
    """What is to be done about held messages."""

    released: Collection[Any] = ()  # numbers, or what a broker's store holds
    discarded: Collection[Any] = ()
    unknown: int = 0  # of what was named, so many are not held
    is_by_list: bool = False  # what is discarded was named, the rest is released
    is_brokers: bool = False

    def question(self) -> str:
        verbs = [("Discard", self.discarded), ("Release", self.released)]
        return " and ".join(f"{verb} {len(found):,}" for verb, found in verbs if found) + "?"

    def sentences(self) -> Iterable[str]:
        """Yield what will be done, and what was named for nothing."""
        what = "held unit of work or publication" if self.is_brokers else "held message"
        several = "held units of work and publications" if self.is_brokers else "held messages"
        if self.discarded:
            yield f"{counted(len(self.discarded), what, several)} to discard: delivered, and never handed out again."
        if self.released:
            yield f"{counted(len(self.released), what, several)} to release: handed out again."
        if self.is_by_list and self.released and not self.discarded:
            yield "Nothing of what is held was named by the list: is it the right one, and --by what its lines are?"
        if self.unknown:
            yield f"{self.unknown:,} of what was named {'is' if self.unknown == 1 else 'are'} not among them."


def release(  # noqa: PLR0913
    numbers: Annotated[
        list[int] | None,
        typer.Argument(min=1, metavar="[NUMBER]...", help="The messages.", show_default=False),
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", "-q", metavar="Q", help="Instead: those of this queue.")
    ] = None,
    older: Annotated[str | None, typer.Option(metavar="AGE", help="Those older than AGE (90s, 30m, 12h, 7d).")] = None,
    newer: Annotated[str | None, typer.Option(metavar="AGE", help="Those newer than AGE.")] = None,
    subscriber: Subscriber = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are held back.")] = False,
    known: Except = None,
    by: By = None,
    discard: Annotated[bool, typer.Option("--discard", help="Discard them: a consumer has them.")] = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    wait: options.Wait = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Release what is held back, or discard it, after asking.

    A restore holds what may have been delivered since its backup, oms recover --hold what damage
    may have brought back; oms list --held shows them. Of a stopped broker's store it is units of work
    and publications; a line of FILE is any of their names there, if --by does not say which.
    Exits 1 when a NUMBER is not held.
    """
    filters = [one is not None for one in (queue, older, newer, known)]
    is_filtered = any(filters) or (subscriber is not None and not numbers)
    if sum((bool(numbers), everything, is_filtered)) != 1:
        which = "NUMBERs, or any of --queue, --older, --newer, --subscriber and --except, or --all"
        raise Usage(f"say which: {which}")
    if known is not None and discard:
        raise Usage("--except says what to discard already: give it without --discard")
    if by is not None and known is None:
        raise Usage("--by goes with --except FILE")
    plan, left = _planned(spool, _Asked(numbers, queue, older, newer, subscriber, known, by))
    if discard:
        plan.released, plan.discarded = (), plan.released
        if numbers and plan.is_brokers:
            held_units.refuse_several_of_one(plan.discarded)
    if not dry_run and (plan.released or plan.discarded):
        if not as_json:
            _print(plan)
        ask(plan.question(), yes=yes)
        _carry_out(plan, spool, wait)
    _tell(plan, left, dry_run=dry_run, as_json=as_json)
    if numbers and plan.unknown:
        raise typer.Exit(ExitCode.NO)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked for."""

    numbers: Collection[int] | None
    queue: str | None
    older: str | None
    newer: str | None
    subscriber: str | None
    known: Path | None
    by: str | None


def _planned(spool: Path, asked: _Asked) -> tuple[Plan, int]:
    """Return what is to be done, and how much is held after it. Of a broker's store the broker does it."""
    with view(spool) as looking:
        if held_units.is_brokers(looking):
            found = held_units.held_of(looking)
            plan = _plan_of_broker(held_units.of(found, asked.subscriber), asked)
            return plan, len(found) - len(plan.released) - len(plan.discarded)
        if asked.subscriber is not None:
            raise Usage("--subscriber is for a broker's store: this one has no subscriptions")
        told = _told(asked.known, asked.by)
        if asked.numbers:
            plan = _named(looking, asked.numbers)
        else:
            plan = _plan(looking, asked.queue, _between(asked.older, asked.newer), told)
        return plan, looking.held_count() - len(plan.released) - len(plan.discarded)


def _plan_of_broker(found: "list[HeldItem]", asked: _Asked) -> Plan:
    """Return the same of units of work and publications, by what any line of a file may name them."""
    if asked.by not in (None, BY_NUMBER, BY_PRODUCER, BY_UOWID):
        what = f"{BY_NUMBER}, {BY_PRODUCER} or {BY_UOWID}"
        raise Usage(f"--by {asked.by} is not for a broker's store, whose units of work have no properties: {what}")
    if asked.numbers:
        chosen, unknown = held_units.named(found, asked.numbers)
        return Plan(chosen, unknown=unknown, is_brokers=True)
    before = None if asked.older is None else moment(asked.older, "--older")
    after = None if asked.newer is None else moment(asked.newer, "--newer")
    fitting = held_units.between(found, asked.queue, before, after)
    if asked.known is None:
        return Plan(fitting, is_brokers=True)
    names = _numbers(asked.known) if asked.by == BY_NUMBER else frozenset(_names(asked.known).values())
    released, discarded, unknown = held_units.split(fitting, names, asked.by)
    held_units.refuse_several(fitting, discarded)
    return Plan(released, discarded, unknown, is_by_list=True, is_brokers=True)


def _names(file: Path) -> dict[int, str]:
    """Return what a file says, by its lines; Usage where it says nothing."""
    return lines_of(file, "--except")


@dataclass(frozen=True, slots=True)
class _Told:
    """What a consumer says that it has."""

    names: frozenset[str]
    name_of: Callable[["Message"], str | None] | None  # None: they are numbers


def _told(file: Path | None, by: str | None) -> _Told | None:
    """Return what a file says, one a line; Usage where that cannot be what is meant."""
    if file is None:
        return None
    if by in (None, BY_NUMBER):
        name_of = None
    elif by == BY_PRODUCER:

        def name_of(message: "Message") -> str | None:
            return message.producer_id

    elif by is not None and by.startswith(BY_PROPERTY) and (key := by.removeprefix(BY_PROPERTY)):

        def name_of(message: "Message") -> str | None:
            return message.properties.get(key)

    else:
        raise Usage(f"--by wants number, producer-id or property:NAME, not {by!r}")
    if name_of is None:
        return _Told(_numbers(file), None)
    return _Told(frozenset(_names(file).values()), name_of)


def _numbers(file: Path) -> frozenset[str]:
    """Return the message numbers that a file says, without zeros in front; however long, none is counted with."""
    names = _names(file)
    wrong = next((at for at, name in names.items() if not (name.isascii() and name.isdecimal())), None)
    if wrong is not None:
        raise Usage(f"--except: {file}, line {wrong}: {names[wrong]!r} is no message number; see --by")
    return frozenset(name.lstrip("0") or "0" for name in names.values())


def _between(older: str | None, newer: str | None) -> "Callable[[Message], bool] | None":
    """Return whether a message is of the right age; None where any age is."""
    if older is None and newer is None:
        return None
    before = None if older is None else moment(older, "--older")
    after = None if newer is None else moment(newer, "--newer")

    def fits(message: "Message") -> bool:
        return (before is None or message.added_at < before) and (after is None or message.added_at > after)

    return fits


def _named(looking: "DatabaseView", numbers: Iterable[int]) -> Plan:
    wanted = set(numbers)
    held = sorted(number for number in wanted if looking.is_held(number))
    return Plan(held, unknown=len(wanted) - len(held))


def _plan(
    looking: "DatabaseView", queue: str | None, fits: "Callable[[Message], bool] | None", told: _Told | None
) -> Plan:
    """Return what is to be done; messages are only read where more than their numbers is asked."""
    if fits is None and (told is None or told.name_of is None):
        pairs = ((number, str(number)) for number in looking.held_numbers(queue))
        return _split(((number, name) for number, name in pairs), told)
    name_of = told.name_of if told is not None and told.name_of is not None else lambda message: str(message.number)
    chosen = (message for message in looking.held(queue) if fits is None or fits(message))
    return _split(((message.number, name_of(message)) for message in chosen), told)


def _split(found: Iterable[tuple[int, str | None]], told: _Told | None) -> Plan:
    if told is None:
        return Plan([number for number, _ in found])
    released: list[int] = []
    discarded: list[int] = []
    met: set[str] = set()
    for number, name in found:
        if name is not None and name in told.names:
            discarded.append(number)
            met.add(name)
        else:
            released.append(number)
    return Plan(released, discarded, unknown=len(told.names) - len(met), is_by_list=True)


def _print(plan: Plan) -> None:
    for sentence in plan.sentences():
        output.print_line(sentence)


def _carry_out(plan: Plan, spool: Path, wait: float) -> None:
    if plan.is_brokers:
        held_units.carry_out(spool, plan.released, plan.discarded, wait)
        return
    with database(spool, repairs=not plan.discarded, wait_seconds=wait) as db:
        numbers = iter(plan.discarded)
        while part := list(islice(numbers, COMMIT_MESSAGES_MAX)):
            with interrupts.held_back():
                db.discard_held(part)
        if plan.released:
            with interrupts.held_back():
                db.unhold(plan.released)


def _tell(plan: Plan, left: int, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        found = {"released": len(plan.released), "discarded": len(plan.discarded)}
        output.print_json(found | {"unknown": plan.unknown, "held": left, "dry_run": dry_run}, indent=None)
        return
    if dry_run:
        _print(plan)
        output.print_line(f"Nothing was changed; {left:,} would stay held back.")
        return
    if not (plan.released or plan.discarded):
        _print(plan)  # which was not asked about
    done = f"{len(plan.released):,} released, {len(plan.discarded):,} discarded"
    output.print_line(f"{done}; {f'{left:,}' if plan.is_brokers else counted(left, 'message')} held back.")
