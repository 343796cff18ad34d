"""`oms list --held` and `oms release` on a broker's store: by unit of work and subscription, as its broker would do it.

Looking changes nothing and works while the broker runs. Deciding starts a broker on the stopped store, which gives the
same commands as an operator gives to one that runs (`oms cmd RELEASE`, `oms cmd DISCARD`), and ends it.

`oms cmd RELEASE … --except FILE`: what a consumer says it has is discarded as PROCESSED, the rest is released.

What is held is asked for by pages and compared here, so that FILE may be of any length; what is to be done is said in
commands of bounded size, the oldest first. Who is interrupted gives the command again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oms_journal.cli import interrupts, output
from oms_journal.cli.broker.operator import Server
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.messages.sources import lines_of
from oms_journal.cli.output import iso_microseconds
from oms_journal.cli.stores import view, waited_for
from oms_journal.journal.errors import DatabaseLocked

if TYPE_CHECKING:
    from oms_journal.broker.embedded.broker import Broker
    from oms_journal.broker.kernel.restart.hold import HeldItem
    from oms_journal.broker.kernel.state.effects import Command
    from oms_journal.database.view import DatabaseView


BY_NUMBER, BY_PRODUCER, BY_UOWID = "number", "producer-id", "uowid"  # a PUBLICATION-ID is meant by the last as well
SHOWN_MAX = 10  # subscriptions in a message
AT_ONCE = 1000  # of one commit, as many as a broker takes; nobody else calls this one


def is_brokers(looking: "DatabaseView") -> bool:
    """Say whether the store is a broker's."""
    from oms_journal.broker.records import MASTER_KEY

    return looking.get(MASTER_KEY) is not None


def held_of(looking: "DatabaseView") -> "list[HeldItem]":
    """Return what is held of a broker's store, the oldest first."""
    from oms_journal.broker.kernel.restart.hold import Records, held_in
    from oms_journal.broker.records import RecordError

    try:
        return held_in(Records(looking.get, looking.keys, looking.held_count() > 0))
    except RecordError as failure:
        raise Failure(f"a record of the broker cannot be read: {failure}", ExitCode.UNUSABLE) from failure


def print_held(found: "Iterable[HeldItem]", limit: int | None, *, as_json: bool) -> None:
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


def _document(held: "HeldItem") -> Mapping[str, Any]:
    return asdict(held) | {"committed": iso_microseconds(held.committed)}


def _row(held: "HeldItem") -> tuple[str, ...]:
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


def named(found: "Iterable[HeldItem]", numbers: Collection[int]) -> "tuple[list[HeldItem], int]":
    """Return what has one of these messages, and how many of the numbers are of nothing that is held."""
    left = set(numbers)
    chosen = []
    for each in found:
        its = range(each.first, each.first + each.messages)
        if any(number in its for number in numbers):
            chosen.append(each)
            left.difference_update(its)
    return chosen, len(left)


def of(found: "list[HeldItem]", subscriber: str | None) -> "list[HeldItem]":
    """Return what is held for a subscriber, said by USER-ID or as a subscription; all where none is said."""
    if subscriber is None:
        return found
    return [each for each in found if each.subscription_id and subscriber in (each.subscriber, each.subscription_id)]


def refuse_several(found: "Iterable[HeldItem]", discarded: "Iterable[HeldItem]") -> None:
    """Raise Usage where a publication is to go by a list that may be any subscription's: others have not had it."""
    if any(each.subscription_id for each in discarded):
        _refuse_but_one({each.subscription_id: each for each in found if each.subscription_id})


def refuse_several_of_one(discarded: "Iterable[HeldItem]") -> None:
    """Raise Usage where one publication is to go for several subscriptions, none of which was named."""
    by_identifier: dict[str, dict[str, HeldItem]] = {}
    for each in discarded:
        by_identifier.setdefault(each.identifier, {})[each.subscription_id] = each
    for one in by_identifier.values():
        _refuse_but_one(one)


def _refuse_but_one(subscriptions: "Mapping[str, HeldItem]") -> None:
    if len(subscriptions) > 1:
        found = [f"{each.queue} for {each.subscriber} ({each.subscription_id})" for each in subscriptions.values()]
        several = ", ".join([*found[:SHOWN_MAX], *(["…"] if len(found) > SHOWN_MAX else [])])
        raise Usage(f"what one subscriber has others may not have: say --subscriber, and --queue, for one of {several}")


