"""The tables of the page on limits are those of the code."""

from tests.docs.reference.limits import PAGE, written


def test_the_tables_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == written(page), "write them anew: python -m tests.docs.reference.limits"
