"""The directory of an open database is removed, renamed or replaced: nothing more is acknowledged, and it says why."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal import DirectoryGone, MessageDatabase, NotAttempted, Options, OutcomeUnknown
from oms_journal.broker.attributes.attributes import BUILT_IN
from oms_journal.broker.store.changes import Changes
from oms_journal.broker.store.stored import StoreUnavailable
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.lock import read_holder
from tests.support.broker.store_writer import opened
from tests.support.servers.stomp_server import Serving, Wire, eventually


def removed(directory: Path) -> None:
    """Remove it as `rm -rf` does, as often as it takes: the database may be preparing its next file in it meanwhile."""
    while directory.exists():
        shutil.rmtree(directory, ignore_errors=True)


def renamed(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


def replaced_by_another(directory: Path) -> None:
    renamed(directory)
    MessageDatabase.open(directory).close()


def replaced_by_its_copy(directory: Path) -> None:
    renamed(directory)
    shutil.copytree(directory.with_name("elsewhere"), directory)


def replaced_by_a_file(directory: Path) -> None:
    renamed(directory)
    directory.write_bytes(b"")


def without_its_lock(directory: Path) -> None:
    (directory / "omsmsg.lock").unlink()


WAYS = [removed, renamed, replaced_by_another, replaced_by_its_copy, replaced_by_a_file, without_its_lock]
any_way = pytest.mark.parametrize("goes", WAYS, ids=lambda way: way.__name__)


@any_way
@pytest.mark.parametrize("is_shared", [False, True])
def test_nothing_is_acknowledged_any_more(tmp_path: Path, goes: Callable[[Path], None], is_shared: bool) -> None:
    directory = tmp_path / "spool"
    with MessageDatabase.open(directory, options=Options(is_shared=is_shared, renew_interval=3600)) as database:
        database.add("q", b"acknowledged")
        eventually(lambda: bool((holder := read_holder(RealDisk(), directory)) and holder.count))  # for an hour
        goes(directory)
        files = sorted(directory.glob("*.data"))

        # A second after a commit a thread vouches for it. Where that one finds out first, the addition is not tried.
        with pytest.raises((OutcomeUnknown, NotAttempted)) as refused:
            database.add("q", b"refused")
        assert isinstance(refused.value.__cause__, DirectoryGone)
        assert "was removed, renamed or replaced" in str(refused.value)
        with pytest.raises(NotAttempted):
            database.deliver(1)
    assert sorted(directory.glob("*.data")) == files, "and nothing is left where it does not belong"


@any_way
def test_an_idle_owner_finds_out_by_itself(tmp_path: Path, goes: Callable[[Path], None]) -> None:
    with MessageDatabase.open(tmp_path / "spool", renew_interval=0.01) as database:
        database.add("q", b"acknowledged")
        goes(tmp_path / "spool")
        eventually(lambda: isinstance(database._group.failure, DirectoryGone))


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_nor_is_a_commit_of_nothing(tmp_path: Path, kind: str) -> None:
    store = opened(kind, tmp_path / "spool")
    assert store.commit(Changes()) == 0
    removed(tmp_path / "spool")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="was removed, renamed or replaced"):
            store.commit(Changes())
    store.close()


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["JOURNAL", "SQLITE"])
def test_a_server_gives_no_receipt_and_says_at_the_end_that_the_store_was_lost(tmp_path: Path, kind: str) -> None:
    file, spool = tmp_path / "attributes", tmp_path / "store" / "spool"
    file.write_text(BUILT_IN.replace("DEFAULTS=BROKER", f"DEFAULTS=BROKER\n  PSTORE-TYPE={kind}", 1))
    with Serving(spool, str(file)) as serving:
        wire = Wire(serving.port)
        wire.say("SEND", b"x", destination="/queue/a", receipt="1")
        assert wire.hear().command == "RECEIPT"
        removed(spool.parent)
        wire.say("SEND", b"x", destination="/queue/a", receipt="2")
        assert wire.error().startswith("00780388")
        again = Wire(serving.port)
        again.say("SEND", b"x", destination="/queue/a", receipt="3")
        assert again.error().startswith("0078038")
        assert serving.stop() == 0
        assert any("was removed, renamed or replaced" in text for text in serving.texts()), serving.log
        assert serving.texts()[-1].endswith("the persistent store had been lost before")
    assert not spool.exists()