def between(
    found: "Iterable[HeldItem]", queue: str | None, before: datetime | None, after: datetime | None
) -> "list[HeldItem]":
    """Return what is of this queue, and was committed before one time and after the other."""
    earliest = 0 if after is None else round(after.timestamp() * 1_000_000)
    latest = None if before is None else round(before.timestamp() * 1_000_000)
    return [
        each
        for each in found
        if queue in (None, each.queue)
        and (after is None or each.committed > earliest)
        and (latest is None or each.committed < latest)
    ]


def split(
    found: "Collection[HeldItem]", names: Collection[str], by: str | None
) -> "tuple[list[HeldItem], list[HeldItem], int]":
    """Return what of it nobody has named, what somebody has, and how many names are of nothing that is held.

    Names are of one kind, or of any. Usage where they may be of another kind than the one that they were found by.
    """
    wanted = frozenset(names)
    met: dict[str, set[str]] = {}
    released: list[HeldItem] = []
    discarded: list[HeldItem] = []
    for each in found:
        its = [(kind, name) for kind in _NAMES if by in (None, kind) for name in _NAMES[kind](each) if name in wanted]
        for kind, name in its:
            met.setdefault(name, set()).add(kind)
        (discarded if its else released).append(each)
    if by is None:
        _refuse_doubtful(met, has_numbered=any(each.producer.isdecimal() for each in found))
    return released, discarded, len(wanted - met.keys())


def _numbers(held: "HeldItem") -> Iterable[str]:
    return map(str, range(held.first, held.first + held.messages))


_NAMES: "Mapping[str, Callable[[HeldItem], Iterable[str]]]" = {
    BY_UOWID: lambda held: (held.identifier,),
    BY_PRODUCER: lambda held: (held.producer,),
    BY_NUMBER: _numbers,
}


def _refuse_doubtful(met: Mapping[str, Collection[str]], *, has_numbered: bool) -> None:
    """Raise Usage for a name of several kinds, or a number where producers' identifiers are numbers too."""
    for name, kinds in met.items():
        if len(kinds) > 1 or (has_numbered and name.isdecimal() and BY_UOWID not in kinds):
            kind = f"{BY_UOWID}, {BY_PRODUCER} or {BY_NUMBER}"
            raise Usage(f"what {name} is in the list is not certain, nor what others are: say --by {kind}")


def carry_out(
    spool: Path, released: "Collection[HeldItem]", discarded: "Collection[HeldItem]", wait_seconds: float
) -> None:
    """Discard as PROCESSED, and release, with a broker that is started for it. Failure where it cannot start.

    A broker that runs there is waited for so long.
    It is done in steps of bounded size: who is interrupted gives the command again, for what is left. Of publications
    the oldest are discarded and released before the next ones: nothing then has to note each of them.
    """
    from oms_journal.broker.embedded.broker import Broker
    from oms_journal.broker.kernel.state.effects import (
        DiscardHeld,
        DiscardPublications,
        ReleaseHeld,
        ReleasePublications,
    )
    from oms_journal.broker.records import Status
    from oms_journal.broker.store.start import StartRefused

    def is_locked(failure: Exception) -> bool:
        return isinstance(failure, StartRefused) and isinstance(failure.__cause__, DatabaseLocked)

    opening = partial(Broker.open, spool, broker_id=_broker_id(spool), pstore="HOT")
    try:
        broker = waited_for(opening, wait_seconds, is_locked)
    except StartRefused as refused:
        text = f"{refused}; a running broker is told with `oms cmd RELEASE` and `oms cmd DISCARD`"
        raise Failure(text, ExitCode.LOCKED if is_locked(refused) else ExitCode.UNUSABLE) from refused
    with broker:
        for some, command in (
            ([each for each in discarded if not each.subscription_id], partial(DiscardHeld, status=Status.PROCESSED)),
            ([each for each in released if not each.subscription_id], ReleaseHeld),
        ):
            for part in _parts(some):
                _give(broker, command, tuple(each.identifier for each in part))
        for subscription_id, part, has in _by_subscription(released, discarded):
            for is_had, of_publications in ((True, DiscardPublications), (False, ReleasePublications)):
                ids = tuple(each.identifier for each in part if (each.identifier in has) is is_had)
                if ids:
                    _give(broker, of_publications, subscription_id, ids)


def _by_subscription(
    released: "Iterable[HeldItem]", discarded: "Iterable[HeldItem]"
) -> "Iterable[tuple[str, Sequence[HeldItem], Collection[str]]]":
    """Yield what is to be decided about for each subscription, the oldest first, and what of it was discarded.

    Where a subscription's oldest publications are all decided about, one number says so, and else one for each.
    """
    of: dict[str, list[HeldItem]] = {}
    has: dict[str, set[str]] = {}
    for each in chain(released, discarded):
        if each.subscription_id:
            of.setdefault(each.subscription_id, []).append(each)
    for each in discarded:
        has.setdefault(each.subscription_id, set()).add(each.identifier)
    for subscription_id, found in of.items():
        for part in _parts(sorted(found, key=lambda each: each.first)):
            yield subscription_id, part, has.get(subscription_id, ())


