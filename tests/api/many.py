"""Arguments that hold several things: properties, payloads, numbers. Entered into the tables of `arguments`."""

from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from oms_journal import LimitExceeded, Message
from tests.api.arguments import (
    NOTHING_LIKE_IT,
    RIGHT,
    WRONG,
    Given,
    Hand,
    Once,
    Oops,
    StrangeList,
    StrangeMapping,
    StrangeNumber,
    StrangeText,
    refused,
    right,
    way,
    wrong,
)

# Properties.


def pairs(n: int) -> dict[str, str]:
    return ({}, {"a": "1"}, {"ключ": "", "": "значение"}, {"a": "x" * 300, "b": "2"})[n % 4]


@right("properties")
def _a_dict(hand: Hand, n: int) -> Given:
    return Given(pairs(n), pairs(n))


@right("properties")
def _a_dict_that_changes(hand: Hand, n: int) -> Given:
    given = pairs(n)

    def meddle() -> None:
        given.clear()
        given["changed"] = "meanwhile"

    hand.meddlers.append(meddle)
    return Given((given, MappingProxyType(given), ChainMap(given))[n % 3], pairs(n))


@right("properties")
def _another_mapping(hand: Hand, n: int) -> Given:
    kinds: tuple[Callable[[Any], object], ...] = (MappingProxyType, ChainMap, UserDict, OrderedDict, StrangeMapping)
    return Given(kinds[n % 5](pairs(n)), pairs(n))


@right("properties")
def _strange_texts(hand: Hand, n: int) -> Given:
    return Given({StrangeText("a"): StrangeText("1"), "b": StrangeText("")}, {"a": "1", "b": ""})


@wrong("properties")
def _no_mapping(hand: Hand, n: int) -> Given:
    return refused((["a"], [], (), "", "a", b"", 0, False, [("a", "1")], {"a"}, iter(()), *NOTHING_LIKE_IT)[n % 18])


@wrong("properties")
def _no_texts(hand: Hand, n: int) -> Given:
    found: tuple[dict[Any, Any], ...] = ({1: "a"}, {"a": 1}, {"a": None}, {None: "a"}, {"a": b"a"}, {"a": ["b"]})
    return refused(found[n % 6], TypeError, ValueError)


@wrong("properties")
def _halves_of_characters(hand: Hand, n: int) -> Given:
    return refused(({"\ud800": "a"}, {"a": "\udfff"})[n % 2], ValueError)


@wrong("properties")
def _too_long_properties(hand: Hand, n: int) -> Given:
    found = ({"a": "x" * 65_536}, {"x" * 65_536: ""}, {str(at): "x" * 1000 for at in range(70)}, {"a": "x" * 9000})
    return refused(found[n % 4], LimitExceeded)


class Raising(StrangeMapping):
    """A mapping whose items cannot be had."""

    def _raise(self, *_: object) -> Any:
        raise Oops

    items = keys = values = __iter__ = __getitem__ = _raise


@wrong("properties")
def _a_mapping_that_raises(hand: Hand, n: int) -> Given:
    return refused(Raising(a="1"), Oops)


# Many of anything. What is given is a list of ways that its items are given in.


def carried(items: list[Any], n: int, hand: Hand) -> tuple[object, Callable[[], None] | None]:
    """Return the items in an iterable of some kind, and what looks whether it was used up, once."""
    if n % 10 == 0:
        return tuple(items), None
    if n % 10 == 1:
        return _meddled(list(items), hand), None
    if n % 10 == 2:
        return _meddled(StrangeList(items), hand), None
    if n % 10 == 3:
        return deque(items), None
    if n % 10 == 4:
        return UserList(items), None
    if n % 10 == 5:
        once = Once(items)
        return once, once.used_up
    if n % 10 == 6:
        hand.is_inner = True
        return _used_up(_asking(items, hand, n))
    return _used_up((iter(items), (item for item in items), map(lambda item: item, items))[n % 3])


