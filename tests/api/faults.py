"""Faults made on purpose at the entrance of the API, to see that the campaign finds them.

Each is a block that changes the product from outside, as in the simulation (`tests/simulation/faults/fault.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from oms_journal.database.arguments import every, message_number, plain_bytes, plain_properties, plain_text
from oms_journal.database.commits.added import Added, AddedMany
from oms_journal.database.commits.block import CommitBlock
from oms_journal.database.commits.drafting import Drafting
from oms_journal.database.commits.encode import Encoder
from oms_journal.database.commits.ledger import Ledger
from oms_journal.database.consumers.consumers import Consumers, Holding
from oms_journal.index.table import MessageLocation
from oms_journal.journal.format.records import RECORD, padded
from oms_journal.journal.operations import VALUE_BYTES_MAX, Operation, check_size
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from tests.planted.patched import Patched
from tests.simulation.faults.fault import changed, changed_in, nothing
from tests.support.attack import Fault, entering

FAULTS: dict[str, Fault] = {}
_NUMBERS_LOOKED_AT = (
    Patched.DATABASE_MESSAGE_NUMBER,
    Patched.ASYNCHRONOUS_MESSAGE_NUMBER,
)


def fault(
    face: str = "threads", *, budget: int = 5, swept: Sequence[str] = (), near: Sequence[str] = ()
) -> Callable[[Callable[[], Iterator[None]]], None]:
    """Enter a block into the table; `swept` are methods whose arguments, and calls whose interrupts, are swept."""
    return entering(FAULTS, face, budget, swept, near)


# What is kept of the caller's.


@fault(swept=["add_many"])
def a_list_is_kept_by_reference() -> Iterator[None]:
    """The caller's own list of payloads is kept until it is written."""

    def kept(values: Any, *rest: Any) -> Any:
        return values if type(values) is list else every(values, *rest)

    with (
        changed(Patched.ENCODE_EVERY, lambda _: kept),
        changed(Patched.ENCODER_PAYLOADS, lambda _: lambda self, found: found),
    ):
        yield


@fault(swept=["add"])
def a_buffer_is_not_copied() -> Iterator[None]:
    """A bytearray or memoryview is kept as it is until it is written."""

    def kept(value: Any, what: str) -> Any:
        return value if isinstance(value, bytearray | memoryview) else plain_bytes(value, what)

    with changed(Patched.ENCODE_PLAIN_BYTES, lambda _: kept):
        yield


@fault("tasks", swept=["put"])
def a_buffer_of_a_task_is_not_copied() -> Iterator[None]:
    """A bytearray that a task hands in is kept as it is until the turn of the loop is over."""

    def kept(value: Any, what: str) -> Any:
        return value if isinstance(value, bytearray) else plain_bytes(value, what)

    with changed(Patched.ENCODE_PLAIN_BYTES, lambda _: kept):
        yield


@fault(swept=["put"], near=["database/commits/test_numbers_at"])
def places_of_numbers_are_kept_by_reference() -> Iterator[None]:
    """The mapping `numbers_at` of a block's put is looked at when the block is left."""

    def kept(numbers_at: Any) -> Any:
        return {}.items() if numbers_at is None else numbers_at.items()

    with changed(Patched.BLOCK_NUMBERS_AT, lambda before: lambda given: kept(given) if before(given) else ()):
        yield


@fault(swept=["add_many"])
def an_iterable_is_gone_through_twice() -> Iterator[None]:
    """The payloads are counted first, and then taken."""

    def twice(values: Any, *rest: Any) -> Any:
        every(values, *rest)
        return every(values, *rest)

    with changed(Patched.ENCODE_EVERY, lambda _: twice):
        yield


@fault(swept=["add"])
def a_subclass_of_text_is_believed() -> Iterator[None]:
    """A text that compares, hashes and encodes itself in its own way is used as it is."""

    def believed(value: Any, what: str) -> Any:
        return value if isinstance(value, str) else plain_text(value, what)

    with changed_in((Patched.ENCODE_PLAIN_TEXT, Patched.DATABASE_PLAIN_TEXT), lambda _: believed):
        yield


# What is taken though it is wrong.


@fault(swept=["deliver"])
def a_bool_is_a_number() -> Iterator[None]:
    """True is the number of the first message."""

    def number(value: Any, what: str = "number") -> int:
        return int(value) if isinstance(value, bool) else message_number(value, what)

    with changed_in(_NUMBERS_LOOKED_AT, lambda _: number):
        yield


@fault(swept=["deliver"])
def the_number_of_a_message_is_not_looked_at() -> Iterator[None]:
    """Whatever stands in a Message for its number is used."""

    def number(value: Any, what: str = "number") -> Any:
        return value[0] if isinstance(value, Message) else message_number(value, what)

    with changed_in(_NUMBERS_LOOKED_AT, lambda _: number):
        yield


@fault(swept=["add"])
def falsy_properties_are_none() -> Iterator[None]:
    """Properties that are falsy are none, whatever they are and hold."""

    def properties(given: Any, what: str = "properties") -> Any:
        return plain_properties(given, what) if given else None

    with changed(Patched.ENCODE_PLAIN_PROPERTIES, lambda _: properties):
        yield


