"""The numbers of added messages, which also say whether the messages were there already.

    what was added        what the call returns    to be used as
    one message           Added                    the number: it is an int
    several messages      AddedMany                the numbers: a sequence like a range

`is_repeat` is true when a known producer identifier came again: then nothing was added, and the numbers are those of
the first time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from oms_journal.journal.writing.draft import Draft


class Added(int):
    """The number of an added message. It is an int, and `is_repeat` says whether the message was there already.

    Use it wherever a number goes. A repeat has the number of the first message.
    """

    __slots__ = ()

    is_repeat = False

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (int(self), self.is_repeat)


class Repeated(Added):
    __slots__ = ()

    is_repeat = True


PLAIN_NUMBERS = frozenset({int, Added, Repeated})


def _restored(number: int, is_repeat: bool) -> Added:
    return (Repeated if is_repeat else Added)(number)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AddedMany(Sequence[int]):
    """The numbers of messages that one call added, in order. `is_repeat` says whether they were there already.

    It behaves like the range of these numbers, and is equal to it. `numbers` is that range.
    """

    numbers: range
    is_repeat: bool = False

    @property
    def start(self) -> int:
        """The first number."""
        return self.numbers.start

    @property
    def stop(self) -> int:
        """The number behind the last one."""
        return self.numbers.stop

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> range: ...
    def __getitem__(self, place: int | slice) -> int | range:
        return self.numbers[place]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def __contains__(self, number: object) -> bool:
        return number in self.numbers

    def __eq__(self, other: object) -> bool:
        return self.numbers == (other.numbers if isinstance(other, AddedMany) else other)

    def __hash__(self) -> int:
        return hash(self.numbers)

    def __repr__(self) -> str:
        return f"AddedMany({self.numbers!r}, is_repeat={self.is_repeat})"


def added_number(draft: Draft) -> Added:
    """Return the number of a draft's only message, or the first answer's for a repeat."""
    return (Repeated if isinstance(draft.answer, range) else Added)(draft.first)


def added_numbers(draft: Draft | None) -> AddedMany:
    """Return the numbers of a draft's messages, or the first answer's for a repeat. Without a draft there are none."""
    if draft is None:
        return AddedMany(range(0))
    return AddedMany(number_range(draft), isinstance(draft.answer, range))


def number_range(draft: Draft) -> range:
    """Return the numbers of a draft's messages as a plain range, or the first answer's for a repeat."""
    return range(draft.first, draft.first + draft.shape.messages)