def _meddled(items: list[Any], hand: Hand) -> list[Any]:
    def meddle() -> None:
        items.clear()
        list.extend(items, [None, "changed", -1])

    hand.meddlers.append(meddle)
    return items


def _asking(items: Iterable[Any], hand: Hand, n: int) -> Iterator[Any]:
    """Yield the items, and use the database before each."""
    for place, item in enumerate(items):
        hand.inner(n + place)
        yield item
    hand.inner(n)


def _used_up(given: Iterator[Any]) -> tuple[object, Callable[[], None]]:
    def look() -> None:
        assert next(given, Oops) is Oops, "an iterator was not used up"

    return given, look


def _broken_off(items: Sequence[Any]) -> Iterator[Any]:
    yield from items[: len(items) // 2]
    raise Oops


class NoIterator:
    """Something whose iterator cannot be had."""

    def __iter__(self) -> Iterator[Any]:
        raise Oops


def _many(kind: str, of: str, most: int) -> None:
    """Enter the ways to give many of a kind."""

    def good(hand: Hand, n: int) -> list[Given]:
        ways = sorted(name for name in RIGHT[of])
        return [way(of, ways[(n + at * 7) % len(ways)])(hand, n * 3 + at) for at in range(n % most)]

    def some(hand: Hand, n: int) -> Given:
        found = good(hand, n)
        hand.count = len(found)
        value, used_up = carried([one.value for one in found], n // most, hand)
        may = tuple(kind for one in found for kind in one.may)
        return Given(value, [one.means for one in found], may=may, used_up=used_up)

    def one_is_wrong(hand: Hand, n: int) -> Given:
        ways = sorted(WRONG[of])
        bad = way(of, ways[n % len(ways)])(hand, n // 3)
        items = [one.value for one in good(hand, n)]
        items.insert(n % (len(items) + 1), bad.value)
        hand.count = len(items)
        return refused(carried(items, n // 7, hand)[0], *bad.wrong)

    def it_breaks_off(hand: Hand, n: int) -> Given:
        items = [one.value for one in good(hand, n)]
        return refused(NoIterator() if n % 5 == 0 else _broken_off(items), Oops)

    def none_at_all(hand: Hand, n: int) -> Given:
        found = ("12", {"a": b"b"}, StrangeText("a"), *NOTHING_LIKE_IT)
        return refused((*found, *((b"abc", bytearray(b"a"), None) if of == "payload" else found[:3]))[n % 13])

    RIGHT.setdefault(kind, {})["some"] = some
    WRONG.setdefault(kind, {}).update(
        {"one-is-wrong": one_is_wrong, "it-breaks-off": it_breaks_off, "none-at-all": none_at_all}
    )


@right("many_properties")
def _one_for_each(hand: Hand, n: int) -> Given:
    each = [None if (n + at) % 3 == 0 else pairs(n + at) for at in range(hand.count or 0)]
    value, used_up = carried([None if one is None else dict(one) for one in each], n // 4, hand)
    return Given(value, each, used_up=used_up if hand.count else None)


@wrong("many_properties")
def _too_few_or_too_many(hand: Hand, n: int) -> Given:
    count = (hand.count or 0) + (1 if n % 2 or not hand.count else -1)
    return refused(carried([{"a": "1"}] * count, n // 2, hand)[0], ValueError)


@wrong("many_properties")
def _one_is_no_mapping(hand: Hand, n: int) -> Given:
    bad = (_no_mapping, _no_texts, _halves_of_characters, _a_mapping_that_raises)[n % 4](hand, n)
    each: list[object] = [{}] * max(0, (hand.count or 0) - 1)
    each.insert(n % (len(each) + 1), bad.value)
    return refused(each, *bad.wrong, *(() if hand.count else (ValueError,)))


@wrong("many_properties")
def _no_iterable(hand: Hand, n: int) -> Given:
    return refused(({"a": "1"}, "a", b"a", *NOTHING_LIKE_IT)[n % 10], TypeError, ValueError)


@wrong("many_properties")
def _it_breaks_off(hand: Hand, n: int) -> Given:
    return refused(_broken_off([None] * (hand.count or 0)), Oops)


_many("payloads", "payload", 5)

# Numbers of messages.


def _some_number(hand: Hand, n: int) -> int:
    """Return the number of a message that is undelivered, mostly; of one that is gone, or never was."""
    model = hand.model
    known = sorted(model.messages)
    if known and n % 8 < 5:
        return known[n // 8 % len(known)]
    if model.gone and n % 8 < 7:
        return model.gone[n % len(model.gone)]
    return (0, -1, model.highest + 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), 2**64 + 1)[n // 8 % 10]


@right("number")
def _a_number(hand: Hand, n: int) -> Given:
    return Given(_some_number(hand, n), _some_number(hand, n))


@right("number")
def _a_message(hand: Hand, n: int) -> Given:
    number = _some_number(hand, n)
    _, queue, payload, properties = hand.model.messages.get(number, (0, "a", b"", {}))
    return Given(Message(number, queue, payload, properties, 0, None, 1, 4352), number)


@right("number")
def _a_taken_number(hand: Hand, n: int) -> Given:
    taken = sorted(hand.model.taken) or [0]
    return Given(taken[n % len(taken)], taken[n % len(taken)])


@right("number")
def _a_relative_of_a_number(hand: Hand, n: int) -> Given:
    number = _some_number(hand, n)
    return Given((StrangeNumber(number), IntEnum("Numbers", {"one": number}).one)[n % 2], number)  # type: ignore[attr-defined]


@right("number")
def _a_number_of_numpys(hand: Hand, n: int) -> Given:
    number = _some_number(hand, n) & 0xFFFF
    return Given((np.int64(number), np.uint64(number))[n % 2], number, may=(TypeError,))


@wrong("number")
def _no_number(hand: Hand, n: int) -> Given:
    message = Message("1", "a", b"", {}, 0, None, 1, 4352)  # type: ignore[arg-type]
    found: tuple[object, ...] = (None, "1", b"1", True, False, 1.0, float("nan"), (1,), [1], {}, Fraction(1), message)
    return refused((*found, message._replace(number=True), *NOTHING_LIKE_IT[1:])[n % 19])


_many("numbers", "number", 7)


@right("numbers_or_all")
def _all_of_them(hand: Hand, n: int) -> Given:
    return Given(None, None)


RIGHT["numbers_or_all"].update(RIGHT["numbers"])
WRONG["numbers_or_all"] = WRONG["numbers"].copy()


@wrong("numbers")
def _nothing(hand: Hand, n: int) -> Given:
    return refused(None)


@wrong("numbers", "numbers_or_all")
def _a_message_alone(hand: Hand, n: int) -> Given:
    return refused(Message(1, "a", b"", {}, 0, None, 1, 4352))


# Where numbers go into a value.


@right("numbers_at")
def _places(hand: Hand, n: int) -> Given:
    each: tuple[dict[int, int], ...] = ({}, {0: 0}, {8: 1, 0: 0}, {0: 5}, {16: 0}, {1 << 40: 0}, {-1: 0}, {0: -1})
    found = each[n % 8]
    return Given((found, MappingProxyType(dict(found)))[n % 2], dict(found))


@right("numbers_at")
def _places_that_change(hand: Hand, n: int) -> Given:
    given = {0: 0}
    hand.meddlers.append(lambda: given.update({0: 99, 99: 0}))
    return Given(given, {0: 0})


@wrong("numbers_at")
def _no_places(hand: Hand, n: int) -> Given:
    found = ([1], "a", b"a", {"a": 0}, {0: "a"}, {0: None}, {0.0: 0}, {0: True}, {None: 0}, *NOTHING_LIKE_IT)
    return refused(found[n % 16])
