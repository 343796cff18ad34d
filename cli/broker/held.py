"""What is held back, whoever decides about it: by message, of a stopped broker's store, or at a broker that runs.

Held messages are decided about by their numbers or what they carry (`messages/release.py`). What a broker's store holds
is decided about by unit of work and subscription, as its broker would do it: `oms list --held` and `oms release` look
into the store, which changes nothing and works while the broker runs; deciding starts a broker on the stopped store,
which gives the same commands as an operator gives to one that runs, and ends it. `oms cmd RELEASE … --except FILE` asks
a running broker for what is held, by pages, and compares it here, so that FILE may be of any length.

What a consumer says it has, in a file or by name, is discarded as PROCESSED, the rest is released. It is done in steps
of bounded size, the oldest first: who is interrupted gives the command again, for what is left.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

from oms_journal.broker.admin.codes import CisRefused
from oms_journal.broker.admin.commands import SELECTORS, parse_command
from oms_journal.broker.codes import BrokerError
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.kernel.restart.hold import HeldItem, Records, held_in
from oms_journal.broker.kernel.state.effects import (
    Command,
    DiscardHeld,
    DiscardPublications,
    ReleaseHeld,
    ReleasePublications,
)
from oms_journal.broker.records import MASTER, MASTER_KEY, RecordError, Status
from oms_journal.broker.store.start import StartRefused
from oms_journal.cli import interrupts, output
from oms_journal.cli.broker.operator import Server
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.messages.sources import lines_of
from oms_journal.cli.output import iso_microseconds
from oms_journal.cli.stores import view, waited_for
from oms_journal.database.view import DatabaseView
from oms_journal.journal.errors import DatabaseLocked

BY_NUMBER, BY_PRODUCER, BY_UOWID = "number", "producer-id", "uowid"  # a PUBLICATION-ID is meant by the last as well
SUBSCRIPTIONS_MAX = 10  # in a message
AT_ONCE = 1000  # identifiers of a command, and rows of an answer
_NOTHING_HELD = (902, 903)  # codes of the command and information services
_UNITS = ("conv_id", "user_id", "token", "server_class", "server_name", "service")

T = TypeVar("T")


# What a list says.


@dataclass(slots=True)
class Split(Generic[T]):
    """What is to be done about what is held."""

    released: Collection[T] = ()  # handed out again
    discarded: Collection[T] = ()  # a consumer has it
    unknown: int = 0  # of what was named, so many are not held


def names_in(file: Path) -> frozenset[str]:
    """Return the lines of a file; Usage where it says nothing."""
    return frozenset(lines_of(file, "--except").values())


def numbers_in(file: Path) -> frozenset[str]:
    """Return the message numbers that a file says, without zeros in front; however long, none is counted with."""
    lines = lines_of(file, "--except")
    wrong = next((at for at, name in lines.items() if not (name.isascii() and name.isdecimal())), None)
    if wrong is not None:
        raise Usage(f"--except: {file}, line {wrong}: {lines[wrong]!r} is no message number; see --by")
    return frozenset(name.lstrip("0") or "0" for name in lines.values())


def split(found: Iterable[tuple[T, Iterable[str]]], names: frozenset[str]) -> Split[T]:
    """Return what is held, each with the names it goes by, by whether any of them was named."""
    released: list[T] = []
    discarded: list[T] = []
    met: set[str] = set()
    for each, its in found:
        known = names.intersection(its)
        met |= known
        (discarded if known else released).append(each)
    return Split(released, discarded, len(names) - len(met))


def in_turn(found: Sequence[T], discarded: Collection[T]) -> Iterator[tuple[bool, list[T]]]:
    """Yield, in parts: of the oldest what is discarded, then what is released; then of those that are next.

    Where all older publications are decided about, the broker need not note each of them.
    """
    for start in range(0, len(found), AT_ONCE):
        part = found[start : start + AT_ONCE]
        for is_discarded in (True, False):
            if chosen := [each for each in part if (each in discarded) is is_discarded]:
                yield is_discarded, chosen


def _refuse_several(say: str, subscriptions: Sequence[str]) -> None:
    """Raise Usage where a publication is to go that several subscriptions may have: others have not had it."""
    if len(subscriptions) > 1:
        more = ["…"] if len(subscriptions) > SUBSCRIPTIONS_MAX else []
        several = ", ".join([*subscriptions[:SUBSCRIPTIONS_MAX], *more])
        raise Usage(f"what one subscriber has others may not have: say {say} {several}")


# A broker's store that is stopped, or looked into.


def is_brokers(looking: DatabaseView) -> bool:
    """Say whether the store is a broker's."""
    return looking.get(MASTER_KEY) is not None


def held_of(looking: DatabaseView) -> list[HeldItem]:
    """Return what is held of a broker's store, the oldest first."""
    try:
        return held_in(Records(looking.get, looking.keys, looking.held_count() > 0))
    except RecordError as failure:
        raise Failure(f"a record of the broker cannot be read: {failure}", ExitCode.UNUSABLE) from failure


