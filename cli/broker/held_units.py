"""`oms list --held` and `oms release` on a broker's store: by unit of work and subscription, as its broker would do it.

Looking changes nothing and works while the broker runs. Deciding starts a broker on the stopped store, which gives the
same commands as an operator gives to one that runs (`oms cmd RELEASE`, `oms cmd DISCARD`), and ends it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oms_journal.cli import interrupts, output
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.stores import view, waited_for
from oms_journal.cli.wording import iso_microseconds
from oms_journal.journal.errors import DatabaseLocked

if TYPE_CHECKING:  # the broker is imported when it is needed
    from oms_journal.broker.embedded.broker import Broker
    from oms_journal.broker.kernel.restart.hold import Held
    from oms_journal.broker.kernel.state.effects import Command
    from oms_journal.database import DatabaseView

BY_NUMBER, BY_PRODUCER, BY_UOWID = "number", "producer-id", "uowid"  # a PUBLICATION-ID is meant by the last as well
SHOWN_MAX = 10  # subscriptions in a message
AT_ONCE = 1000  # of one commit, as many as a broker takes; nobody else calls this one


def is_brokers(looking: "DatabaseView") -> bool:
    """Say whether the store is a broker's."""
    from oms_journal.broker.records import MASTER_KEY

    return looking.get(MASTER_KEY) is not None


def held_of(looking: "DatabaseView") -> "list[Held]":
    """Return what is held of a broker's store, the oldest first."""
    from oms_journal.broker.kernel.restart.hold import Records, held_in
    from oms_journal.broker.records import RecordError

    try:
        return held_in(Records(looking.get, looking.keys, looking.held_count() > 0))
    except RecordError as failure:
        raise Failure(f"a record of the broker cannot be read: {failure}", ExitCode.UNUSABLE) from failure


def print_held(found: "Iterable[Held]", limit: int | None, *, as_json: bool) -> None:
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


def _document(held: "Held") -> Mapping[str, Any]:
    return asdict(held) | {"committed": iso_microseconds(held.committed)}


def _row(held: "Held") -> tuple[str, ...]:
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


def named(found: "Iterable[Held]", numbers: Collection[int]) -> "tuple[list[Held], int]":
    """Return what has one of these messages, and how many of the numbers are of nothing that is held."""
    left = set(numbers)
    chosen = []
    for each in found:
        its = range(each.first, each.first + each.messages)
        if any(number in its for number in numbers):
            chosen.append(each)
            left.difference_update(its)
    return chosen, len(left)


def of(found: "list[Held]", subscriber: str | None) -> "list[Held]":
    """Return what is held for a subscriber, said by USER-ID or as a subscription; all where none is said."""
    if subscriber is None:
        return found
    return [each for each in found if each.subscription_id and subscriber in (each.subscriber, each.subscription_id)]


def refuse_several(found: "Iterable[Held]", discarded: "Iterable[Held]") -> None:
    """Raise Usage where a publication is to go by a list that may be any subscription's: others have not had it."""
    if any(each.subscription_id for each in discarded):
        _refuse_but_one({each.subscription_id: each for each in found if each.subscription_id})


def refuse_several_of_one(discarded: "Iterable[Held]") -> None:
    """Raise Usage where one publication is to go for several subscriptions, none of which was named."""
    by_identifier: dict[str, dict[str, Held]] = {}
    for each in discarded:
        by_identifier.setdefault(each.identifier, {})[each.subscription_id] = each
    for one in by_identifier.values():
        _refuse_but_one(one)


def _refuse_but_one(subscriptions: "Mapping[str, Held]") -> None:
    if len(subscriptions) > 1:
        found = [f"{each.queue} for {each.subscriber} ({each.subscription_id})" for each in subscriptions.values()]
        several = ", ".join([*found[:SHOWN_MAX], *(["…"] if len(found) > SHOWN_MAX else [])])
        raise Usage(f"what one subscriber has others may not have: say --subscriber, and --queue, for one of {several}")


def between(
    found: "Iterable[Held]", queue: str | None, before: datetime | None, after: datetime | None
) -> "list[Held]":
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


def split(found: "Collection[Held]", names: Collection[str], by: str | None) -> "tuple[list[Held], list[Held], int]":
    """Return what of it nobody has named, what somebody has, and how many names are of nothing that is held.

    Names are of one kind, or of any. Usage where they may be of another kind than the one that they were found by.
    """
    wanted = frozenset(names)
    met: dict[str, set[str]] = {}
    released: list[Held] = []
    discarded: list[Held] = []
    for each in found:
        its = [(kind, name) for kind in _NAMES if by in (None, kind) for name in _NAMES[kind](each) if name in wanted]
        for kind, name in its:
            met.setdefault(name, set()).add(kind)
        (discarded if its else released).append(each)
    if by is None:
        _refuse_doubtful(met, has_numbered=any(each.producer.isdecimal() for each in found))
    return released, discarded, len(wanted - met.keys())


def _numbers(held: "Held") -> Iterable[str]:
    return map(str, range(held.first, held.first + held.messages))


_NAMES: "Mapping[str, Callable[[Held], Iterable[str]]]" = {
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


def carry_out(spool: Path, released: "Collection[Held]", discarded: "Collection[Held]", wait_seconds: float) -> None:
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
    released: "Iterable[Held]", discarded: "Iterable[Held]"
) -> "Iterable[tuple[str, Sequence[Held], Collection[str]]]":
    """Yield what is to be decided about for each subscription, the oldest first, and what of it was discarded.

    Where a subscription's oldest publications are all decided about, one number says so, and else one for each.
    """
    of: dict[str, list[Held]] = {}
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


def _parts(found: "Sequence[Held]") -> "Iterable[Sequence[Held]]":
    return (found[start : start + AT_ONCE] for start in range(0, len(found), AT_ONCE))


def _broker_id(spool: Path) -> str:
    from oms_journal.broker.records import MASTER, MASTER_KEY

    with view(spool) as looking:
        value = looking.get(MASTER_KEY)
    assert value is not None, "it is a broker's store"
    return MASTER.decode(value).broker_id