@fault(swept=["put"], near=["api/test_api"])
def a_value_is_measured_before_it_is_copied() -> Iterator[None]:
    """The limit of a value is held against the length that it says it has."""

    def value(self: Encoder, given: Any) -> bytes:
        check_size(len(given) if isinstance(given, bytes | bytearray | memoryview) else 0, VALUE_BYTES_MAX, "value")
        return plain_bytes(given, "value")

    with changed(Patched.ENCODER_VALUE, lambda _: value):
        yield


@fault(swept=["add_many"])
def a_count_of_nothing_is_written() -> Iterator[None]:
    """An empty iterable of payloads becomes a record about no message."""

    def made(before: Any) -> Any:
        def add_many(self: Drafting, queue: str, payloads: Iterable[bytes], *rest: Any) -> Draft | None:
            draft: Draft | None = before(self, queue, payloads, *rest)
            if draft is None:
                template = self.encode.queue(queue)
                draft = CommitBuilder().draft()
                record = RECORD.pack(Operation.ADD, 0, len(template.name), 0, 0, 0) + template.name
                draft.records = bytearray(padded(record))
                draft.frame_size += len(draft.records)
                draft.runs = ((template, []),)
            return draft

        return add_many

    with changed(Patched.DRAFTING_ADD_MANY, made):
        yield


@fault(swept=["cleanup"])
def any_flag_will_do() -> Iterator[None]:
    """Whatever is true is True."""
    with changed(Patched.DATABASE_FLAG, lambda _: lambda value, what: bool(value)):
        yield


@fault(budget=20)
def a_producer_identifier_is_ignored() -> Iterator[None]:
    """A message that is sent again with its identifier is added again."""

    def ignored(before: Any) -> Any:
        def producer(self: Encoder, producer_id: Any) -> bytes:
            before(producer_id)
            return b""

        return producer

    with changed(Patched.ENCODER_PRODUCER, ignored):
        yield


# Blocks.


@fault()
def a_block_that_was_left_takes_more() -> Iterator[None]:
    """What is added to a block after its end is dropped in silence."""
    with changed(Patched.COMMIT_BLOCK_OPEN, lambda _: property(lambda self: self._operations)):
        yield


@fault()
def a_block_can_be_entered_again() -> Iterator[None]:
    """A block is entered a second time, and nothing says no."""

    def entered(self: CommitBlock) -> CommitBlock:
        self._is_entered = True
        return self

    with changed(Patched.COMMIT_BLOCK_ENTER, lambda _: entered):
        yield


@fault(swept=["add_many"])
def half_of_many_stays_in_the_block() -> Iterator[None]:
    """A block keeps the first payloads of an iterable that raises, or whose later ones are refused."""

    def add_many(self: CommitBlock, queue: str, payloads: Iterable[bytes]) -> None:
        if isinstance(payloads, str | bytes | bytearray | Mapping):
            raise TypeError("payloads must be an iterable")
        for payload in payloads:
            self.add(queue, payload)

    with changed(Patched.COMMIT_BLOCK_ADD_MANY, lambda _: add_many):
        yield


# Consumers.


@fault("tasks", swept=["cancelled take"])
def a_cancelled_take_keeps_its_message() -> Iterator[None]:
    """The message that a cancelled task was about to get is given back by nobody."""
    with changed(Patched.HANDING_GIVE_BACK, lambda _: nothing):
        yield


class _Forgetful(list[int]):
    """A list that takes nothing."""

    def append(self, _: int) -> None:
        return None

    def extend(self, _: Iterable[int]) -> None:
        return None


@fault(swept=["interrupted take", "interrupted take_many"])
def an_interrupted_take_keeps_its_message() -> Iterator[None]:
    """An exception that leaves `take` leaves its message with nobody."""

    def begun(before: Any) -> Any:
        def begin(self: Consumers, *given: Any) -> None:
            before(self, *given)
            self.given_back = _Forgetful()  # type: ignore[assignment]

        return begin

    with changed(Patched.CONSUMERS_INIT, begun):
        yield


@fault(swept=["interrupted take"], near=["api/test_api"])
def take_removes_before_it_notes() -> Iterator[None]:
    """`take` removes the number from its line, and only then notes that it is taken."""

    def take(self: Consumers, queue: str, holder: int | str = 0) -> MessageLocation | None:
        line = self._lines.get(queue) or self._new_line(queue)
        while self.given_back:
            self.release(self.given_back.popleft())
        while True:
            if not line.ready:
                self._refill(queue, line)
            if line.returned and (not line.ready or line.returned[0] < line.ready[0]):
                number = line.returned.pop(0)
                line.returned.sort()
            elif line.ready:
                number = line.ready.popleft()
            else:
                return None
            place = None if number in self.taken else self._table.find(number)
            if place is not None:
                self.taken[number] = (queue, 0.0, holder)
                return place

    with changed(Patched.CONSUMERS_TAKE, lambda _: take):
        yield


