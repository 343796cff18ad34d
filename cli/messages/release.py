"""`oms release`: releases messages that are held back, or discards them, after asking.

Released is handed out again, discarded is delivered: a consumer has it. What is asked for is found out without the
lock, then done in commits of their own: who is interrupted gives the command again.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from oms_journal.broker.kernel.restart.hold import HeldItem
from oms_journal.cli import interrupts, options, output
from oms_journal.cli.broker import held
from oms_journal.cli.broker.held import BY_NUMBER, BY_PRODUCER, BY_UOWID, Split, names_in, numbers_in, split
from oms_journal.cli.failures import ExitCode, Usage
from oms_journal.cli.messages.remove import COMMIT_MESSAGES_MAX, ask, moment
from oms_journal.cli.output import counted
from oms_journal.cli.stores import database, view
from oms_journal.database.view import DatabaseView
from oms_journal.journal.reading.message import Message

BY_PROPERTY = "property:"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

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
ExceptInStore = Annotated[
    Path | None,
    typer.Option(
        "--except",
        metavar="FILE",
        help="Discard what FILE names, one a line: a consumer has it; release the rest. - is standard input.",
    ),
]


@dataclass(slots=True)
class Plan(Split[Any]):
    """What is to be done about held messages, or about what a broker's store holds."""

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
        str | None,
        typer.Option("--queue", "-q", metavar="Q", help="Decide on those of this queue, instead of numbers."),
    ] = None,
    older: Annotated[
        str | None, typer.Option(metavar="AGE", help="Decide only on those older than AGE (90s, 30m, 12h, 7d).")
    ] = None,
    newer: Annotated[str | None, typer.Option(metavar="AGE", help="Decide only on those newer than AGE.")] = None,
    subscriber: Subscriber = None,
    everything: Annotated[bool, typer.Option("--all", help="Decide on all that are held back.")] = False,
    known: ExceptInStore = None,
    by: By = None,
    discard: Annotated[bool, typer.Option("--discard", help="Discard them: a consumer has them.")] = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    wait: options.Wait = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Release what is held back, or discard it, after asking.

    A restore holds messages that may have been delivered since the backup. oms recover --hold holds messages that
    damage may have brought back. To see them, use oms list --held. In the store of a stopped broker, units of work and
    publications are held. There a line of FILE is any of their names, if --by does not say which. oms exits 1 when a
    NUMBER is not held.
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
            held.refuse_several_of_one(plan.discarded)
    if not dry_run and (plan.released or plan.discarded):
        if not as_json:
            _print(plan)
        ask(plan.question(), yes=yes)
        _carry_out(plan, spool, wait)
    _print_done(plan, left, dry_run=dry_run, as_json=as_json)
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
        is_brokers = held.is_brokers(looking)
        if is_brokers:
            every = held.held_of(looking)
            done: Split[Any] = _split_units(held.for_subscriber(every, asked.subscriber), asked)
            count = len(every)
        elif asked.subscriber is not None:
            raise Usage("--subscriber is for a broker's store: this one has no subscriptions")
        else:
            done, count = _split_messages(looking, asked), looking.held_count()
    plan = Plan(done.released, done.discarded, done.unknown, is_by_list=asked.known is not None, is_brokers=is_brokers)
    return plan, count - len(plan.released) - len(plan.discarded)


def _split_units(found: list[HeldItem], asked: _Asked) -> Split[HeldItem]:
    """Return what is to be done about units of work and publications, by what any line of a file may name them."""
    if asked.by not in (None, BY_NUMBER, BY_PRODUCER, BY_UOWID):
        what = f"{BY_NUMBER}, {BY_PRODUCER} or {BY_UOWID}"
        raise Usage(f"--by {asked.by} is not for a broker's store, whose units of work have no properties: {what}")
    if asked.numbers:
        return held.with_numbers(found, asked.numbers)
    ages = _Ages.of(asked)
    fitting = [each for each in found if asked.queue in (None, each.queue) and ages.fit(each.committed)]
    if asked.known is None:
        return Split(fitting)
    names = numbers_in(asked.known) if asked.by == BY_NUMBER else names_in(asked.known)
    return held.by_names(fitting, names, asked.by)


def _split_messages(looking: DatabaseView, asked: _Asked) -> Split[int]:
    """Return what is to be done about messages; they are only read where more than their numbers is asked."""
    names, names_of = _told(asked.known, asked.by)
    if asked.numbers:
        wanted = set(asked.numbers)
        numbers = sorted(number for number in wanted if looking.is_held(number))
        return Split(numbers, unknown=len(wanted) - len(numbers))
    ages = _Ages.of(asked)
    if ages.is_any and names_of is _number_of:
        return split(((number, (str(number),)) for number in looking.held_numbers(asked.queue)), names)
    chosen = (message for message in looking.held(asked.queue) if ages.fit(_microseconds(message.added_at)))
    return split(((message.number, names_of(message)) for message in chosen), names)


def _number_of(message: Message) -> Collection[str]:
    return (str(message.number),)


def _told(file: Path | None, by: str | None) -> tuple[frozenset[str], Callable[[Message], Collection[str]]]:
    """Return what a consumer says that it has, and what of a message may be named so. Usage."""
    if file is None:
        return frozenset(), _number_of
    if by in (None, BY_NUMBER):
        return numbers_in(file), _number_of
    if by == BY_PRODUCER:
        return names_in(file), lambda message: () if message.producer_id is None else (message.producer_id,)
    if by is not None and by.startswith(BY_PROPERTY) and (key := by.removeprefix(BY_PROPERTY)):
        return names_in(file), lambda message: [message.properties[key]] if key in message.properties else []
    raise Usage(f"--by wants number, producer-id or property:NAME, not {by!r}")


@dataclass(frozen=True, slots=True)
class _Ages:
    """Between which times, in microseconds since 1970, something was added; None: at any."""

    before: int | None
    after: int | None

    @classmethod
    def of(cls, asked: _Asked) -> "_Ages":
        before, after = ((asked.older, "--older"), (asked.newer, "--newer"))
        return cls(*(None if age is None else _microseconds(moment(age, option)) for age, option in (before, after)))

    @property
    def is_any(self) -> bool:
        return self.before is None and self.after is None

    def fit(self, at: int) -> bool:
        return (self.before is None or at < self.before) and (self.after is None or at > self.after)


def _microseconds(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def _print(plan: Plan) -> None:
    for sentence in plan.sentences():
        output.print_line(sentence)


def _carry_out(plan: Plan, spool: Path, wait: float) -> None:
    if plan.is_brokers:
        held.carry_out(spool, plan, wait)
        return
    with database(spool, repairs=not plan.discarded, wait_seconds=wait) as db:
        numbers = iter(plan.discarded)
        while part := list(islice(numbers, COMMIT_MESSAGES_MAX)):
            with interrupts.delay_signals():
                db.discard_held(part)
        if plan.released:
            with interrupts.delay_signals():
                db.unhold(plan.released)


def _print_done(plan: Plan, left: int, *, dry_run: bool, as_json: bool) -> None:
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
