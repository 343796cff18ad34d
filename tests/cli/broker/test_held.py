"""`oms list --held` and `oms release` on a broker's restored store, stopped; `oms cmd RELEASE` on one that runs."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.kernel import hold_release
from oms_journal.broker.records import Status
from oms_journal.cli.broker import held
from tests.broker.server.http.test_operators import rows
from tests.broker.store.test_restored_store import read, received
from tests.support.broker.held_stores import mark_restored
from tests.support.cli_runner import command_line, environment, oms, oms_json
from tests.support.servers.web_place import WebPlace
from tests.support.sweeps import a_sample
from tests.support.warm_starts import Process

BROKER_ID = "NIGHT"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Yield a restored store: four units of work of two services, two publications for one reader."""
    directory = tmp_path / "store"
    with Broker.open(directory, broker_id=BROKER_ID) as broker, broker.session("ALICE", token="T") as alice:
        alice.subscribe("NEWS", durable=True)
        for number, service in enumerate(("A/B/C", "A/B/C", "A/B/C", "A/B/D")):
            with alice.unit_of_work(service, producer=f"order-{number}", status_lifetime="1H") as unit:
                unit.send(b"%d" % number)
                unit.send(b"more")
        for text in (b"rain", b"sun"):
            alice.publish("NEWS", text)
    mark_restored(directory)
    yield directory


def listed(place: Path, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in oms("list", "--held", "--json", *words, spool=place).stdout.splitlines()]


def end(place: Path) -> tuple[list[bytes], list[bytes]]:
    with Broker.open(place, broker_id=BROKER_ID) as broker:
        return received(broker), read(broker)


@pytest.mark.parametrize("is_started", [False, True])
def test_what_is_held_is_listed_before_the_first_start_and_after(place: Path, is_started: bool) -> None:
    if is_started:
        with Broker.open(place, broker_id=BROKER_ID):
            assert len(listed(place)) == 6, "while the broker runs"
    found = listed(place)
    assert [each["queue"] for each in found] == ["A/B/C"] * 3 + ["A/B/D"] + ["topic/NEWS"] * 2
    assert [each["producer"] for each in found] == [f"order-{number}" for number in range(4)] + [""] * 2
    assert [each["subscriber"] for each in found] == [""] * 4 + ["ALICE"] * 2
    assert [each["identifier"] for each in listed(place, "A/B/D")] == [found[3]["identifier"]]
    text = oms("list", "--held", "--limit", "2", spool=place).stdout
    assert found[0]["identifier"] in text and "… and 4 more" in text


@pytest.mark.parametrize("is_started", [False, True])
def test_all_that_is_held_is_released_on_the_stopped_store(place: Path, is_started: bool) -> None:
    if is_started:
        with Broker.open(place, broker_id=BROKER_ID):
            pass
    done = oms_json("release", "--all", "--yes", spool=place)
    assert done == {"released": 6, "discarded": 0, "unknown": 0, "held": 0, "dry_run": False}
    assert end(place) == ([b"0", b"more", b"1", b"more", b"2", b"more"], [b"rain", b"sun"])
    assert "Nothing is held." in oms("list", "--held", spool=place).stdout


def test_what_a_consumer_has_is_discarded_as_processed_and_the_rest_released(place: Path, tmp_path: Path) -> None:
    found = listed(place)
    file = tmp_path / "has"
    file.write_text(f"order-1\r\n{found[0]['identifier']}\n\n{found[4]['first']}\norder-77\n", encoding="utf-8")
    dry = oms_json("release", "--except", str(file), "--dry-run", spool=place)
    assert dry == {"released": 3, "discarded": 3, "unknown": 1, "held": 0, "dry_run": True}
    done = oms_json("release", "--except", str(file), "--yes", spool=place)
    assert done == dry | {"dry_run": False}
    with Broker.open(place, broker_id=BROKER_ID) as broker:
        with broker.session("ALICE", token="T") as alice:
            statuses = [alice.query(each["identifier"]).status for each in found[:4]]
        assert statuses == [Status.PROCESSED, Status.PROCESSED, Status.ACCEPTED, Status.ACCEPTED]
        assert (received(broker), read(broker)) == ([b"2", b"more"], [b"sun"])


