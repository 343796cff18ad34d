"""`oms release` and `oms list --held`: what an operator decides about messages that are held back."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase, Options
from oms_journal.journal.disk import RealDisk
from oms_journal.recovery import findings
from tests.support.cli_runner import oms, oms_json, oms_lines
from tests.support.disks.small_files import MODEST
from tests.support.sweeps import a_sample

HOUR = 3600 * 1_000_000
OLD, NEW = range(1, 5), range(5, 9)  # the numbers of what was added long ago, and just now


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Return a directory with eight messages in two queues, four of them two days old, all held back."""
    path = tmp_path / "spool"
    now = int(datetime.now(UTC).timestamp() * 1e6)
    for numbers, time in ((OLD, now - 48 * HOUR), (NEW, now)):
        options = replace(Options.of(max_data_file_size=MODEST), clock=lambda at=time: at)  # type: ignore[misc]
        with MessageDatabase.open(path, options=options) as db:
            for number in numbers:
                queue, key = ("even" if number % 2 == 0 else "odd"), {"order": f"A-{number}"}
                assert db.add(queue, b"payload", properties=key, producer_id=f"producer {number}") == number
    hold_all(path)
    return path


def hold_all(spool: Path) -> None:
    """Hold back all that is undelivered, as a start does that was asked for it."""
    findings.intend(RealDisk(), spool, max(int(path.stem[-10:]) for path in spool.glob("*.data")))
    MessageDatabase.open(spool, max_data_file_size=MODEST).close()


def held(spool: Path) -> list[int]:
    with DatabaseView.open(spool) as view:
        return list(view.held_numbers())


def free(spool: Path) -> list[int]:
    with DatabaseView.open(spool) as view:
        return list(view.numbers())


def said(*, dry_run: int = False, **counts: int) -> object:
    nothing = {"released": 0, "discarded": 0, "unknown": 0, "held": 0}
    return nothing | counts | {"dry_run": bool(dry_run)}


def listed(path: Path, *lines: object) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_what_is_held_is_listed_by_queue_and_message_and_shown(spool: Path) -> None:
    assert {name: one["held"] for name, one in oms_json("list", "--held", spool=spool)["queues"].items()} == {
        "even": 4,
        "odd": 4,
    }
    assert "held back" in oms("list", "--held", spool=spool).stdout
    assert [one["number"] for one in oms_lines("list", "even", "--held", spool=spool)] == [2, 4, 6, 8]
    assert oms_lines("list", "even", spool=spool) == []
    assert oms_json("show", "2", spool=spool)["held"] is True
    assert "it may have been delivered already" in oms("show", "2", spool=spool).stdout
    assert oms_json("stats", spool=spool)["held"] == 8

    oms("release", "--queue", "even", "--yes", spool=spool)

    assert [*oms_json("list", "--held", spool=spool)["queues"]] == ["odd"]
    assert oms_json("show", "2", spool=spool)["held"] is False
    assert "held back" not in oms("show", "2", spool=spool).stdout
    oms("release", "--all", "--yes", spool=spool)
    assert oms("list", "--held", spool=spool).stdout == "No messages are held back.\n"
    assert "held back" not in oms("list", spool=spool).stdout


@a_sample(5)
@pytest.mark.parametrize(
    "chosen, numbers",
    [
        (["3", "5"], {3, 5}),
        (["--queue", "odd"], {1, 3, 5, 7}),
        (["--older", "1d"], {1, 2, 3, 4}),
        (["--newer", "1d"], {5, 6, 7, 8}),
        (["--older", "3d"], set()),
        (["--older", "1d", "--newer", "3d"], {1, 2, 3, 4}),
        (["--queue", "odd", "--newer", "12h"], {5, 7}),
        (["--queue", "nobody"], set()),
        (["--all"], {1, 2, 3, 4, 5, 6, 7, 8}),
    ],
)
@pytest.mark.parametrize("verb", ["release", "discard"])
def test_what_is_named_is_released_or_discarded_and_nothing_else(
    spool: Path, chosen: list[str], numbers: set[int], verb: str
) -> None:
    options = ["--discard"] if verb == "discard" else []
    counts = {"discarded" if options else "released": len(numbers)}
    left = 8 - len(numbers)

    assert oms_json("release", *chosen, *options, "--dry-run", spool=spool) == said(**counts, held=left, dry_run=True)
    assert held(spool) == [*OLD, *NEW]
    assert oms_json("release", *chosen, *options, "--yes", spool=spool) == said(**counts, held=left)
    assert set(held(spool)) == {*OLD, *NEW} - numbers
    assert set(free(spool)) == (set() if options else numbers)