def _give(broker: "Broker", command: Callable[..., "Command"], *about: Any) -> None:
    from oms_journal.broker.codes import BrokerError

    try:
        with interrupts.held_back():
            broker.administer(lambda handle: command(handle, *about))
    except BrokerError as refused:
        raise Failure(str(refused), ExitCode.UNUSABLE) from refused


def _parts(found: "Sequence[HeldItem]") -> "Iterable[Sequence[HeldItem]]":
    return (found[start : start + AT_ONCE] for start in range(0, len(found), AT_ONCE))


def _broker_id(spool: Path) -> str:
    from oms_journal.broker.records import MASTER, MASTER_KEY

    with view(spool) as looking:
        value = looking.get(MASTER_KEY)
    assert value is not None, "it is a broker's store"
    return MASTER.decode(value).broker_id


PAGE = 1000  # rows of an answer, and identifiers of a command
_NOTHING_HELD = (902, 903)  # codes of the command and information services
_UNITS = ("conv_id", "user_id", "token", "server_class", "server_name", "service")


@dataclass(slots=True)
class Split:
    """What is held, by whether the consumer has it."""

    found: Sequence[str]  # identifiers, the oldest first
    has: frozenset[str]
    unknown: int  # names in the file of nothing that is held

    @property
    def lacks(self) -> int:
        """How much the consumer has not."""
        return len(self.found) - len(self.has)


def check(order: Mapping[str, Any]) -> None:
    """Usage for what the broker would refuse, or not be asked: what is not understood must not widen an order."""
    from oms_journal.broker.admin.codes import CisRefused
    from oms_journal.broker.admin.commands import SELECTORS, parse_command

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


def names_in(file: Path) -> frozenset[str]:
    """Return the lines of a file, which are UOWIDs, PUBLICATION-IDs or producers' identifiers. Usage."""
    return frozenset(lines_of(file, "--except").values())


def compared(server: Server, order: Mapping[str, Any], names: frozenset[str]) -> Split:
    """Return what of that which the order is about the consumer has, and has not.

    Usage where that may be any subscription's list: what one has others may not have.
    """
    is_topics = order.get("object") == "SUBSCRIBER"
    subscriptions = _subscriptions(server, order) if is_topics else []
    rows = _publications(server, {each["topic"] for each in subscriptions}) if is_topics else _uows(server, order)
    key = "publication_id" if is_topics else "uowid"
    found = sorted(rows, key=lambda row: (row["committed"] or "", row[key]))
    met = names & {name for row in found for name in (row[key], row["producer"])}
    has = frozenset(row[key] for row in found if row[key] in names or row["producer"] in names)
    if has and len(subscriptions) > 1:
        several = ", ".join(
            f"topic={each['topic']} user_id={each['user_id']}" + (f" token={each['token']}" if each["token"] else "")
            for each in subscriptions[:SHOWN_MAX]
        )
        more = ", …" if len(subscriptions) > SHOWN_MAX else ""
        raise Usage(f"what one subscriber has others may not have: say which of {several}{more}")
    return Split([row[key] for row in found], has, len(names - met))


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
        page = server.get("info", subject, has="rows", said=[*said, ("limit", str(PAGE)), *more])
        yield from page["rows"]
        cursor = page["next"] or ""
        if not cursor:
            return


def given(server: Server, command: Mapping[str, Any]) -> int:
    """Give a command; return how much it has changed. What is not held (any more) is passed over. Failure."""
    try:
        return int(server.post("/command", command)["affected"])
    except Failure as refused:
        if refused.facts.get("cis_code") in _NOTHING_HELD and refused.facts.get("error_code") == "00000000":
            return 0
        raise


def orders(order: Mapping[str, Any], split: Split) -> Iterator[dict[str, Any]]:
    """Yield the commands: of the oldest what is discarded, and what is released; then of those that are next.

    Where all older publications are decided about, the broker need not note each of them.
    """
    about = {name: value for name, value in order.items() if name not in ("command", "all")}
    for start in range(0, len(split.found), PAGE):
        part = split.found[start : start + PAGE]
        if has := [each for each in part if each in split.has]:
            yield {"command": "DISCARD", **about, "identifiers": has, "option": "PROCESSED"}
        if has_not := [each for each in part if each not in split.has]:
            yield {"command": "RELEASE", **about, "identifiers": has_not}
