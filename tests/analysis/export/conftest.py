"""What the tests of lakes share: a journal of a few data files, and where its lake lies.

Databases vouch for their last commit only when a test says so, and not after a second of silence.
"""

from pathlib import Path

import pytest

from oms_journal.database import maintenance
from tests.support.disks.small_files import fill, open_small


@pytest.fixture(autouse=True)
def no_vouching_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "VOUCH_SECONDS", 3600.0)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with open_small(tmp_path / "spool") as db:
        fill(db, 3)
    return tmp_path / "spool"