@a_sample(2)
@pytest.mark.parametrize(
    "by, names",
    [
        ([], ["2", "5", "007", "", "99"]),
        (["--by", "number"], ["5", "2", "7", "7", "4711"]),
        (["--by", "number"], ["5", "2", "7", "9" * 5000]),
        (["--by", "producer-id"], ["producer 2", "producer 5", "producer 7", "producer 99"]),
        (["--by", "property:order"], ["A-2", "A-5", "A-7", "A-77"]),
    ],
)
def test_what_a_consumer_says_it_has_is_discarded_and_the_rest_released(
    spool: Path, tmp_path: Path, by: list[str], names: list[str]
) -> None:
    file = listed(tmp_path / "has", *names)
    plan = {"released": 5, "discarded": 3, "unknown": 1}

    shown = oms("release", "--except", file, *by, "--dry-run", spool=spool).stdout
    assert "3 held messages to discard" in shown
    assert "5 held messages to release" in shown
    assert "1 of what was named is not among them" in shown
    assert oms_json("release", "--except", file, *by, "--yes", spool=spool) == said(**plan)
    assert free(spool) == [1, 3, 4, 6, 8]
    assert held(spool) == []
    assert oms_json("release", "--except", file, *by, "--yes", spool=spool) == said(unknown=4), "and once more"
    assert free(spool) == [1, 3, 4, 6, 8]


