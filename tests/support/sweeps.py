"""Sweeps in two sizes under one name, and tables as one test.

A sweep asks every bit, cut, seed or row. `make test` asks a sample of them, which is the same each day and has every
kind of case in it; the rest has the marker `whole`, and `make test-all` runs both. So nothing is asked twice. What
takes minutes is `in_three_sizes`: the sample, some more that is `whole`, and the others, for `make campaign`. Of a test
that is `whole` itself the sample is `whole`, and the rest for the campaigns.

    @in_two_sizes
    def test_no_flipped_bit_goes_unnoticed(share: Share) -> None:
        for bit in share.of(bits_of(STORE), 200, kind=part_of):
            ...                                     # test_…[sample], and test_…[rest], which is `whole`

    @pytest.mark.parametrize("seed", sampled(range(40), 6))                # six cases, and 34 that are `whole`

    @a_sample(3)                            # of its cases, however they come about, three, and the rest is `whole`
    @pytest.mark.parametrize("before", Status)
    @pytest.mark.parametrize("behind", Status)
    def test_a_step(before: Status, behind: Status) -> None: ...

    @a_sample(3, more=9)                    # three, nine more that are `whole`, and the others, for `make campaign`

A thousand cases that differ in nothing but a row are one test, which names all rows that fail:

    @for_each("status", Status)
    @for_each(("before", "behind"), PAIRS)
    def test_a_row(status: Status, before: int, behind: int) -> None: ...
"""

import enum
import inspect
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
Test = Callable[..., None]
# The marks of what `make test` runs, as pyproject.toml has them, and of what `make test-rest` does.
EACH_DAY, WHOLE_ONLY = "not whole and not slow", "whole and not slow"
SHOWN = 50  # rows that fail, and are shown one by one
MORE_STRIDE = 6  # of the cases that are not in the sample, where there is a third size


def _no_kind(_case: object) -> object:
    return None


def in_sample(cases: Sequence[T], count: int, kind: Callable[[T], object] = _no_kind) -> list[bool]:
    """Say of each case whether it is in the sample: `count` evenly spread ones, and the first of each kind."""
    count = min(count, len(cases))
    even = {round(turn * (len(cases) - 1) / max(1, count - 1)) for turn in range(count)}
    kinds = {kind(cases[place]) for place in even}
    chosen = []
    for place, case in enumerate(cases):
        is_chosen = place in even or kind(case) not in kinds
        kinds.add(kind(case))
        chosen.append(is_chosen)
    return chosen


class Share(enum.Enum):
    """What one run of a sweep asks: the sample or the rest; of a long one the sample, some more, or all the others."""

    SAMPLE = "sample"
    REST = "rest"
    MORE = "more"
    OTHERS = "others"

    def of(self, cases: Iterable[T], count: int, kind: Callable[[T], object] = _no_kind) -> list[T]:
        """Return this share: about `count` of the cases, with one of each kind among them; or of all others."""
        every, is_mine = list(cases), self._chosen()
        return [case for case, in_it in zip(every, in_sample(every, count, kind), strict=True) if is_mine(in_it)]

    def every(self, stride: int, cases: Iterable[T]) -> Iterator[T]:
        """Yield this share of cases whose end the test finds: every `stride`-th from the first on, or of the others."""
        is_mine = self._chosen()
        for place, case in enumerate(cases):
            if is_mine(place % stride == 0):
                yield case

    def chooser(self, stride: int) -> Callable[[int, object], bool]:
        """Return what says of a case whether it is in this share, by its number and a kind that shows late.

        In the sample is every `stride`-th number, and the first of each kind.
        """
        kinds: set[object] = set()
        is_mine = self._chosen()

        def is_in_it(number: int, kind: object = None) -> bool:
            is_chosen = number % stride == 0 or kind not in kinds
            kinds.add(kind)
            return is_mine(is_chosen)

        return is_in_it

    def _chosen(self) -> Callable[[bool], bool]:
        """Return what says of a case, asked in turn, whether it is in this share, by whether it is in the sample."""
        if self is Share.SAMPLE:
            return lambda in_it: in_it
        if self is Share.REST:
            return lambda in_it: not in_it
        turn = itertools.count()

        def is_mine(in_it: bool) -> bool:
            return not in_it and (next(turn) % MORE_STRIDE == 0) == (self is Share.MORE)

        return is_mine


