"""Arguments: every way in which a caller gives one, right, wrong and strange, with what it means.

A way is named in a script by its kind, its name and a number that varies it; it is made when its call is played, since
a message's number depends on what is there. Where the same thing could be changed by its caller meanwhile, a meddler
is left with the hand: it is played while the call is under way, and after it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from oms_journal import InvalidName, LimitExceeded
from tests.api.model import Model, Raised


class Oops(Exception):
    """Raised by a caller's own code, out of something that it gave to a call."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A way to give an argument, by its name, and the number that varies it."""

    kind: str
    way: str
    n: int

    def __repr__(self) -> str:
        return f"Argument({self.kind!r}, {self.way!r}, {self.n})"


@dataclass(slots=True)
class Given:
    """An argument as it is handed in, and what it means."""

    value: object
    means: Any = None
    wrong: Raised = ()  # the call is refused with one of these
    may: Raised = ()  # the call may be refused with one of these
    used_up: Callable[[], None] | None = None  # looks, after a call that was not refused


@dataclass(slots=True)
class Hand:
    """What arguments are made from."""

    model: Model
    inner: Callable[[int], None] = lambda _: None  # uses the database, from within an argument
    meddlers: list[Callable[[], None]] = field(default_factory=list)
    count: int | None = None  # of the payloads that were given with the same call
    is_inner: bool = False  # an argument of the call uses the database

    def meddle(self) -> None:
        """Change everything that was handed in and can be changed."""
        for meddler in self.meddlers:
            meddler()


Make = Callable[[Hand, int], Given]
RIGHT: dict[str, dict[str, Make]] = {}
WRONG: dict[str, dict[str, Make]] = {}
WORDS: dict[str, tuple[str, ...]] = {  # one of which a refusal says
    "queue": ("queue",),
    "payload": ("payload", "message"),
    "payloads": ("payload", "message"),
    "properties": ("propert",),
    "many_properties": ("propert",),
    "producer_id": ("producer",),
    "number": ("number",),
    "numbers": ("number",),
    "numbers_or_all": ("number",),
    "key": ("key",),
    "value": ("value",),
    "prefix": ("prefix", "key"),
    "flag": ("compact", "dry_run"),
    "numbers_at": ("numbers_at",),
}


def right(*kinds: str) -> Callable[[Make], Make]:
    """Return what enters a function as a way that must be accepted, or at least may be."""
    return lambda make: _enter(RIGHT, kinds, make)


def wrong(*kinds: str) -> Callable[[Make], Make]:
    """Return what enters a function as a way that must be refused."""
    return lambda make: _enter(WRONG, kinds, make)


def _enter(table: dict[str, dict[str, Make]], kinds: tuple[str, ...], make: Make) -> Make:
    for kind in kinds:
        name = make.__name__.strip("_").replace("_", "-")
        assert kind in WORDS and name not in table.setdefault(kind, {}), f"{kind}/{name}"
        table[kind][name] = make
    return make


def way(kind: str, name: str) -> Make:
    return (RIGHT[kind] | WRONG[kind])[name]


def refused(value: object, *kinds: type[BaseException]) -> Given:
    return Given(value, wrong=kinds or (TypeError,))


# Strange relatives of plain values. What they hold is what counts, whatever they say of it.


class StrangeText(str):
    """Text that is equal to nothing, has another length, and says something else when it is asked for its bytes."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return id(self)

    def __len__(self) -> int:
        return 0

    def __str__(self) -> str:
        return "another text"

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"\xff\0"

    def startswith(self, *_: object) -> bool:
        return True


class StrangeBytes(bytes):
    """Bytes that say they are none, and iterate as others."""

    def __len__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        raise Oops

    def __hash__(self) -> int:
        raise Oops

    def __iter__(self) -> Iterator[int]:
        return iter(b"others")


class StrangeNumber(int):
    """A number that is equal to none, and becomes another one."""

    def __eq__(self, other: object) -> bool:
        return False

    def __lt__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7

    def __int__(self) -> int:
        return 0

    def __index__(self) -> int:
        return 0


class StrangeList(list[Any]):
    """A list that says it is empty, and cannot be asked for one of its items."""

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, _: object) -> Any:
        raise Oops


class StrangeMapping(dict[str, str]):
    """A mapping that says it is empty."""

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False


class Once:
    """An iterable that can be gone through once: who comes again finds something else."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self._times = 0

    def __iter__(self) -> Iterator[Any]:
        self._times += 1
        yield from self._items if self._times == 1 else self._items[:1] * 3

    def used_up(self) -> None:
        assert self._times == 1, f"an iterable was gone through {self._times} times"


NOTHING_LIKE_IT: tuple[object, ...] = (5, 1.5, object(), TypeError, len, 1j, ...)  # wrong for each kind but numbers


def text(n: int) -> str:
    """Return a queue's, key's or producer's name: few of them, so that calls meet."""
    return ("a", "b", "häuser", "q" * 255, "\x01")[n % 5]


def names(kind: str) -> None:
    """Enter the ways to give a name of a kind."""
    _enter(RIGHT, (kind,), plain_text)
    _enter(RIGHT, (kind,), strange_text)
    _enter(WRONG, (kind,), no_name)
    _enter(WRONG, (kind,), no_text)