def numbered(tmp_path: Path, *producers: str) -> Path:
    """Return a restored store with a unit of work for each producer's identifier; {} is the UOWID of the one before."""
    directory = tmp_path / "numbered"
    with Broker.open(directory, broker_id=BROKER_ID) as broker, broker.session("ALICE", token="T") as alice:
        uowid = ""
        for producer in producers:
            with alice.unit_of_work("A/B/C", producer=producer.format(uowid)) as unit:
                unit.send(producer.encode())
            uowid = unit.uowid
    mark_restored(directory)
    return directory


@a_sample(2)
@pytest.mark.parametrize(
    "by, names, has",
    [
        ("producer-id", ["3"], [0]),
        ("producer-id", ["7", "2", "{}"], [1]),
        ("number", ["3"], [2]),
        ("number", ["007", "02", "9" * 5000], [1]),
        ("uowid", ["3", "{}"], [2]),
    ],
)
def test_a_line_is_what_it_was_said_to_be(tmp_path: Path, by: str, names: list[str], has: list[int]) -> None:
    store = numbered(tmp_path, "3", "7", "1")
    last = listed(store)[-1]["identifier"]
    file = tmp_path / "has"
    file.write_text("".join(f"{name.format(last)}\n" for name in names), encoding="utf-8")
    done = oms_json("release", "--except", str(file), "--by", by, "--yes", spool=store)
    assert (done["released"], done["discarded"], done["unknown"]) == (2, 1, len(names) - 1)
    with Broker.open(store, broker_id=BROKER_ID) as broker:
        assert received(broker) == [body for at, body in enumerate([b"3", b"7", b"1"]) if at not in has]


@pytest.mark.parametrize(
    "producers, line",
    [(["3", "7", "1"], "3"), (["3", "7", "1"], "2"), (["3", "7", "1"], "7"), (["order", "{}", "more"], "{}")],
)
def test_a_line_that_may_be_one_thing_or_another_is_refused(tmp_path: Path, producers: list[str], line: str) -> None:
    store = numbered(tmp_path, *producers)
    file = tmp_path / "has"
    file.write_text(line.format(listed(store)[0]["identifier"]), encoding="utf-8")
    assert "say --by" in oms("release", "--except", str(file), "--yes", spool=store, code=2).stderr
    assert len(listed(store)) == 3


