"""Fixtures of the kernel's tests: a desk of one's own, who sends the moves of chess there, and who receives them."""

import pytest

from oms_journal.broker.codes import Code
from tests.support.broker.kernel_desk import Desk, Person


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def white(desk: Desk) -> Person:
    return Person(desk, "WHITE", "PC1", caller=1)


@pytest.fixture
def black(desk: Desk) -> Person:
    black = Person(desk, "BLACK", "PC2", caller=2)
    assert black.register().code is Code.OK
    return black
