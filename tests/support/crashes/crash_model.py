"""What a database must hold after a crash, kept beside it: acknowledged operations, and the one in flight.

A `Writer` does operations on a database and on an `Account` of what was acknowledged. Whatever then
happens to the database, what the next start finds must be the account's state, or that state with
the operation in flight applied as a whole.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from oms_journal import Added, Message, MessageDatabase
from oms_journal.database.options import Options
from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DatabaseClosed, JournalError, MessageDamaged
from oms_journal.journal.format.lockfile import LOCK_FILE_SIZE, WITNESS_AT
from oms_journal.journal.writing.draft import Draft
from oms_journal.recovery.startup import StartResult
from tests.support.disks.faulty_disk import SimulatedDisk

SPOOL = Path("/spool")
SMALL = 7680  # max_data_file_size: a file holds about ten commits


def kind_of(change: str) -> str:
    """Return the kind of a change that a disk has told: its verb, whatever file it is about."""
    return change.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Content:
    """A message without its number."""

    queue: str
    payload: bytes
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """All that a database holds, as a caller sees it."""

    messages: dict[int, Content] = field(default_factory=dict)
    keys: dict[str, bytes] = field(default_factory=dict)
    held: frozenset[int] = frozenset()  # of the messages: nobody gets them before they are let go


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One commit."""

    adds: Sequence[Content] = ()
    removed: Sequence[int] = ()
    puts: dict[str, bytes] = field(default_factory=dict)
    drops: Sequence[str] = ()
    let_go: Sequence[int] = ()  # held until then

    def applied(self, state: State, numbers: Iterable[int]) -> State:
        messages = {number: content for number, content in state.messages.items() if number not in self.removed}
        messages.update(zip(numbers, self.adds, strict=True))
        keys = {key: value for key, value in state.keys.items() if key not in self.drops}
        return State(messages, keys | self.puts, state.held.difference(self.removed, self.let_go))


@dataclass(slots=True)
class Account:
    """What was acknowledged, and what was asked for and not answered."""

    state: State = field(default_factory=State)
    in_flight: Change | None = None
    highest: int = 0  # of all acknowledged numbers
    identified: dict[str, int] = field(default_factory=dict)  # producer identifier -> number

    def copy(self) -> "Account":
        return replace(self, identified=dict(self.identified))

    def allows(self, found: State) -> bool:
        """Say whether a start may find this: all that was acknowledged, the rest whole or absent."""
        if found == self.state:
            return True
        if self.in_flight is None:
            return False
        new = sorted(found.messages.keys() - self.state.messages.keys())
        if len(new) != len(self.in_flight.adds) or (new and new[0] <= self.highest):
            return False
        return found == self.in_flight.applied(self.state, new)


class Writer:
    """Does operations on a database, and enters them into an account."""

    def __init__(self, database: MessageDatabase, account: Account) -> None:
        self.database = database
        self.account = account

    def add(self, queue: str, payload: bytes, *, producer_id: str | None = None, **properties: str) -> int:
        content = Content(queue, payload, tuple(properties.items()))
        db = self.database
        numbers = self._do(
            Change(adds=[content]),
            lambda: [db.add(queue, payload, properties=properties or None, producer_id=producer_id)],
        )
        if producer_id is not None:
            self.account.identified[producer_id] = numbers[0]
        return numbers[0]

    def add_many(self, queue: str, payloads: Sequence[bytes]) -> Sequence[int]:
        adds = [Content(queue, payload) for payload in payloads]
        return self._do(Change(adds=adds), lambda: self.database.add_many(queue, payloads))

    def deliver(self, *numbers: int) -> None:
        self._do(Change(removed=numbers), lambda: _nothing(self.database.deliver_many(numbers)))

    def delete(self, *numbers: int) -> None:
        self._do(Change(removed=numbers), lambda: _nothing(self.database.delete_many(numbers)))

    def put(self, key: str, value: bytes) -> None:
        def put() -> Sequence[int]:
            self.database.put(key, value)
            return ()

        self._do(Change(puts={key: value}), put)

    def drop(self, key: str) -> None:
        self._do(Change(drops=[key]), lambda: _nothing(self.database.drop(key)))

    def exchange(self, number: int, queue: str, payload: bytes, key: str, value: bytes) -> int:
        """One commit of several operations: deliver, add, put."""
        change = Change(adds=[Content(queue, payload)], removed=[number], puts={key: value})

        def commit() -> Sequence[int]:
            with self.database.commit() as block:
                block.deliver(number)
                block.add(queue, payload)
                block.put(key, value)
            return block.numbers

        return self._do(change, commit)[0]

    def _do(self, change: Change, operation: Callable[[], Sequence[int]]) -> Sequence[int]:
        self.account.in_flight = change
        numbers = operation()
        self.account.state = change.applied(self.account.state, numbers)
        self.account.highest = max([self.account.highest, *numbers])
        self.account.in_flight = None
        return numbers


def _nothing(_: object) -> Sequence[int]:
    return ()