def in_two_sizes(test: Test) -> Test:
    """Run a test that takes its `share` twice: the sample each day, the rest where the whole is asked for."""
    marked: Test = pytest.mark.parametrize("share", _shares(Share.REST))(test)
    return marked


def in_three_sizes(test: Test) -> Test:
    """Run a test that takes its `share` three times: of what takes minutes, `make campaign` has the largest part.

    The sample each day, some more where the whole is asked for, the others in the campaigns.
    """
    marked: Test = pytest.mark.parametrize("share", _shares(Share.MORE, Share.OTHERS))(test)
    return marked


MARKS: dict[Share, tuple[pytest.MarkDecorator, ...]] = {
    Share.SAMPLE: (),
    Share.REST: (pytest.mark.whole,),
    Share.MORE: (pytest.mark.whole,),
    Share.OTHERS: (pytest.mark.slow,),
}


def _shares(*behind: Share) -> list[Any]:
    return [pytest.param(share, id=share.value, marks=MARKS[share]) for share in (Share.SAMPLE, *behind)]


def sampled(cases: Iterable[T], count: int, kind: Callable[[T], object] = _no_kind) -> list[Any]:
    """Return all cases as parameters; those that are not in the sample are `whole`."""
    every = list(cases)
    return [
        pytest.param(case, marks=() if is_chosen else pytest.mark.whole)
        for case, is_chosen in zip(every, in_sample(every, count, kind), strict=True)
    ]


FACES_MAX = 3  # so few values of a parameter are kinds of cases, not points of a sweep


def a_sample(count: int | None = None, *, more: int | None = None) -> pytest.MarkDecorator:
    """Run so many of a test's cases each day, evenly spread; the others are `whole`.

    With `more`, so many of those that are `whole` stay it, and what is left is `slow`: for a test that takes long. Of
    a parameter that has two or three values each is in the sample: such as threads and tasks, or with and without.
    """
    return pytest.mark.sample(count, more)


def takes_turns(stride: int, *names: str) -> pytest.MarkDecorator:
    """Run each test of a file with one in so many values of these parameters each day: another test with another value.

    For many tests that all run with every kind of a thing. Each kind runs each day, and each test, if not with each.
    """
    return pytest.mark.turns(stride, *names)


def _mark_turns(cases: Sequence[pytest.Item], stride: int, *names: str) -> None:
    first = zlib.crc32(cases[0].nodeid.partition("[")[0].encode())
    for name in names:
        places = {case: case.callspec.indices[name] for case in cases if name in case.callspec.indices}  # type: ignore[attr-defined]
        step = min(stride, len(set(places.values())))
        for case, place in places.items():
            if (first + place) % step:
                case.add_marker(pytest.mark.whole)


def mark_samples(items: Iterable[pytest.Item]) -> None:
    """Mark as `whole` or `slow` what is not in the sample of its test. What is `slow` already is no case of these.

    What is `whole` twice is `slow`: of a test that is `whole` itself, what `sampled` or `split` leave to the whole.
    """
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        if len([*item.iter_markers("whole")]) > 1:
            item.add_marker(pytest.mark.slow)
        if any(map(item.get_closest_marker, ("sample", "turns"))) and not item.get_closest_marker("slow"):
            by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in by_test.values():
        if (sample := cases[0].get_closest_marker("sample")) is not None:
            _mark_sample(cases, *sample.args)
        elif (turns := cases[0].get_closest_marker("turns")) is not None and hasattr(cases[0], "callspec"):
            _mark_turns(cases, *turns.args)


def _mark_sample(cases: Sequence[pytest.Item], count: int | None, more: int | None) -> None:
    if count is not None:
        _mark_others([case for case in cases if not case.get_closest_marker("whole")], count, pytest.mark.whole)
    if more is not None:
        _mark_others([case for case in cases if case.get_closest_marker("whole")], more, pytest.mark.slow)