def print_held(found: Iterable[HeldItem], limit: int | None, *, as_json: bool) -> None:
    """Print what is held, at most so many; 0 and None are all."""
    every = list(found)
    shown = every[: limit or None]
    if as_json:
        for each in shown:
            output.print_json_line(_document(each))
        return
    if not every:
        output.print_line("Nothing is held.")
        return
    columns = (
        output.Column("identifier"),
        output.Column("queue", shrinks=True),
        output.Column("for"),
        output.Column("sender"),
        output.Column("committed"),
        output.number_column("messages"),
        output.Column("producer"),
    )
    output.print_table(columns, map(_row, shown))
    if len(every) > len(shown):
        output.print_line(f"… and {len(every) - len(shown):,} more; --limit 0 shows all")


def _document(held: HeldItem) -> Mapping[str, Any]:
    return asdict(held) | {"committed": iso_microseconds(held.committed)}


def _row(held: HeldItem) -> tuple[str, ...]:
    committed = iso_microseconds(held.committed)[:19]
    return (
        held.identifier,
        held.queue,
        held.subscriber,
        held.sender,
        committed,
        f"{held.messages:,}",
        held.producer,
    )


def with_numbers(found: Iterable[HeldItem], numbers: Collection[int]) -> Split[HeldItem]:
    """Return what has one of these messages, to be released."""
    left = set(numbers)
    chosen = []
    for each in found:
        its = range(each.first, each.first + each.messages)
        if any(number in its for number in numbers):
            chosen.append(each)
            left.difference_update(its)
    return Split(chosen, unknown=len(left))


def for_subscriber(found: list[HeldItem], subscriber: str | None) -> list[HeldItem]:
    """Return what is held for a subscriber, said by USER-ID or as a subscription; all where none is said."""
    if subscriber is None:
        return found
    return [each for each in found if each.subscription_id and subscriber in (each.subscriber, each.subscription_id)]


def by_names(found: Collection[HeldItem], names: frozenset[str], by: str | None) -> Split[HeldItem]:
    """Return what nobody has named, and what somebody has. Names are of one kind, or of any.

    Usage where they may be of another kind than the one that they were found by, or of any subscription.
    """
    kinds = [kind for kind in _NAMES if by in (None, kind)]
    if by is None:
        _refuse_doubtful(found, names)
    done = split(((each, chain.from_iterable(_NAMES[kind](each) for kind in kinds)) for each in found), names)
    if any(each.subscription_id for each in done.discarded):
        _refuse_subscriptions(found)
    return done


def refuse_several_of_one(discarded: Iterable[HeldItem]) -> None:
    """Raise Usage where one publication is to go for several subscriptions, none of which was named."""
    by_identifier: dict[str, list[HeldItem]] = {}
    for each in discarded:
        by_identifier.setdefault(each.identifier, []).append(each)
    for one in by_identifier.values():
        _refuse_subscriptions(one)


def _refuse_subscriptions(found: Iterable[HeldItem]) -> None:
    of = {each.subscription_id: each for each in found if each.subscription_id}
    said = [f"{each.queue} for {each.subscriber} ({each.subscription_id})" for each in of.values()]
    _refuse_several("--subscriber, and --queue, for one of", said)


def _numbers(held: HeldItem) -> Iterable[str]:
    return map(str, range(held.first, held.first + held.messages))


_NAMES: Mapping[str, Callable[[HeldItem], Iterable[str]]] = {
    BY_UOWID: lambda held: (held.identifier,),
    BY_PRODUCER: lambda held: (held.producer,),
    BY_NUMBER: _numbers,
}


def _refuse_doubtful(found: Iterable[HeldItem], names: frozenset[str]) -> None:
    """Raise Usage for a name of several kinds, or a number where producers' identifiers are numbers too."""
    met: dict[str, set[str]] = {}
    has_numbered = False
    for each in found:
        has_numbered |= each.producer.isdecimal()
        for kind, names_of in _NAMES.items():
            for name in names.intersection(names_of(each)):
                met.setdefault(name, set()).add(kind)
    for name, kinds in met.items():
        if len(kinds) > 1 or (has_numbered and name.isdecimal() and BY_UOWID not in kinds):
            kind = f"{BY_UOWID}, {BY_PRODUCER} or {BY_NUMBER}"
            raise Usage(f"what {name} is in the list is not certain, nor what others are: say --by {kind}")


_COMMANDS: Mapping[tuple[bool, bool], Callable[..., Command]] = {  # is of a subscription, is discarded
    (False, True): partial(DiscardHeld, status=Status.PROCESSED),
    (False, False): ReleaseHeld,
    (True, True): DiscardPublications,
    (True, False): ReleasePublications,
}


