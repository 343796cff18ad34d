"""What the tests of reports share: a small journal, with a queue whose name a page must not believe."""

from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from tests.support.disks.watched_disk import HandClock


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with MessageDatabase.open(tmp_path / "spool", cleanup_interval=0, clock=HandClock()) as db:
        for number in db.add_many("orders", [b"1", b"2", b"3"])[:2]:
            db.deliver(number)
        db.add("a\x1b[31m<script>", b"4")
    return tmp_path / "spool"
