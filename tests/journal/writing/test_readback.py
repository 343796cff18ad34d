"""A writer never writes what its own reader refuses: drafts are checked when made, groups before they go out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from oms_journal import MessageDatabase, UnreadableCommit
from oms_journal.journal.format.records import Added
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from tests.support.sweeps import a_sample


def _records(change: Callable[[bytearray], None]) -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        change(draft.records)

    return apply


def _count_of_zero(records: bytearray) -> None:
    records[4:8] = bytes(4)


def _unknown_kind(records: bytearray) -> None:
    records[0] = 9


def _unknown_flags(records: bytearray) -> None:
    records[1] = 128


def _nameless(records: bytearray) -> None:
    records[2] = 0


def _another_payload(draft: Draft) -> None:
    draft.payload = [b"another one", *draft.payload[1:]]


def _shorter_payload(draft: Draft) -> None:
    draft.payload = [b"", *draft.payload[1:]]


def _operations(draft: Draft) -> None:
    draft.shape.operations += 1


def _messages(draft: Draft) -> None:
    draft.shape.messages += 1


BROKEN: dict[str, Callable[[Draft], None]] = {
    "a count of 0": _records(_count_of_zero),
    "an unknown kind": _records(_unknown_kind),
    "unknown flags": _records(_unknown_flags),
    "no name": _records(_nameless),
    "another payload": _another_payload,
    "a shorter payload": _shorter_payload,
    "more operations": _operations,
    "more messages": _messages,
}


@a_sample(8)
@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("is_plain", [True, False])
def test_a_commit_that_no_reader_takes_is_refused_alone(
    tmp_path: Path, fault: str, place: int, *, is_plain: bool
) -> None:
    with MessageDatabase.open(tmp_path) as db:
        make, encode = db._drafting, db._drafting.encode
        drafts: list[Draft] = []
        for n in range(2):
            payload = b"good %d" % n
            drafts.append(make.add("q", payload, None if is_plain else {"k": "v"}, None))
        bad = encode.draft_many(encode.queue("q"), [b"not a good1"])
        BROKEN[fault](bad)
        drafts.insert(place, bad)

        db._group.commit_many(drafts)

        assert isinstance(bad.failure, UnreadableCommit), bad.failure
        assert "please report it" in str(bad.failure)
        assert [draft.failure for draft in drafts].count(None) == 2
        later = db.add("q", b"later")
        assert [message.payload for message in db.undelivered()] == [b"good 0", b"good 1", b"later"]
    with MessageDatabase.open(tmp_path) as db:
        assert not db.recovery.notes
        assert [message.payload for message in db.undelivered()] == [b"good 0", b"good 1", b"later"]
        assert list(db.numbers())[-1] == later


def test_a_single_message_that_no_reader_takes_is_refused_alone(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add("q", b"good")
        draft = db._drafting.add("q", b"bad")
        _count_of_zero(draft.records)
        with pytest.raises(UnreadableCommit):
            db._write(draft)
        db.add("q", b"later")
    with MessageDatabase.open(tmp_path) as db:
        assert [message.payload for message in db.undelivered()] == [b"good", b"later"]


def test_a_resend_behind_a_commit_that_was_refused_is_written(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        bad = db._drafting.add("q", b"x", None, "p")
        _count_of_zero(bad.records)
        with pytest.raises(UnreadableCommit):
            db._write(bad)
        again = db._drafting.add("q", b"x", None, "p")
        db._write(again)
        assert db.read(again.first).payload == b"x"


def test_nothing_is_read_back_unless_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMS_CHECK")
    with MessageDatabase.open(tmp_path) as db:
        group_settings = db._journal._settings
        assert not group_settings.reads_back


@pytest.mark.parametrize(
    "make",
    [
        lambda: CommitBuilder().add(Added(queue=b"q", payloads=[])),
        lambda: CommitBuilder().add(Added(queue=b"", payloads=[b""])),
        lambda: CommitBuilder().add(Added(queue=b"q" * 256, payloads=[b""])),
        lambda: CommitBuilder().remove(Operation.DELIVER, b"q", np.array([], np.uint64)),
        lambda: CommitBuilder().remove(Operation.DELIVER, b"q", np.array([2, 2], np.uint64)),
        lambda: CommitBuilder().remove(Operation.DELETE, b"q", np.array([3, 2], np.uint64)),
        lambda: CommitBuilder().put(b"", b""),
        lambda: CommitBuilder().drop(b"k" * 256),
        lambda: CommitBuilder().remove(Operation.DELIVER, b"q", range(3, 3)),
        lambda: CommitBuilder().remove(Operation.DELIVER, b"q", range(9, 1, -2)),
        lambda: CommitBuilder().remove(Operation.DELETE, b"q", [3, 3]),
        lambda: CommitBuilder().remove(Operation.DELETE, b"", [3]),
    ],
)
def test_a_draft_that_cannot_be_is_refused_when_it_is_made(make: Callable[[], object]) -> None:
    with pytest.raises(UnreadableCommit):
        make()


def test_a_list_that_changes_between_a_record_and_its_draft_is_noticed() -> None:
    payloads: list[bytes] = [b"one", b"two"]
    composer = CommitBuilder()
    composer.add(Added(queue=b"q", payloads=payloads))
    composer._payload[0] = b"three"
    with pytest.raises(UnreadableCommit, match="8 bytes of payloads where its records say 6"):
        composer.draft()
