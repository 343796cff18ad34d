"""The duplicate window: what it remembers and for how long, and how it gets over a clean-up."""

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oms_journal.index.duplicates import (
    KEY_PREFIX,
    MICROSECONDS,
    DuplicateWindow,
    KnownIdentifier,
    Scope,
    WindowBounds,
    carried,
    digest,
)
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.operations import VALUE_BYTES_MAX

SCOPES: list[Scope] = [(queue, producer) for queue in (b"q", b"r" * 255) for producer in (b"1", b"2", b"\0" * 255)]
scopes = st.sampled_from(SCOPES)
# The clock may jump back: times are not ordered.
times = st.integers(0, 100).map(lambda seconds: seconds * MICROSECONDS)


@pytest.mark.whole
@given(
    steps=st.lists(st.tuples(scopes, times, st.integers(0, 3)), max_size=30),
    count=st.integers(0, 5),
    age=st.integers(0, 50),
    now=times,
)
@settings(deadline=None, derandomize=True, max_examples=300)
def test_the_window_remembers_the_last_so_many_and_no_older_ones(
    steps: list[tuple[Scope, int, int]], count: int, age: int, now: int
) -> None:
    window = DuplicateWindow(WindowBounds(count=count, age_seconds=age))
    model: OrderedDict[Scope, KnownIdentifier] = OrderedDict()
    for number, (scope, time, sequence) in enumerate(steps, start=1):
        seen = KnownIdentifier(number, 1, number, time, sequence)
        window.remember(scope, seen)
        model.pop(scope, None)
        model[scope] = seen
        while len(model) > count:
            model.popitem(last=False)

    young = {scope: seen for scope, seen in model.items() if now - seen.time <= age * MICROSECONDS}
    assert len(window) == len(model)
    assert {scope: window.find(scope, now) for scope in SCOPES} == {scope: young.get(scope) for scope in SCOPES}
    for sequence in range(5):
        assert window.before(sequence) == {s: seen for s, seen in model.items() if seen.sequence < sequence}
    window.expire(now)
    assert len(window) == len(young)


def test_what_is_exactly_as_old_as_the_bound_is_still_known() -> None:
    window = DuplicateWindow(WindowBounds(age_seconds=10))
    window.remember(SCOPES[0], KnownIdentifier(1, 1, 1, 0, 1))

    assert window.find(SCOPES[0], 10 * MICROSECONDS) is not None
    assert window.find(SCOPES[0], 10 * MICROSECONDS + 1) is None


def test_a_clock_that_jumps_back_forgets_nothing() -> None:
    window = DuplicateWindow(WindowBounds(age_seconds=10))
    window.remember(SCOPES[0], KnownIdentifier(1, 1, 1, 5_000 * MICROSECONDS, 1))

    assert window.find(SCOPES[0], 0) is not None


def _entries(count: int) -> dict[Scope, KnownIdentifier]:
    return {
        (b"q" * (1 + place % 255), str(place).encode()): KnownIdentifier(
            place + 1, 1 + place % 3, place, place, place % 7
        )
        for place in range(count)
    }


@pytest.mark.parametrize("count", [0, 1, 2, 300, 5000])
def test_what_is_carried_forward_comes_back_as_it_was(count: int) -> None:
    entries = _entries(count)
    values = carried(entries)
    window = DuplicateWindow(WindowBounds())
    window.load(values)

    assert all(0 < len(value) <= VALUE_BYTES_MAX for value in values)
    assert len(window) == count
    for scope, seen in entries.items():
        assert window.find(scope, 0) == seen._replace(sequence=0), "it lies in no data file of its own any more"
    assert window.before(1) == {scope: seen._replace(sequence=0) for scope, seen in entries.items()}


def test_the_longest_names_are_carried_forward() -> None:
    entries = {
        (b"q" * 255, bytes([place]) * 255): KnownIdentifier(2**63, 2**32 - 1, 2**64 - 1, -1, 1) for place in range(200)
    }
    window = DuplicateWindow(WindowBounds())
    window.load(carried(entries))

    assert window.before(1) == {scope: seen._replace(sequence=0) for scope, seen in entries.items()}


def test_what_the_files_say_is_newer_than_what_was_carried_forward() -> None:
    window = DuplicateWindow(WindowBounds(count=3))
    window.remember((b"q", b"new"), KnownIdentifier(50, 1, 50, 50, 9))
    window.remember((b"q", b"again"), KnownIdentifier(60, 1, 60, 60, 9))
    old = {
        (b"q", b"again"): KnownIdentifier(1, 1, 1, 1, 1),
        (b"q", b"x"): KnownIdentifier(2, 1, 2, 2, 1),
        (b"q", b"y"): KnownIdentifier(3, 1, 3, 3, 1),
    }
    window.load(carried(old))

    assert window.find((b"q", b"again"), 60) == KnownIdentifier(60, 1, 60, 60, 9)
    assert window.find((b"q", b"new"), 60) == KnownIdentifier(50, 1, 50, 50, 9)
    assert window.find((b"q", b"x"), 60) is None, "the oldest goes first"
    assert window.find((b"q", b"y"), 60) is not None


def test_one_payload_is_its_own_digest_and_several_depend_on_their_order() -> None:
    one, two = xxh3(b"one"), xxh3(b"two")

    assert digest([one]) == one
    assert len({digest([one, two]), digest([two, one]), digest([one]), digest([one, one])}) == 4


def test_the_keys_it_is_carried_under_are_the_engines_own() -> None:
    assert KEY_PREFIX.startswith(b"\0")


@pytest.mark.parametrize("bound", [1, 7, 1000])
def test_a_full_window_forgets_in_the_order_of_arrival_also_after_it_was_carried_forward(bound: int) -> None:
    window = DuplicateWindow(WindowBounds(count=bound))
    given_first = _entries(2 * bound)
    for scope, seen in given_first.items():
        window.remember(scope, seen)
    window.load(carried(dict(list(given_first.items())[:bound])))
    window.remember((b"new", b""), KnownIdentifier(9, 1, 9, 9, 9))

    assert list(window.every()) == [*list(given_first)[bound + 1 :], (b"new", b"")]