def test_each_message_of_a_commit_is_found_by_the_identifier_of_the_commit(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with MessageDatabase.open(spool, max_data_file_size=MODEST) as db:
        with db.commit(producer_id="order 7") as commit:
            commit.add("even", b"first", properties={"of": "three"})
            commit.add("odd", b"second")
            commit.add("even", b"third")
        db.add("even", b"another", producer_id="order 8")
    hold_all(spool)
    file = listed(tmp_path / "has", "order 7")

    assert {
        one["producer_id"] for queue in ("even", "odd") for one in oms_lines("list", queue, "--held", spool=spool)
    } == {
        "order 7",
        "order 8",
    }
    assert oms_json("release", "--except", file, "--by", "producer-id", "--yes", spool=spool) == said(
        released=1, discarded=3
    )
    assert free(spool) == [4]


def test_a_list_counts_for_one_queue_or_age_only_where_those_are_given(spool: Path, tmp_path: Path) -> None:
    file = listed(tmp_path / "has", *range(1, 9))
    assert oms_json("release", "--except", file, "--queue", "odd", "--older", "1d", "--yes", spool=spool) == said(
        discarded=2, unknown=6, held=6
    )
    assert held(spool) == [2, 4, 5, 6, 7, 8]
    assert free(spool) == []


def test_a_list_may_come_by_standard_input_and_in_the_manner_of_windows(spool: Path) -> None:
    data = b"\xef\xbb\xbfproducer 1\r\nproducer 8\r\n"
    assert oms("release", "--except", "-", "--by", "producer-id", spool=spool, stdin=data, code=2).stdout
    oms("release", "--except", "-", "--by", "producer-id", "--yes", spool=spool, stdin=data)
    assert free(spool) == [2, 3, 4, 5, 6, 7]


def test_a_number_that_is_not_held_is_told_by_the_exit_code(spool: Path) -> None:
    assert oms_json("release", "1", "99", "--yes", spool=spool, code=1) == said(released=1, unknown=1, held=7)
    assert oms_json("release", "1", "--yes", spool=spool, code=1) == said(unknown=1, held=7)
    assert oms_json("release", "1", "--discard", "--yes", spool=spool, code=1) == said(unknown=1, held=7)
    assert free(spool) == [1]
    for words in (["--yes"], ["--dry-run"]):
        assert "1 of what was named is not among them." in oms("release", "99", *words, spool=spool, code=1).stdout


@pytest.mark.parametrize("by", [[], ["--by", "producer-id"], ["--by", "property:odrer"]])
def test_a_list_that_names_nothing_of_what_is_held_is_told(spool: Path, tmp_path: Path, by: list[str]) -> None:
    file = listed(tmp_path / "has", "4711", "4712")
    for words in (["--dry-run"], ["--yes"]):
        said = oms("release", "--except", file, *by, *words, spool=spool).stdout
        assert "Nothing of what is held was named by the list" in said
        assert "2 of what was named are not among them" in said


@pytest.mark.parametrize("words", [[], ["--peek"]])
def test_who_receives_nothing_is_told_of_what_is_held(spool: Path, words: list[str]) -> None:
    assert "all there is in queue even is held back" in oms("receive", "even", *words, spool=spool, code=1).stderr
    assert oms("receive", "none", *words, spool=spool, code=1).stderr == ""
    oms("release", "2", "--yes", spool=spool)
    assert oms("receive", "even", *words, spool=spool).stderr == ""


@a_sample(6)
@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "say which"),
        (["1", "--all"], "say which"),
        (["1", "--queue", "q"], "say which"),
        (["--all", "--older", "1d"], "say which"),
        (["--older", "soon"], "--older"),
        (["--newer", "9999999999d"], "--newer"),
        (["--except", "LIST", "--discard"], "without --discard"),
        (["--except", "LIST", "--all", "1"], "say which"),
        (["--all", "--by", "producer-id"], "--by goes with"),
        (["--except", "LIST", "--by", "uowid"], "--by wants"),
        (["--subscriber", "ALICE"], "--subscriber is for a broker's store"),
        (["--subscriber", "ALICE", "--all"], "say which"),
        (["--except", "LIST", "--by", "payload"], "--by wants"),
        (["--except", "LIST", "--by", "property:"], "--by wants"),
        (["--except", "EMPTY"], "names nothing"),
        (["--except", "WORDS"], "line 2: 'two' is no message number"),
        (["--except", "BYTES"], "no text"),
        (["--except", "NOWHERE"], "cannot read"),
        (["--all"], "give --yes"),
    ],
)
def test_what_is_not_meant_like_that_is_refused_and_changes_nothing(
    spool: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    made = {"LIST": b"1\n", "EMPTY": b"\n\n", "WORDS": b"1\ntwo\n", "BYTES": b"\xff\xfe\n"}
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    paths = [str(tmp_path / one) if one in {*made, "NOWHERE"} else one for one in arguments]

    result = oms("release", *paths, spool=spool, stdin=b"", code=2)

    assert said in result.stderr
    assert held(spool) == [*OLD, *NEW]


def test_a_message_that_cannot_be_read_stays_held_where_more_than_its_number_is_asked(
    spool: Path, tmp_path: Path
) -> None:
    first = min(spool.glob("*.data"))
    data = bytearray(first.read_bytes())
    data[data.index(b"payload")] ^= 1
    first.write_bytes(data)
    file = listed(tmp_path / "has", "producer 2", "producer 3")

    result = oms("release", "--except", file, "--by", "producer-id", "--yes", spool=spool)

    assert "5 released, 2 discarded; 1 message held back." in result.stdout
    assert "message 1 in" in result.stderr
    assert held(spool) == [1]
    oms("release", "1", "--discard", "--yes", spool=spool)
    assert held(spool) == free(spool)[:0] == []


def test_a_queue_whose_messages_are_all_held_back_says_so(spool: Path) -> None:
    text = "4 messages of queue odd held back, since delivered already perhaps: `oms list --held` shows, "

    assert oms("list", "odd", spool=spool).stdout == f"{text}`oms release` decides.\n"
    as_json = oms("list", "odd", "--json", spool=spool)
    assert (as_json.stdout, text in as_json.stderr) == ("", True)

    oms("release", "1", "--yes", spool=spool)
    lines = oms("list", "odd", spool=spool).stdout.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["1", "3"]
    assert lines[-1].startswith("3 messages of queue odd held back")
    assert "held back" not in oms("list", "--held", "odd", spool=spool).stdout
