"""`oms queue requeue` on a real spool directory."""

from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.cli.queue import requeue
from tests.support.cli_runner import oms, oms_json

LETTERS = 3  # of each queue


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Three dead letters of each of two queues, and a message that is none."""
    directory = tmp_path / "spool"
    with MessageDatabase.open(directory, max_attempts=1, dead_letter="dead") as db:
        for queue in ("orders", "bills"):
            db.add_many(queue, [b"%d" % n for n in range(LETTERS)])
            for message in db.take_many(queue, LETTERS):
                db.release(message, reason="no stock")
        db._handing.look()
        db.add("dead", b"no dead letter")
        assert db.queues() == {"dead": 2 * LETTERS + 1}
    return directory


def queues(spool: Path) -> dict[str, int]:
    with MessageDatabase.open(spool) as db:
        return db.queues()


def test_all_dead_letters_go_back_to_the_queues_they_came_from(spool: Path) -> None:
    done = oms("queue", "requeue", "dead", spool=spool)
    assert done.stdout == "6 messages put back; 1 left in queue dead\n"
    with MessageDatabase.open(spool) as db:
        assert db.queues() == {"orders": 3, "bills": 3, "dead": 1}
        assert [(one.payload, one.properties, one.attempts) for one in db.undelivered("bills")] == [
            (b"0", {}, 0),
            (b"1", {}, 0),
            (b"2", {}, 0),
        ]
    again = oms_json("queue", "requeue", "dead", spool=spool)
    assert again == {"requeued": 0, "missing": 0, "left": 1}


def test_those_of_one_queue_go_back_and_the_others_stay(spool: Path) -> None:
    assert oms_json("queue", "requeue", "dead", "--from", "orders", spool=spool)["requeued"] == 3
    assert queues(spool) == {"orders": 3, "dead": 4}


def test_single_ones_go_back_and_a_number_that_is_none_is_told(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        first, *_, other = db.numbers("dead")
    done = oms("queue", "requeue", "dead", str(first), str(other), "999", spool=spool, code=1)
    assert done.stdout == "1 message put back; 2 not among the dead letters; 6 left in queue dead\n"
    assert sum(queues(spool).values()) == 7


def test_many_go_back_in_several_commits(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requeue, "COMMIT_MESSAGES_MAX", 4)
    with MessageDatabase.open(spool) as db:
        parts = list(requeue._parts(db.undelivered("dead")))
    assert [len(part) for part in parts] == [4, 3]
    monkeypatch.setattr(requeue, "COMMIT_BYTES_MAX", 3)
    with MessageDatabase.open(spool) as db:
        assert [len(part) for part in requeue._parts(db.undelivered("dead"))] == [3, 3, 1]


def test_an_empty_queue_is_no_mistake(spool: Path) -> None:
    assert oms("queue", "requeue", "nothing", spool=spool).stdout == "0 messages put back; 0 left in queue nothing\n"


def test_a_database_that_is_open_elsewhere_is_told(spool: Path) -> None:
    with MessageDatabase.open(spool):
        refused = oms("queue", "requeue", "dead", spool=spool, code=3)
    assert "stop it or give --wait" in refused.stderr
    assert queues(spool) == {"dead": 7}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "DEAD-QUEUE"),
        (["dead", "first"], "first"),
        (["dead", "0"], "0"),
        (["q" * 256], "255 bytes"),
        ([""], "empty"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_put_back(arguments: list[str], says: str, spool: Path) -> None:
    assert says in oms("queue", "requeue", *arguments, spool=spool, code=2).stderr
    assert queues(spool) == {"dead": 7}


def test_a_directory_without_a_database_is_refused(tmp_path: Path) -> None:
    assert "does not exist" in oms("queue", "requeue", "dead", spool=tmp_path / "none", code=2).stderr
