"""The search for the tests that find a deliberate fault."""

import io

import pytest

from tests.planted.__main__ import main, search, tell
from tests.planted.faults import ALL, Planted
from tests.planted.rooms import FOUND_ELSEWHERE, TESTS, files_near, room_of
from tests.planted.search import Found, Search
from tests.planted.toys import TOYS
from tests.support.sweeps import for_each

QUICK = "the-duplicate-window-is-forgotten-at-a-restart"
HARMLESS = "toy-nothing-is-wrong"
UNFIT = "toy-it-does-not-fit"
ITS_TESTS = "tests/index/test_duplicates.py"


@pytest.mark.whole
def test_each_fault_has_tests_that_are_near_to_it() -> None:
    for fault in ALL.values():
        first, others = files_near(fault)
        assert first or others, fault.name
        assert [file for file in fault.near if not (TESTS / f"{file}.py").is_file()] == []


@for_each(
    ("folder", "room"),
    [
        ("journal/format", "journal/format"),
        ("recovery", "recovery"),
        ("broker/kernel/units", "broker/kernel"),
        ("broker/sessions", "broker/embedded"),
    ],
)
def test_the_tests_of_a_folder_are_in_the_one_of_its_name_or_in_the_one_above(folder: str, room: str) -> None:
    assert room_of(folder) == room


def test_what_is_found_elsewhere_is_a_fault_with_a_reason() -> None:
    assert set(FOUND_ELSEWHERE) <= set(ALL)
    assert all(FOUND_ELSEWHERE.values())


BY_ITS_TESTS = Search(lambda _: ([ITS_TESTS], []))  # of all tests here: what passes without a fault it runs once


def _searched(fault: Planted, by: Search = BY_ITS_TESTS) -> tuple[int, str]:
    """Look for a fault, and return the exit status, and what is said."""
    out = io.StringIO()
    return search(by, [fault], {}, out), out.getvalue()


@pytest.mark.whole
def test_a_fault_is_found_by_the_tests_nearest_to_it() -> None:
    status, said = _searched(ALL[QUICK])

    assert f"| {QUICK} | index/test_duplicates.py::" in said
    assert said.endswith("faults made: 1; not found: 0; known to be found elsewhere: 0\n")
    assert status == 0


@pytest.mark.whole
def test_what_the_tests_of_every_day_do_not_find_the_whole_of_the_nearest_may() -> None:
    status, said = _searched(TOYS[HARMLESS], Search(lambda _: (["tests/planted/toy_tests.py"], [])))

    assert f"| {HARMLESS} | planted/toy_tests.py::test_nothing_else_is_under_the_name | " in said
    assert status == 0


@pytest.mark.whole
def test_a_change_that_does_no_harm_is_found_by_nothing_and_is_told() -> None:
    status, said = _searched(TOYS[HARMLESS])

    assert f"| {HARMLESS} | NOTHING | all of its room pass |" in said
    assert f"NOT FOUND by the tests nearest to them:\n    {HARMLESS}: " in said
    assert status == 1


@pytest.mark.whole
def test_a_fault_that_does_not_fit_the_product_is_not_found_though_tests_fail() -> None:
    status, said = _searched(TOYS[UNFIT])

    assert f"| {UNFIT} | it does not fit the product | TypeError" in said
    assert status == 1


@pytest.mark.whole
def test_tests_that_fail_without_a_fault_find_none() -> None:
    status, said = _searched(ALL[QUICK], Search(lambda _: (["tests/index/no_such_tests.py"], [])))

    assert f"Tests nearest to {QUICK} fail without it:\n" in said
    assert status == 2


def test_what_is_found_elsewhere_is_listed_and_is_not_to_be_found_here() -> None:
    missed = Found(None, "all of its room pass", 1.0)
    out = io.StringIO()
    assert tell({"gone": missed}, {"gone": "a reader of the index", "more": "not made"}, out) == 0
    assert "Known to be found elsewhere only:\n    gone: a reader of the index\n\nfaults made: 1;" in out.getvalue()

    out = io.StringIO()
    assert tell({"gone": Found("tests/test_it.py::test_it", "it fails", 1.0)}, {"gone": "a reader"}, out) == 1
    assert "FOUND, and on the list of those found elsewhere only: tests/planted/rooms.py:\n    gone\n" in out.getvalue()

    slip = Found(None, "TypeError", 1.0, is_slip=True)
    assert tell({"gone": slip}, {"gone": "a reader"}, io.StringIO()) == 1


def test_a_fault_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["no-such-fault"])

    assert "there is no fault 'no-such-fault'" in capsys.readouterr().err


def test_the_list_names_each_fault_and_the_tests_that_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", QUICK]) == 0

    assert f"{QUICK}: {ALL[QUICK].text}\n    {ITS_TESTS} " in capsys.readouterr().out
