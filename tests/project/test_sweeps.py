"""A sample and its rest are the sweep; a table names each row that fails."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.support.sweeps import Share, a_sample, for_each, in_sample, mark_samples, sampled, takes_turns


@for_each("count", range(1, 12))
@for_each("size", range(12))
def test_the_sample_and_the_rest_are_every_case_once(size: int, count: int) -> None:
    cases = list(range(size))

    sample, rest = Share.SAMPLE.of(cases, count), Share.REST.of(cases, count)
    more, others = Share.MORE.of(cases, count), Share.OTHERS.of(cases, count)

    assert sorted(sample + rest) == cases
    assert sorted(more + others) == rest
    assert bool(more) == bool(rest)
    assert len(sample) == min(size, count)
    assert [*in_sample(cases, count)] == [case in sample for case in cases]


def test_the_first_and_the_last_case_and_one_of_each_kind_are_in_the_sample() -> None:
    sample = Share.SAMPLE.of(range(100), 3, kind=lambda case: case in (31, 77))

    assert sample == [0, 31, 50, 99]


def test_every_fifth_and_the_first_of_each_kind_are_in_the_sample_of_a_sweep_without_a_known_end() -> None:
    assert list(Share.SAMPLE.every(5, range(1, 13))) == [1, 6, 11]
    assert list(Share.REST.every(5, range(1, 13))) == [2, 3, 4, 5, 7, 8, 9, 10, 12]
    assert list(Share.MORE.every(5, range(1, 13))) == [2, 9]
    assert list(Share.OTHERS.every(5, range(1, 13))) == [3, 4, 5, 7, 8, 10, 12]
    changes = list(enumerate(["create", "write", "sync", "write", "write", "write", "unlink", "write"], 1))
    for share, expected in ((Share.SAMPLE, [1, 2, 3, 5, 7]), (Share.REST, [4, 6, 8]), (Share.MORE, [4])):
        is_mine = share.chooser(5)
        assert [number for number, kind in changes if is_mine(number, kind)] == expected


def test_a_parameter_that_is_not_in_the_sample_is_marked() -> None:
    marks = [getattr(each, "marks") for each in sampled("abcde", 2)]  # noqa: B009

    assert [bool(mark) for mark in marks] == [False, True, True, True, False]


def test_a_table_names_all_rows_that_fail_and_only_those() -> None:
    @for_each("left", range(3))
    @for_each(("right", "total"), [(1, 1), (2, 3)])
    def adds(left: int, right: int, total: int) -> None:
        assert left + right == total, "it adds up"

    with pytest.raises(AssertionError) as raised:
        adds()

    told = str(raised.value)
    assert told.startswith("3 of 3 rows fail")
    assert told.count("1 of 2 rows fail") == 2
    assert "left=2: AssertionError: 2 of 2 rows fail\nright=1, total=1: AssertionError: it adds up" in told


def test_a_table_without_a_row_is_refused() -> None:
    with pytest.raises(AssertionError, match="asks nothing"):
        for_each("row", [])


class Case:
    """A test as pytest collects it, as far as its marks go."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator, **params: object) -> None:
        self.nodeid = nodeid
        self.callspec = SimpleNamespace(params=params, indices=params)
        self._marks = [decorator.mark for decorator in marks]

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        return (mark for mark in self._marks if mark.name == name)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(self.iter_markers(name), None)

    def add_marker(self, decorator: pytest.MarkDecorator) -> None:
        self._marks.append(decorator.mark)


def test_of_the_cases_of_a_test_some_run_each_day_and_the_others_are_whole() -> None:
    many = [Case(f"tests/a.py::test_many[{n}]", a_sample(3)) for n in range(9)]
    few = [Case(f"tests/a.py::test_few[{n}]", a_sample(3)) for n in range(2)]
    long = [Case(f"tests/a.py::test_many[long-{n}]", a_sample(3), pytest.mark.slow) for n in range(4)]
    plain = [Case("tests/a.py::test_plain")]

    mark_samples([*many, *few, *long, *plain])  # type: ignore[list-item]

    assert [n for n, case in enumerate(many) if case.get_closest_marker("whole") is None] == [0, 4, 8]
    assert not any(case.get_closest_marker("whole") for case in (*few, *long, *plain))


def test_of_the_cases_that_are_whole_some_stay_it_and_the_others_are_for_the_campaigns() -> None:
    cases = [Case(f"tests/a.py::test_it[{n}]", a_sample(2, more=3), n=n) for n in range(9)]
    without_sample = [Case(f"tests/a.py::test_so[{n}]", a_sample(more=2), pytest.mark.whole) for n in range(5)]

    mark_samples([*cases, *without_sample])  # type: ignore[list-item]

    assert [n for n, case in enumerate(cases) if case.get_closest_marker("whole") is None] == [0, 8]
    assert [n for n, case in enumerate(cases) if case.get_closest_marker("slow")] == [2, 3, 5, 6]
    assert [n for n, case in enumerate(without_sample) if case.get_closest_marker("slow")] == [1, 2, 3]


def test_what_a_sample_of_a_whole_test_leaves_out_is_for_the_campaigns() -> None:
    asked = Case("tests/a.py::test_it[0]", pytest.mark.whole)
    left_out = Case("tests/a.py::test_it[1]", pytest.mark.whole, pytest.mark.whole)

    mark_samples([asked, left_out])  # type: ignore[list-item]

    assert asked.get_closest_marker("slow") is None
    assert left_out.get_closest_marker("slow")


def test_each_value_of_a_parameter_that_has_few_is_in_the_sample() -> None:
    cases = [
        Case(f"tests/a.py::test_it[{face}-{n}]", a_sample(1), face=face, n=n)
        for face in ("threads", "tasks")
        for n in range(9)
    ]

    mark_samples(cases)  # type: ignore[arg-type]

    daily = [case.callspec.params for case in cases if case.get_closest_marker("whole") is None]
    assert daily == [{"face": "threads", "n": 0}, {"face": "tasks", "n": 0}]


def test_as_few_cases_as_can_be_have_each_value_of_the_parameters_that_have_few() -> None:
    cases = [
        Case(f"tests/a.py::test_it[{one}-{two}-{three}]", a_sample(1), one=one, two=two, three=three)
        for one in (False, True)
        for two in (False, True)
        for three in "abc"
    ]

    mark_samples(cases)  # type: ignore[arg-type]

    daily = [case.callspec.params for case in cases if case.get_closest_marker("whole") is None]
    assert len(daily) == 3
    assert {each["three"] for each in daily} == {*"abc"}
    assert {each["one"] for each in daily} == {each["two"] for each in daily} == {False, True}


def test_tests_that_take_turns_have_every_value_among_them() -> None:
    tests = [
        [Case(f"tests/a.py::test_{test}[{kind}]", takes_turns(3, "kind"), kind=kind) for kind in range(6)]
        for test in range(12)
    ]

    few = [Case(f"tests/a.py::test_few[{kind}]", takes_turns(3, "kind"), kind=kind) for kind in range(2)]

    mark_samples(case for cases in (*tests, few) for case in cases)  # type: ignore[misc]

    assert len([case for case in few if case.get_closest_marker("whole") is None]) == 1
    daily = [[n for n, case in enumerate(cases) if case.get_closest_marker("whole") is None] for cases in tests]
    assert {tuple(each) for each in daily} == {(0, 3), (1, 4), (2, 5)}
