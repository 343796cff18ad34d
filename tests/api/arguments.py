"""Arguments: every way in which a caller gives one, right, wrong and strange, with what it means.

A way is named in a script by its kind, its name and a number that varies it; it is made when its call is played, since
a message's number depends on what is there. Where the same thing could be changed by its caller meanwhile, a meddler
is left with the hand: it is played while the call is under way, and after it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import Any

from oms_journal import InvalidName, LimitExceeded, Message
from tests.api.model import FAR, LONG, NEVER, Model, Raised, Receipt


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
    receipts: list[Receipt] = field(default_factory=list)  # the latest ones
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
    "count": ("count",),
    "numbers_at": ("numbers_at",),
    "queues": ("queue",),
    "asked_queue": ("queue",),
    "wait": ("wait",),
    "wait_for_room": ("wait",),
    "lease": ("lease",),
    "lease_seconds": ("lease",),
    "leased": ("lease", "message"),
    "delay": ("delay",),
    "due_in": ("delay",),
    "due_at": ("at must",),
    "expires": ("expires",),
    "group": ("group",),
    "reason": ("reason",),
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


_enter(RIGHT, ("queues",), plain_text)
_enter(RIGHT, ("queues",), strange_text)
_enter(WRONG, ("queues",), no_name)


@right("queues")
def _several(hand: Hand, n: int) -> Given:
    given = [text(n), text(n + 1), text(n)][: n % 3 + 1]
    return Given((given, tuple(given), StrangeList(given))[n // 3 % 3], given)


@right("queues")
def _several_once(hand: Hand, n: int) -> Given:
    given = [text(n), StrangeText(text(n + 2))]
    once = Once(given)
    return Given(once, [text(n), text(n + 2)], used_up=once.used_up)


@wrong("queues")
def _no_queues(hand: Hand, n: int) -> Given:
    wrong = (None, b"a", bytearray(b"a"), {}, {"a": 1}, ["a", 5], [None], *NOTHING_LIKE_IT)
    return refused(wrong[n % len(wrong)])


@wrong("queues")
def _none_at_all(hand: Hand, n: int) -> Given:
    return refused(([], (), iter([]), StrangeList())[n % 4], ValueError)


@wrong("queues")
def _no_name_among_them(hand: Hand, n: int) -> Given:
    return refused(["a", ("", "q" * 256, "\ud800")[n % 3]], InvalidName)


_enter(RIGHT, ("asked_queue",), plain_text)
_enter(RIGHT, ("asked_queue",), strange_text)
_enter(WRONG, ("asked_queue",), no_name)


@right("asked_queue")
def _every_queue(hand: Hand, n: int) -> Given:
    return Given(None, None)


@wrong("asked_queue")
def _no_text_(hand: Hand, n: int) -> Given:
    return refused((b"a", bytearray(b"a"), ["a"], {}, ("a",), *NOTHING_LIKE_IT)[n % 12])


@right("wait", "wait_for_room")
def _no_wait_or_a_short_one(hand: Hand, n: int) -> Given:
    return Given((0, 0.0, 0.0001, 0.001)[n % 4])


@right("wait_for_room")
def _refused_at_once(hand: Hand, n: int) -> Given:
    return Given(None)


@wrong("wait", "wait_for_room")
def _no_time_to_wait(hand: Hand, n: int) -> Given:
    return refused((-1, -0.001, float("nan"), float("-inf"))[n % 4], ValueError)


@wrong("wait", "delay")
def _no_seconds(hand: Hand, n: int) -> Given:
    wrong: tuple[object, ...] = (None, True, "1", b"1", [1], {}, 1j, object(), len, ...)
    return refused(wrong[n % len(wrong)])


@wrong("wait_for_room")
def _no_seconds_for_room(hand: Hand, n: int) -> Given:
    wrong: tuple[object, ...] = (True, "1", b"1", [1], {}, 1j, object(), len, ...)
    return refused(wrong[n % len(wrong)])


@right("lease")
def _a_lease_or_none(hand: Hand, n: int) -> Given:
    return Given((None, 5, 0.001, 1e9)[n % 4])


@right("lease_seconds")
def _how_long_it_goes_on(hand: Hand, n: int) -> Given:
    return Given((5, 0.001, 1e9, 2.5)[n % 4])


@right("leased")
def _what_was_taken_on_a_lease(hand: Hand, n: int) -> Given:
    leased = [one for one in hand.receipts if one.token]
    if not leased:
        return refused(Message(1, "a", b"", {}, 0, None, 1, 4352), ValueError)
    found = leased[n % len(leased)]
    return Given(found.message, found)


@wrong("leased")
def _what_was_taken_without_a_lease(hand: Hand, n: int) -> Given:
    plain = [one.message for one in hand.receipts if not one.token]
    return refused([*plain, Message(1, "a", b"", {}, 0, None, 1, 4352)][n % (len(plain) + 1)], ValueError)


@wrong("leased")
def _no_message(hand: Hand, n: int) -> Given:
    return refused((None, 1, "1", b"1", (1, "a", b""), [1], {}, True, *NOTHING_LIKE_IT)[n % 15])


@wrong("lease_seconds")
def _no_seconds_at_all(hand: Hand, n: int) -> Given:
    return refused(None)


@wrong("lease", "lease_seconds")
def _no_time_of_a_lease(hand: Hand, n: int) -> Given:
    return refused((0, 0.0, -1, 1e10, float("nan"), float("inf"))[n % 6], ValueError)


@wrong("lease", "lease_seconds")
def _no_lease(hand: Hand, n: int) -> Given:
    wrong: tuple[object, ...] = (True, False, "1", b"1", [1], {}, 1j, object(), len, ...)
    return refused(wrong[n % len(wrong)])


@right("delay")
def _no_delay_or_a_long_one(hand: Hand, n: int) -> Given:
    given = (0, 0.0, 10**6, 1e9)[n % 4]
    return Given(given, given)


@wrong("delay")
def _no_time_of_a_delay(hand: Hand, n: int) -> Given:
    return refused((-1, 1e10, float("nan"), float("inf"))[n % 4], ValueError)


@right("due_in")
def _at_once_or_much_later(hand: Hand, n: int) -> Given:
    given = (None, 0, 0.0, 10**6, LONG)[n % 5]
    return Given(given, given)


@right("due_at")
def _long_ago_or_much_later(hand: Hand, n: int) -> Given:
    given = (None, 0, 1.5, FAR, FAR.astimezone(timezone(timedelta(hours=-5))))[n % 5]
    return Given(given, given)


@right("expires")
def _never_or_much_later(hand: Hand, n: int) -> Given:
    given = (None, LONG, NEVER, NEVER.astimezone(timezone(timedelta(hours=9))))[n % 4]
    return Given(given, given)


@wrong("due_in")
def _no_time_until_it_is_due(hand: Hand, n: int) -> Given:
    return refused((-1, 1e10, float("nan"), float("inf"))[n % 4], ValueError)


@wrong("due_at", "expires")
def _no_point_in_time(hand: Hand, n: int) -> Given:
    without_zone = datetime(2040, 1, 1)  # noqa: DTZ001
    return refused((-1, 1e12, float("nan"), float("inf"), without_zone)[n % 5], ValueError)


@wrong("due_in", "due_at", "expires")
def _neither_seconds_nor_a_time(hand: Hand, n: int) -> Given:
    wrong: tuple[object, ...] = (True, "1", b"1", [1], {}, 1j, timedelta(1), date(2040, 1, 1), object(), len, ...)
    return refused(wrong[n % len(wrong)])


@right("group")
def _a_group_or_none(hand: Hand, n: int) -> Given:
    given = (None, "g", StrangeText("g"), "g" * 255, "größe")[n % 5]
    return Given(given, given if given is None else str.__str__(given))


_enter(WRONG, ("group",), no_name)


@wrong("group")
def _no_name_of_a_group(hand: Hand, n: int) -> Given:
    return refused((b"g", 0, False, ["g"], {}, *NOTHING_LIKE_IT)[n % 12])


@right("reason")
def _a_reason(hand: Hand, n: int) -> Given:
    return Given(("", "why", StrangeText("why"), "\ud800", "\0", "x" * 5000)[n % 6])


@wrong("reason")
def _no_reason(hand: Hand, n: int) -> Given:
    wrong: tuple[object, ...] = (None, 5, True, b"why", ["why"], {}, *NOTHING_LIKE_IT)
    return refused(wrong[n % len(wrong)])


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


@right("count")
def _so_many(hand: Hand, n: int) -> Given:
    count = n % 4 + 1
    return Given((count, StrangeNumber(count))[n // 4 % 2], count)


@wrong("count")
def _none_or_fewer(hand: Hand, n: int) -> Given:
    return refused((0, -1, StrangeNumber(0))[n % 3], ValueError)


@wrong("count")
def _no_count(hand: Hand, n: int) -> Given:
    return refused((None, True, False, "1", b"1", 1.0, [1], {}, *NOTHING_LIKE_IT[1:])[n % 14])


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