def test_a_line_that_is_no_number_is_refused_where_numbers_are_meant(place: Path) -> None:
    wrong = oms("release", "--except", "-", "--by", "number", "--yes", spool=place, code=2, stdin=b"1\norder-1\n")
    assert "line 2: 'order-1' is no message number" in wrong.stderr
    assert len(listed(place)) == 6


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a restored store: three publications of one topic for two readers, and one of another for one of them."""
    directory = tmp_path / "shared"
    with (
        Broker.open(directory, broker_id=BROKER_ID) as broker,
        broker.session("ALICE", token="T") as alice,
        broker.session("BOB", token="U") as bob,
    ):
        alice.subscribe("NEWS", durable=True)
        bob.subscribe("NEWS", durable=True)
        bob.subscribe("SPORT", durable=True)
        for topic, text in (("NEWS", b"one"), ("NEWS", b"two"), ("NEWS", b"three"), ("SPORT", b"goal")):
            alice.publish(topic, text)
    mark_restored(directory)
    return directory


def left(store: Path) -> list[tuple[str, str, int]]:
    return [(each["queue"].removeprefix("topic/"), each["subscriber"], each["first"]) for each in listed(store)]


EVERYBODYS = [("NEWS", who, number) for number in (1, 2, 3) for who in ("ALICE", "BOB")] + [("SPORT", "BOB", 4)]


@a_sample(4)
@pytest.mark.parametrize(
    "named", [[], ["--queue", "topic/NEWS"], ["--newer", "1h"], ["--subscriber", "BOB"]], ids=" ".join
)
@pytest.mark.parametrize("line", [1, 3, 4])
def test_what_one_subscriber_has_is_discarded_for_no_other(
    shared: Path, tmp_path: Path, named: list[str], line: int
) -> None:
    file = tmp_path / "has"
    file.write_text(f"{line}\n", encoding="utf-8")
    is_met = line != 4 or "--queue" not in named
    said = oms("release", "--except", str(file), *named, "--dry-run", spool=shared, code=2 if is_met else 0).stderr
    assert not is_met or ("--subscriber" in said and "topic/NEWS for BOB" in said)
    assert is_met or "--queue" in named
    assert left(shared) == EVERYBODYS


def test_a_subscriber_that_is_named_has_its_own_list(shared: Path, tmp_path: Path) -> None:
    file = tmp_path / "has"
    file.write_text("1\n4\n", encoding="utf-8")
    words = ["--except", str(file), "--yes"]
    done = oms_json("release", *words, "--subscriber", "ALICE", spool=shared)
    assert done == {"released": 2, "discarded": 1, "unknown": 1, "held": 4, "dry_run": False}
    bobs = next(each["subscription_id"] for each in listed(shared) if each["queue"] == "topic/SPORT")
    assert oms_json("release", *words, "--subscriber", bobs, spool=shared)["discarded"] == 1
    assert left(shared) == EVERYBODYS[1:6:2]
    assert oms_json("release", "--subscriber", "BOB", "--yes", spool=shared)["released"] == 3
    with Broker.open(shared, broker_id=BROKER_ID) as broker:
        assert read(broker) == [b"two", b"three"]


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a restored store with more publications than a record has numbers for; what is done is done by few."""
    monkeypatch.setattr(hold_release, "RELEASED_MAX", 6)
    monkeypatch.setattr(held, "AT_ONCE", 4)
    directory = tmp_path / "many"
    with Broker.open(directory, broker_id=BROKER_ID) as broker, broker.session("ALICE", token="T") as alice:
        alice.subscribe("NEWS", durable=True)
        for number in range(40):
            alice.publish("NEWS", b"%d" % number)
    mark_restored(directory)
    return directory


def every_second(store: Path, tmp_path: Path) -> Path:
    file = tmp_path / "has"
    file.write_text("".join(f"{each['identifier']}\n" for each in listed(store)[1::2]), encoding="utf-8")
    return file


SECOND = [b"%d" % number for number in range(0, 40, 2)]