class Unattended(MessageDatabase):
    """A database without its maintenance thread: what there is to do is done after each commit.

    So every run makes the same calls in the same order, and the n-th call is the same call.
    """

    patience = 1  # commits between one look at what there is to do and the next
    _commits = 0

    def _begin(self, disk: Disk, directory: Path, options: Options, started: StartResult) -> None:
        super()._begin(disk, directory, options, started)
        self._handing.is_attended = False

    def _check_open(self) -> None:
        if self._is_closed:
            raise DatabaseClosed("closed")

    def add(self, *given: Any, **named: Any) -> Added:
        added = super().add(*given, **named)
        if named.get("wait") is None:
            self._tend()
        return added

    def _write(self, draft: Draft) -> Draft:
        super()._write(draft)
        self._tend()
        return draft

    def _tend(self) -> None:
        """Do what threads do beside the commits, behind one of them."""
        self._commits += 1
        if self._commits % self.patience == 0:
            self.maintain()
            if self.patience > 1:
                self.vouch()

    def maintain(self) -> None:
        try:
            if self._journal.needs_maintenance:
                self._journal.maintain()
        except (JournalError, OSError):
            pass  # as the maintenance does: a fault beside the commits fails none

    def look_for_room(self) -> None:
        """Do what the maintenance does while additions are refused for space."""
        if self._needs_room:
            self._make_room()

    def show_alive(self) -> None:
        """Count in the lock file, as an owner does every few seconds."""
        self._ownership.renew()

    def vouch(self) -> None:
        """Do what a second of silence brings: what came back is written, and an empty frame follows the last commit."""
        try:
            self._returns.write()
            self._returns.move_dead()
        except (JournalError, OSError):
            pass  # as the alarm's thread does: it is tried again
        if self._journal.needs_vouching:
            self._vouch()


def open_unattended(disk: SimulatedDisk, **named: object) -> Unattended:
    ticks = count(1_700_000_000_000_000, 1000)
    defaults = {
        "max_data_file_size": SMALL,
        "cleanup_interval": 0,
        "clock": lambda: next(ticks),
        "sleep": lambda _: None,  # nobody else commits meanwhile
    }
    database = Unattended.open(SPOOL, disk=disk, **(defaults | named))  # type: ignore[arg-type]
    assert isinstance(database, Unattended)
    return database


def forget_witness(disk: SimulatedDisk) -> SimulatedDisk:
    """Have the lock file say nothing of what must be there, as before the newest file's first answer; return the disk.

    What the file says of owners stays.
    """
    path = SPOOL / names.LOCK
    disk.put(path, disk.content(path)[:WITNESS_AT].ljust(LOCK_FILE_SIZE, b"\0"))
    return disk


def state_of(database: MessageDatabase) -> State:
    """Return all that the database holds, and check that its answers agree with one another."""
    messages = _contents(database.undelivered())
    held = _contents(database.held())
    keys: dict[str, bytes] = {}
    for key in list(database.keys()):
        try:
            value = database.get(key)
        except MessageDamaged:
            continue
        assert value is not None
        keys[key] = value
    assert sorted(messages) == list(messages), "in the order of their numbers"
    numbers = list(database.numbers())
    assert messages.keys() <= set(numbers)
    assert not held.keys() & set(numbers)
    assert len(numbers) + len(held) <= database.undelivered_count() == sum(database.queues().values())
    return State(dict(sorted({**messages, **held}.items())), keys, frozenset(held))


def _contents(messages: Iterable[Message]) -> dict[int, Content]:
    return {each.number: Content(each.queue, each.payload, tuple(each.properties.items())) for each in messages}


def found_after(disk: SimulatedDisk, **named: object) -> State:
    """Return what a start finds, and check that the second and the third start find the same, and no fault."""
    first = open_unattended(disk, **named)
    state = state_of(first)
    first.close()
    files = disk.contents(SPOOL)
    for _ in range(2):
        again = open_unattended(disk, **named)
        assert again.recovery.intact, again.recovery
        assert state_of(again) == state
        again.close()
    later = disk.contents(SPOOL)
    assert {name: data for name, data in later.items() if name.endswith((".data", ".archive"))} == {
        name: data for name, data in files.items() if name.endswith((".data", ".archive"))
    }
    return state


def check_goes_on(disk: SimulatedDisk, account: Account, **named: object) -> None:
    """Check that the database takes commits again, gives no number twice, and knows its producers."""
    with open_unattended(disk, **named) as database:
        before = state_of(database)
        number = database.add("later", b"goes on")
        assert number > account.highest
        for identifier, known in account.identified.items():
            content = Content("identified", identifier.encode())
            assert database.add(content.queue, content.payload, producer_id=identifier) == known
    with open_unattended(disk, **named) as database:
        after = state_of(database)
        assert after.messages.pop(number) == Content("later", b"goes on")
        assert after == before
        assert database.recovery.intact


def workload(writer: Writer, chance: random.Random, *, rounds: int = 40) -> None:
    """Do a bit of everything: several queues, sets, keys, rolls, clean-up, compaction."""
    live: list[int] = []
    for turn in range(rounds):
        match turn % 10:
            case 0 | 5:
                live += writer.add_many("many", [chance.randbytes(chance.randint(0, 90)) for _ in range(5)])
            case 1:
                live.append(writer.add("props", chance.randbytes(100), kind="b", turn=str(turn)))
            case 2:
                writer.put(f"key{turn % 3}", chance.randbytes(chance.randint(0, 200)))
            case 3:
                identifier = f"order-{turn}-{chance.getrandbits(32)}"
                live.append(writer.add("identified", identifier.encode(), producer_id=identifier))
            case 4 if len(live) > 4:
                chosen = sorted(chance.sample(live[1:], min(len(live) - 1, 4)))
                writer.deliver(*chosen)
                live = [number for number in live if number not in chosen]
            case 6 if live:
                live.append(writer.exchange(live.pop(), "many", b"exchanged", "pair", bytes([turn])))
            case 7:
                live.append(writer.add("large", chance.randbytes(700)))
            case 8 if len(live) > 2:
                writer.delete(live.pop(1))
            case 9:
                if turn % 20 == 19:
                    writer.drop("pair")
                writer.database.cleanup(compact=turn % 20 == 19)
            case _:
                pass
