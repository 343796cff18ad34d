"""A test that runs in the whole only, and fails with whatever the toys of faults put under a name."""

import pytest

from oms_journal.index.duplicates import DuplicateWindow


@pytest.mark.whole
def test_nothing_else_is_under_the_name() -> None:
    assert DuplicateWindow.load.__name__ == "load"