@pytest.mark.whole
@a_sample(1)
@pytest.mark.parametrize("done", [0, 1, 2, 7, 19, 20])
def test_every_second_of_many_publications_is_discarded_however_often_it_is_interrupted(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    words = ["release", "--except", str(every_second(many, tmp_path)), "--yes"]
    given, give = list[object](), held._give

    def interrupted(broker: Broker, *about: Any) -> None:
        if len(given) == done:
            raise KeyboardInterrupt
        given.append(about)
        give(broker, *about)

    monkeypatch.setattr(held, "_give", interrupted)
    oms(*words, spool=many, code=0 if done == 20 else 130)
    monkeypatch.undo()
    monkeypatch.setattr(hold_release, "RELEASED_MAX", 6)
    monkeypatch.setattr(held, "AT_ONCE", 4)
    oms(*words, spool=many)
    assert listed(many) == []
    with Broker.open(many, broker_id=BROKER_ID) as broker:
        assert read(broker) == SECOND


@pytest.mark.whole
def test_a_running_broker_discards_every_second_of_many_publications(many: Path, tmp_path: Path) -> None:
    file = every_second(many, tmp_path)
    with WebPlace(many, broker_id=BROKER_ID) as running:
        done = told(running, "RELEASE", "SUBSCRIBER", "topic=NEWS", "--except", str(file))
        assert done == {"released": 20, "discarded": 20, "unknown": 0}
        assert rows(running, "SUBSCRIBER")[0]["held"] == 0
    with Broker.open(many, broker_id=BROKER_ID) as broker:
        assert read(broker) == SECOND


def test_a_number_is_discarded_for_several_subscribers_only_where_they_are_named(shared: Path) -> None:
    assert "topic/NEWS for ALICE" in oms("release", "2", "--discard", "--yes", spool=shared, code=2).stderr
    assert left(shared) == EVERYBODYS
    assert oms_json("release", "2", "--discard", "--subscriber", "BOB", "--yes", spool=shared)["discarded"] == 1
    assert oms_json("release", "2", "4", "--discard", "--yes", spool=shared)["discarded"] == 2
    assert left(shared) == [each for each in EVERYBODYS if each[2] in (1, 3)]


def test_some_are_released_by_number_queue_and_age_and_some_discarded(place: Path) -> None:
    found = listed(place)
    second = found[1]["first"] + 1
    assert oms_json("release", str(second), "--yes", spool=place)["released"] == 1
    assert oms_json("release", str(second), "--yes", spool=place, code=1)["unknown"] == 1
    assert oms_json("release", "--queue", "A/B/D", "--discard", "--yes", spool=place)["discarded"] == 1
    assert oms_json("release", "--older", "1h", "--yes", spool=place)["held"] == 4
    assert oms_json("release", "--queue", "topic/NEWS", "--newer", "1h", "--yes", spool=place)["released"] == 2
    assert [each["producer"] for each in listed(place)] == ["order-0", "order-2"]
    assert end(place) == ([b"1", b"more"], [b"rain", b"sun"])


def test_a_broker_that_runs_is_told_with_oms_cmd(place: Path) -> None:
    with Broker.open(place, broker_id=BROKER_ID):
        refused = oms("release", "--all", "--yes", spool=place, code=3)
    assert "oms cmd RELEASE" in refused.stderr
    assert len(listed(place)) == 6
    wrong = oms("release", "--except", "-", "--by", "property:n", "--yes", spool=place, code=2, stdin=b"x\n")
    assert "no properties" in wrong.stderr


@pytest.mark.whole
def test_release_waits_for_a_broker_that_runs_on_the_store_to_end(place: Path) -> None:
    with Broker.open(place, broker_id=BROKER_ID):
        asking = Process(
            command_line("release", "--all", "--yes", "--wait", "60"), env=environment(place), stderr=subprocess.PIPE
        )
        refused = oms("release", "--all", "--yes", "--wait", "0.2", spool=place, code=3)
        assert "oms cmd RELEASE" in refused.stderr
        assert asking.poll() is None
    assert asking.wait(60) == 0
    assert asking.stderr is not None
    asking.stderr.close()
    assert listed(place) == []


# On a broker that runs.


@pytest.fixture
def running(place: Path) -> Iterator[WebPlace]:
    with WebPlace(place, broker_id=BROKER_ID) as found:
        yield found


def told(running: WebPlace, *words: str, code: int = 0, stdin: str | None = None) -> dict[str, Any]:
    data = None if stdin is None else stdin.encode()
    said = oms("cmd", *words, "--yes", "--json", "--broker", f"http://127.0.0.1:{running.port}", code=code, stdin=data)
    return dict(json.loads(said.stdout or "{}"))


def test_a_running_broker_releases_by_service_and_by_what_a_consumer_has(running: WebPlace, tmp_path: Path) -> None:
    file = tmp_path / "has"
    uowids = [row["uowid"] for row in rows(running, "PSF")]
    file.write_text(f"{uowids[0]}\norder-2\norder-3\n", encoding="utf-8")
    done = told(running, "RELEASE", "service=A/B/C", "--except", str(file))
    assert done == {"released": 1, "discarded": 2, "unknown": 1}
    assert [row["status"] for row in rows(running, "PSF")] == ["PROCESSED", "ACCEPTED", "PROCESSED", "ACCEPTED"]
    assert [row["held"] for row in rows(running, "PSF")] == [False, False, False, True]
    assert told(running, "DISCARD", "PROCESSED", "all=yes")["affected"] == 1
    first = rows(running, "PUBLICATION")[0]["publication_id"]
    done = told(running, "RELEASE", "SUBSCRIBER", "topic=NEWS", "--except", "-", stdin=first)
    assert done == {"released": 1, "discarded": 1, "unknown": 0}
    assert [row["held"] for row in rows(running, "SUBSCRIBER")] == [0]


def test_a_running_broker_discards_what_one_subscriber_has_for_no_other(shared: Path) -> None:
    first, _, _, goal = dict.fromkeys(each["identifier"] for each in listed(shared))
    with WebPlace(shared, broker_id=BROKER_ID) as running:
        for words in ((), ("all=yes",), ("topic=NEWS",), ("user_id=BOB",)):
            told(running, "RELEASE", "SUBSCRIBER", *words, "--except", "-", code=2, stdin=first)
        assert [row["held"] for row in rows(running, "SUBSCRIBER")] == [3, 3, 1]
        bob = ("RELEASE", "SUBSCRIBER", "topic=NEWS", "user_id=BOB", "--except", "-")
        assert told(running, *bob, stdin=f"{first}\n{goal}\n") == {"released": 2, "discarded": 1, "unknown": 1}
        assert [row["held"] for row in rows(running, "SUBSCRIBER")] == [3, 0, 1]
        assert told(running, *bob, stdin=first) == {"released": 0, "discarded": 0, "unknown": 1}
        alice = ("RELEASE", "SUBSCRIBER", "user_id=ALICE", "--except", "-")
        assert told(running, *alice, stdin=first) == {"released": 2, "discarded": 1, "unknown": 0}


def test_except_goes_with_release_and_names_something(running: WebPlace) -> None:
    for words in (("DISCARD", "PROCESSED", "all=yes"), ("PURGE", "uowid=1")):
        told(running, *words, "--except", "-", code=2, stdin="x")
    told(running, "RELEASE", "all=yes", "--except", "-", code=2, stdin="\n")
    told(running, "RELEASE", "--except", "/no/such/file", code=2)
    told(running, "RELEASE", code=2)
    assert rows(running, "BROKER")[0]["held_uows"] == 4
    address = f"http://127.0.0.1:{running.port}"
    asked = oms("cmd", "RELEASE", "--except", "-", "--broker", address, stdin=b"order-77", code=2)
    assert "nothing of what is held is named" in asked.stderr, "before it is asked for"


@a_sample(6)
@pytest.mark.parametrize("is_except", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ("servise=A/B/C",),
        ("topic=NEWS",),
        ("older=0S", "topic=NEWS"),
        ("user=ALICE",),
        ("identifiers=1",),
        ("client_id=1", "service=A/B/C"),
        ("all=yes", "service=A/B/C"),
        ("older=soon",),
        ("SUBSCRIBER", "servise=A"),
        ("SUBSCRIBER", "service=A/B/C"),
        ("SUBSCRIBER", "conv_id=1", "topic=NEWS"),
        ("TOPIC", "topic=NEWS"),
        ("PROCESSED", "service=A/B/C"),
    ],
)
def test_a_selector_that_is_not_for_what_it_is_about_is_refused(
    running: WebPlace, tmp_path: Path, words: tuple[str, ...], is_except: bool
) -> None:
    file = tmp_path / "has"
    file.write_text("order-0\n", encoding="utf-8")
    told(running, "RELEASE", *words, *(["--except", str(file)] if is_except else []), code=2)
    found = rows(running, "BROKER")[0]
    assert (found["held_uows"], found["held_publications"]) == (4, 2)