def _mark_others(cases: Sequence[pytest.Item], count: int, mark: pytest.MarkDecorator) -> None:
    """Mark what is not among so many of these cases, nor needed for each value of a parameter of few values."""
    chosen = in_sample(cases, count)
    for place in _with_new_faces(cases, chosen):
        chosen[place] = True
    for case, is_in_it in zip(cases, chosen, strict=True):
        if not is_in_it:
            case.add_marker(mark)


def _with_new_faces(cases: Sequence[pytest.Item], chosen: Sequence[bool]) -> Iterator[int]:
    """Yield the places of few cases that have each value of a parameter of few values which no chosen case has."""
    params = [case.callspec.params for case in cases if hasattr(case, "callspec")]
    if not params or len(params) != len(cases):
        return
    values = {name: {repr(each[name]) for each in params if name in each} for name in params[0]}
    few = [name for name, found in values.items() if 1 < len(found) <= FACES_MAX]
    faces = [{(name, repr(each[name])) for name in few} for each in params]
    left = set().union(*faces).difference(*(mine for mine, is_in in zip(faces, chosen, strict=True) if is_in))
    while left:
        place = max(range(len(faces)), key=lambda place: len(faces[place] & left))
        left -= faces[place]
        yield place


def split(sample: Iterable[object], rest: Iterable[object]) -> list[Any]:
    """Return the sample as parameters, and the rest that is `whole`."""
    return [*sample, *(pytest.param(case, marks=pytest.mark.whole) for case in rest)]


PARAMETERS = type(pytest.param())


def _values_of(row: Any) -> Any:
    """Return a row without the name that `pytest.param` may have given it."""
    if not isinstance(row, PARAMETERS):
        return row
    assert not row.marks, "a row of a table has no marks of its own"
    return row.values if len(row.values) > 1 else row.values[0]


def for_each(
    names: str | tuple[str, ...],
    rows: Iterable[Any],
    *,
    sample: int | None = None,
    kind: Callable[[Any], object] = _no_kind,
    is_long: bool = False,
) -> Callable[[Test], Test]:
    """Make one test of what would be a case for each row: it runs all of them, and names those that fail.

    What else the test takes, it takes once for all rows. With a sample it is in two sizes; a long one in three.
    """
    arguments = (names,) if isinstance(names, str) else names
    table = [_values_of(row) for row in rows]
    assert table, "a table without a row asks nothing"

    def over(test: Test) -> Test:
        def all_rows(**others: Any) -> None:
            failures: list[tuple[str, Exception]] = []
            mine = table if sample is None else others.pop("share").of(table, sample, kind)
            for row in mine:
                values = (row,) if isinstance(names, str) else row
                assert isinstance(values, tuple | list)
                try:
                    test(**dict(zip(arguments, values, strict=True)), **others)
                except Exception as failure:
                    label = ", ".join(f"{name}={value!r}" for name, value in zip(arguments, values, strict=True))
                    failures.append((label, failure))
            if failures:
                told = [f"{label}: {type(each).__name__}: {each}" for label, each in failures[:SHOWN]]
                head = f"{len(failures)} of {len(mine)} rows fail"
                raise AssertionError("\n".join([head, *told])) from failures[0][1]

        signature = inspect.signature(test)
        rest = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        assert len(rest) == len(signature.parameters) - len(arguments), f"{test.__name__} takes {arguments}"
        all_rows.__name__, all_rows.__qualname__, all_rows.__doc__ = test.__name__, test.__qualname__, test.__doc__
        all_rows.__module__ = test.__module__
        all_rows.__dict__.update(test.__dict__)
        if sample is not None:
            rest.append(inspect.Parameter("share", inspect.Parameter.KEYWORD_ONLY))
        all_rows.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        if sample is None:
            return all_rows
        return in_three_sizes(all_rows) if is_long else in_two_sizes(all_rows)

    return over
