"""Databases of these tests vouch for their last commit only when a test says so, and not after a second of silence."""

import pytest

from oms_journal.database import maintenance


@pytest.fixture(autouse=True)
def no_vouching_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "VOUCH_SECONDS", 3600.0)