def plain_text(hand: Hand, n: int) -> Given:
    return Given(text(n), text(n))


def strange_text(hand: Hand, n: int) -> Given:
    return Given(StrangeText(text(n)), text(n))


def no_name(hand: Hand, n: int) -> Given:
    return refused(("", "q" * 256, "é" * 128, "\ud800", "a\udfff")[n % 5], InvalidName)


def no_text(hand: Hand, n: int) -> Given:
    return refused((None, b"a", bytearray(b"a"), ["a"], {}, ("a",), *NOTHING_LIKE_IT)[n % 13])


for each in ("queue", "key", "producer_id"):
    names(each)
RIGHT["producer_id"]["plain-text"] = lambda _, n: Given("ab"[n % 2], "ab"[n % 2])
WRONG["producer_id"]["no-text"] = lambda _, n: refused((b"a", 0, False, ["a"], {}, *NOTHING_LIKE_IT)[n % 12])


@right("producer_id", "properties", "many_properties", "numbers_at")
def _none(hand: Hand, n: int) -> Given:
    return Given(None, None)


@wrong("key")
def _the_engines(hand: Hand, n: int) -> Given:
    return refused(("\0", "\0low-water")[n % 2], InvalidName)


@right("prefix")
def _a_prefix(hand: Hand, n: int) -> Given:
    given = ("", "a", "h", "\0", "q", "zz")[n % 6]
    return Given(given, given)


@right("prefix")
def _a_strange_prefix(hand: Hand, n: int) -> Given:
    return Given(StrangeText(("", "a")[n % 2]), ("", "a")[n % 2])


@right("prefix")
def _half_a_character(hand: Hand, n: int) -> Given:
    return Given("\ud800", "\ud800", may=(ValueError,))


@wrong("prefix")
def _no_prefix(hand: Hand, n: int) -> Given:
    return refused((None, b"a", ["a"], *NOTHING_LIKE_IT)[n % 10])


@right("flag")
def _yes_or_no(hand: Hand, n: int) -> Given:
    return Given(bool(n % 2), bool(n % 2))


@wrong("flag")
def _neither_yes_nor_no(hand: Hand, n: int) -> Given:
    return refused(("no", "", None, 1, 0, [], object())[n % 7])


# Payloads and values.


def content(n: int) -> bytes:
    """Return a payload or value: few of them, so that some are sent again."""
    n %= 14
    size = (0, 1, 3, 8, 20, 700, 5000)[n % 7]
    return bytes((n + at) % 251 for at in range(min(size, 20))) + bytes(max(0, size - 20))


@right("payload", "value")
def _plain_bytes(hand: Hand, n: int) -> Given:
    return Given(content(n), content(n))


@right("payload", "value")
def _a_buffer(hand: Hand, n: int) -> Given:
    data = bytearray(content(n))
    hand.meddlers.append(lambda: _scramble(data))
    return Given((data, memoryview(data), memoryview(data).toreadonly())[n % 3], content(n))


@right("payload", "value")
def _every_second_byte(hand: Hand, n: int) -> Given:
    data = bytearray(content(n))
    hand.meddlers.append(lambda: _scramble(data))
    return Given(memoryview(data)[::2], content(n)[::2])


@right("payload", "value")
def _a_buffer_of_words(hand: Hand, n: int) -> Given:
    data = bytearray(content(n))[: len(content(n)) & ~3]
    hand.meddlers.append(lambda: _scramble(data))
    return Given(memoryview(data).cast("I"), content(n)[: len(content(n)) & ~3])


@right("payload", "value")
def _strange_bytes(hand: Hand, n: int) -> Given:
    return Given(StrangeBytes(content(n)), content(n))


def _scramble(data: bytearray) -> None:
    data[:] = bytes((byte + 0x55) % 256 for byte in data)  # another one each time


@wrong("payload", "value")
def _no_bytes(hand: Hand, n: int) -> Given:
    return refused((None, "text", [98], True, {}, (b"a",), range(3), StrangeText("a"), *NOTHING_LIKE_IT)[n % 15])


@wrong("payload", "value")
def _a_released_view(hand: Hand, n: int) -> Given:
    view = memoryview(b"gone")
    view.release()
    return refused(view, ValueError, TypeError)


@wrong("payload")
def _too_long_a_payload(hand: Hand, n: int) -> Given:
    return refused((bytes, bytearray, StrangeBytes)[n % 3](9001 + n), LimitExceeded)


@wrong("payload")
def _too_long_a_buffer(hand: Hand, n: int) -> Given:
    return refused(memoryview(bytes(36_000)).cast("I"), LimitExceeded)


@wrong("value")
def _too_long_a_value(hand: Hand, n: int) -> Given:
    return refused((bytes, bytearray, StrangeBytes)[n % 3](65_537), LimitExceeded)


@wrong("value")
def _too_long_a_buffer_(hand: Hand, n: int) -> Given:
    return refused(memoryview(bytes(80_000)).cast("I"), LimitExceeded)