@fault(swept=["interrupted release"], near=["api/test_api"])
def release_removes_before_it_returns() -> Iterator[None]:
    """`release` forgets who has the message, and only then puts it back into its line."""

    def put_back(self: Consumers, number: int, holding: Holding) -> None:
        self.taken.pop(number, None)
        self.leases.pop(number, None)
        if (line := self._lines.get(holding[0])) is not None:
            line.returned.append(number)
            line.returned.sort()

    with changed(Patched.CONSUMERS_PUT_BACK, lambda _: put_back):
        yield


@fault(swept=["interrupted deliver what is taken"])
def what_is_delivered_stays_taken() -> Iterator[None]:
    """A message that was taken and delivered can be released."""

    def begun(before: Any) -> Any:
        return lambda self, index, consumers=None, *more: before(self, index, None, *more)

    with changed(Patched.LEDGER_INIT, begun):
        yield


@fault(near=["database/test_holds"])
def what_is_held_back_is_handed_out() -> Iterator[None]:
    """`take` hands out what is held back."""

    def refill(self: Consumers, queue: str, line: Any) -> None:
        for numbers, _, _ in self._table.batches(queue, line.after, 1 << 63):
            line.ready.extend(numbers.tolist())
            line.after = int(numbers[-1])

    with changed(Patched.CONSUMERS_REFILL, lambda _: refill):
        yield


@fault(swept=["interrupted the end of taking"], near=["database/consumers/test_waiting"])
def what_could_not_be_delivered_stays_taken() -> Iterator[None]:
    """A block whose delivery is interrupted leaves its message with nobody."""
    with changed(Patched.HANDING_LET_GO, lambda _: nothing):
        yield


@fault(swept=["interrupted consume"], near=["database/consumers/test_waiting"])
def a_loop_keeps_what_it_has_left() -> Iterator[None]:
    """A loop that goes on, or is left, gives nothing back."""
    with changed(Patched.HANDING_RELEASE_IF_HELD, lambda _: nothing):
        yield


# What an add answers, and whether there is room for it.


@fault(swept=["add"])
def a_repeat_is_told_as_new() -> Iterator[None]:
    """A known producer identifier is answered as if its message had been added."""
    with changed(Patched.ADDED_NUMBER, lambda before: lambda draft: Added(before(draft))):
        yield


@fault(swept=["interrupted peek"])
def a_peek_takes() -> Iterator[None]:
    """What `peek` shows is handed out to its caller."""
    with changed(Patched.CONSUMERS_PEEK, lambda _: Consumers.take):
        yield


@fault(swept=["purge"], near=["database/test_queue_questions"])
def a_purge_leaves_what_is_taken() -> Iterator[None]:
    """`purge` deletes what nobody has taken."""

    def purge(before: Any) -> Any:
        def free(self: Drafting, queue: str, numbers: Any) -> Any:
            return before(self, queue, numbers[~np.isin(numbers, [*self.ledger.taken])])

        return free

    with changed(Patched.DRAFTING_PURGE, purge):
        yield


@fault(swept=["add"], near=["database/commits/test_queue_limits"])
def what_was_added_counts_twice() -> Iterator[None]:
    """What a commit was to add counts also when it is durable, and is counted by the index."""
    with changed(Patched.LIMITED_LEDGER_APPLY_EFFECT, lambda _: Ledger._apply_effect):
        yield


@fault(swept=["interrupted add to a full queue"], near=["database/commits/test_queue_limits"])
def who_waited_and_gave_up_stays_in_line() -> Iterator[None]:
    """A caller whose time is up, or who was interrupted, is granted room that nobody uses."""
    with (
        changed(Patched.LIMITED_GIVE_UP, lambda _: nothing),
        changed(Patched.LIMITS_LEAVE_LINE, lambda _: nothing),
    ):
        yield


@fault(swept=["interrupted add through a socket"], near=["database/door/test_door"])
def the_door_answers_with_another_number() -> Iterator[None]:
    """A client is told the number of the message behind its own."""

    def one_more(before: Any) -> Any:
        def decode(body: bytes) -> AddedMany:
            said: AddedMany = before(body)
            return AddedMany(range(said.start + 1, said.stop + 1), is_repeat=said.is_repeat)

        return decode

    with changed(Patched.CLIENT_DECODE_ADDED, one_more):
        yield


@fault(near=["database/commits/test_queue_limits"])
def room_that_comes_free_is_granted_to_nobody() -> Iterator[None]:
    """Who waits for room is not told of a delivery."""
    with changed(Patched.LIMITED_LEDGER_REMOVE, lambda _: Ledger._remove):
        yield


# The end.


@fault()
def a_closed_database_answers() -> Iterator[None]:
    """After close the index can still be asked."""
    with changed(Patched.MESSAGE_DATABASE_READABLE, lambda _: property(lambda self: self._ledger)):
        yield


@fault(budget=20, near=["recovery/crashes/test_processes"])
def the_child_of_a_fork_has_the_database() -> Iterator[None]:
    """A forked child can go on asking the database of its parent."""
    with changed(Patched.MESSAGE_DATABASE_ABANDON, lambda _: nothing):
        yield