def carry_out(spool: Path, wanted: Split[HeldItem], wait_seconds: float) -> None:
    """Discard as PROCESSED, and release, with a broker that is started for it. Failure where it cannot start.

    A broker that runs there is waited for so long. Where a subscription's oldest publications are all decided about,
    one number says so, and else one for each.
    """

    def is_locked(failure: Exception) -> bool:
        return isinstance(failure, StartRefused) and isinstance(failure.__cause__, DatabaseLocked)

    opening = partial(Broker.open, spool, broker_id=_broker_id(spool), pstore="HOT")
    try:
        broker = waited_for(opening, wait_seconds, is_locked)
    except StartRefused as refused:
        text = f"{refused}; a running broker is told with `oms cmd RELEASE` and `oms cmd DISCARD`"
        raise Failure(text, ExitCode.LOCKED if is_locked(refused) else ExitCode.UNUSABLE) from refused
    of: dict[str, list[HeldItem]] = {}
    for each in chain(wanted.released, wanted.discarded):
        of.setdefault(each.subscription_id, []).append(each)
    discarded = frozenset(wanted.discarded)
    with broker:
        for subscription_id, found in of.items():
            about = [subscription_id] if subscription_id else []
            for is_discarded, part in in_turn(sorted(found, key=lambda each: each.first), discarded):
                command = _COMMANDS[bool(subscription_id), is_discarded]
                _give(broker, command, *about, tuple(each.identifier for each in part))


def _give(broker: Broker, command: Callable[..., Command], *about: Any) -> None:
    try:
        with interrupts.delay_signals():
            broker._administer(lambda handle: command(handle, *about))
    except BrokerError as refused:
        raise Failure(str(refused), ExitCode.UNUSABLE) from refused


def _broker_id(spool: Path) -> str:
    with view(spool) as looking:
        value = looking.get(MASTER_KEY)
    assert value is not None, "it is a broker's store"
    return MASTER.decode(value).broker_id


# A broker that runs.


def check_order(order: Mapping[str, Any]) -> None:
    """Usage for what the broker would refuse, or not be asked: what is not understood must not widen an order."""
    try:
        checked = parse_command(order)
    except CisRefused as refused:
        raise Usage(refused.text) from None
    if checked.command != "RELEASE":
        raise Usage("--except goes with RELEASE: what FILE names is discarded, the rest released")
    if checked.uowid:
        raise Usage("uowid names one alone: give it without --except")
    if checked.everything and any(order.get(name) for name in SELECTORS if name != "all"):
        raise Usage("say which: what they have in common, or all")


def compare_list(server: Server, order: Mapping[str, Any], names: frozenset[str]) -> tuple[Sequence[str], Split[str]]:
    """Return the identifiers of what the order is about, the oldest first, and what of it the consumer has and has not.

    Usage where that may be any subscription's list: what one has others may not have.
    """
    is_topics = order.get("object") == "SUBSCRIBER"
    subscriptions = _subscriptions(server, order) if is_topics else []
    rows = _publications(server, {each["topic"] for each in subscriptions}) if is_topics else _uows(server, order)
    key = "publication_id" if is_topics else "uowid"
    found = sorted(rows, key=lambda row: (row["committed"] or "", row[key]))
    done = split(((row[key], (row[key], row["producer"])) for row in found), names)
    if done.discarded:
        said = [
            f"topic={each['topic']} user_id={each['user_id']}" + (f" token={each['token']}" if each["token"] else "")
            for each in subscriptions
        ]
        _refuse_several("which of", said)
    return [row[key] for row in found], done


def _uows(server: Server, order: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return _rows(server, "PSF", [*_said(order, _UNITS), ("held", "yes")])


def _subscriptions(server: Server, order: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the subscriptions that the order is about for which anything is held."""
    return [row for row in _rows(server, "SUBSCRIBER", _said(order, ("topic", "user_id", "token"))) if row["held"]]


def _publications(server: Server, topics: Collection[str]) -> Iterator[Mapping[str, Any]]:
    """Return what is held of these topics, for whomever."""
    return (row for row in _rows(server, "PUBLICATION", ()) if row["held"] and row["topic"] in topics)


def _said(order: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, str(order[name])) for name in names if order.get(name)]


def _rows(server: Server, subject: str, said: Sequence[tuple[str, str]]) -> Iterator[Mapping[str, Any]]:
    cursor = ""
    while True:
        more = [("cursor", cursor)] if cursor else []
        page = server.get("info", subject, has="rows", said=[*said, ("limit", str(AT_ONCE)), *more])
        yield from page["rows"]
        cursor = page["next"] or ""
        if not cursor:
            return


def give_order(server: Server, command: Mapping[str, Any]) -> int:
    """Give a command; return how much it has changed. What is not held (any more) is passed over. Failure."""
    try:
        return int(server.post("/command", command)["affected"])
    except Failure as refused:
        if refused.facts.get("cis_code") in _NOTHING_HELD and refused.facts.get("error_code") == "00000000":
            return 0
        raise


def orders(order: Mapping[str, Any], found: Sequence[str], wanted: Split[str]) -> Iterator[dict[str, Any]]:
    """Yield the commands that do what is wanted about all that was found."""
    about = {name: value for name, value in order.items() if name not in ("command", "all")}
    for is_discarded, identifiers in in_turn(found, frozenset(wanted.discarded)):
        if is_discarded:
            yield {"command": "DISCARD", **about, "identifiers": identifiers, "option": "PROCESSED"}
        else:
            yield {"command": "RELEASE", **about, "identifiers": identifiers}
