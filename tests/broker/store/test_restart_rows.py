"""Every row of both restart tables on real stores: a real process, a real end of it, a real start of the next.

Behaviour told by EntireX, Using Persistence and Units of Work (Recovery Processing).
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oms_journal.broker.block import Option
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.restart.table import after_restart
from oms_journal.broker.records import UOW, UOWS, Status
from oms_journal.broker.store.start import Pstore
from tests.support.broker.restart_rows import ROWS, USTATUS, Pair, RealDesk, Row, opened
from tests.support.project import PYTHONPATH, REPOSITORY
from tests.support.sweeps import for_each
from tests.support.warm_starts import Process


@dataclass
class After:
    """A broker that was started again, and who is who in it."""

    desk: RealDesk
    uowids: dict[str, tuple[str, str]]


def ended(kind: str, path: Path, how: str) -> dict[str, tuple[str, str]]:
    """Let a process bring every row into its status and end it; return UOWID and CONV-ID by row."""
    command = [sys.executable, "-m", "tests.support.broker.restart_rows", kind, str(path), how]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    process = Process(command, stdout=subprocess.PIPE, cwd=REPOSITORY, env=environment)
    try:
        assert process.stdout is not None
        said: dict[str, tuple[str, str]] = json.loads(process.stdout.readline())
        if how == "close":
            assert process.wait(timeout=60) == 0
        return said
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module", params=[(kind, how) for kind in ("journal", "sqlite") for how in ("close", "kill")])
def after(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[After]:
    kind, how = request.param
    path = tmp_path_factory.mktemp(f"{kind}-{how}")
    uowids = ended(kind, path, how)
    desk = RealDesk(opened(kind, path), Pstore.HOT)
    yield After(desk, uowids)
    desk.close()


@pytest.mark.whole
@for_each("row", ROWS)
def test_a_restart_leaves_of_a_row_what_the_table_says(after: After, row: Row) -> None:
    uowid, conv_id = after.uowids[str(row)]
    left = after_restart(row.status, row.variation)
    on_disk = after.desk.store.record(UOWS + uowid)
    assert (on_disk is not None) == (left.status is not None), "no trace is no record either"
    if on_disk is not None and not left.is_uow:
        assert UOW.decode(on_disk).status is left.status

    pair = Pair(after.desk, row)
    asked = pair.sender.sync(Option.QUERY, uowid)
    assert asked.status is left.status
    assert asked.code is (Code.UOW_NOT_FOUND if left.status is None else Code.OK)
    if left.status is not None:
        assert asked.reply.ustatus == USTATUS
        assert pair.sender.sync(Option.LAST).uowid == uowid
    got = pair.receiver.receive(conv_id) if row.is_reply else pair.receiver.receive("ANY", **pair.names)
    assert (got.code is Code.OK) == (left.status is Status.ACCEPTED)
    if left.status is Status.ACCEPTED:
        assert (got.uowid, got.conv_id, got.body) == (uowid, conv_id, str(row).encode())
        assert pair.receiver.sync(Option.COMMIT, uowid).code is Code.OK
        asked = pair.sender.sync(Option.QUERY, uowid)
        assert asked.status is (Status.PROCESSED if row.variation.status else None)


@pytest.mark.whole
def test_messages_are_there_of_what_was_restored_and_of_nothing_else(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for kind in ("journal", "sqlite"):
        ended(kind, tmp_path / kind, "kill")
        desk = RealDesk(opened(kind, tmp_path / kind), Pstore.HOT)
        expected = {str(row).encode() for row in ROWS if after_restart(row.status, row.variation).is_uow}
        assert {message.payload for message in desk.store.messages()} == expected
        assert desk.kernel.world.active_count == len(expected)
        desk.close()


@pytest.mark.whole
def test_a_status_that_outlives_its_unit_of_work_goes_when_its_lifetime_is_over(tmp_path: Path) -> None:
    ended("journal", tmp_path, "kill")
    desk = RealDesk(opened("journal", tmp_path), Pstore.HOT)
    for _ in range(4):
        desk.tick(3600)
    left = {key.removeprefix(UOWS): UOW.decode(value).status for key, value in desk.store.records(UOWS)}
    assert set(left.values()) <= {Status.TIMEOUT}, "what timed out meanwhile is kept a while longer"
    for _ in range(4):
        desk.tick(3600)
    assert list(desk.store.records(UOWS)) == []
    assert desk.store.message_count() == 0
    desk.close()
