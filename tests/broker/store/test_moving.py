"""A store is moved to another, by any driver from any other: raw, whole, and again where it was interrupted."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oms_journal import DatabaseView
from oms_journal.broker.drivers.open import open_store
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.migration.agreement import MoveRefused, decode_offer, encode_offer
from oms_journal.broker.migration.load import Loading
from oms_journal.broker.migration.stream import (
    CHUNK_BYTES,
    Decoder,
    NotAReplica,
    Tallies,
    Tally,
    chunks,
    differences,
    encode_part,
)
from oms_journal.broker.migration.unload import Unloading
from oms_journal.broker.store.changes import Changes, NewMessage
from oms_journal.broker.store.start import LOADED_KEY, LOADING_KEY, MessageUnreadable, StartRefused
from oms_journal.broker.store.stored import LastNumber, Loaded, StoredIdentifier, StoredMessage, StoredRecord
from oms_journal.journal.names import DataFileName
from tests.support.cli_runner import environment, oms
from tests.support.servers.moved_stores import (
    attributes,
    everything,
    files,
    lines,
    move,
    source,
    target,
    write_everything,
)
from tests.support.sweeps import a_sample

DRIVERS = ("JOURNAL", "SQLITE")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a journal with everything in it."""
    spool = tmp_path_factory.mktemp("full") / "store"
    write_everything(spool)
    return spool


@pytest.fixture(scope="module")
def sqlite(full: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same as an SQLite store."""
    place = tmp_path_factory.mktemp("sqlite") / "store"
    assert move(source(full), target(place, "SQLITE")) == []
    return place


# The whole way.


def test_a_store_that_is_moved_there_and_back_is_the_same(full: Path, sqlite: Path, tmp_path: Path) -> None:
    assert everything(sqlite, "SQLITE") == everything(full, "JOURNAL")

    assert move(source(sqlite, "SQLITE"), target(tmp_path / "back", "JOURNAL")) == []

    found = everything(tmp_path / "back", "JOURNAL")
    assert found == everything(full, "JOURNAL")
    kinds = {type(part) for part in found}
    assert kinds == {StoredMessage, StoredRecord, StoredIdentifier, LastNumber}
    last = found[-1]
    assert isinstance(last, LastNumber)
    assert last.number > max(part.number for part in found if isinstance(part, StoredMessage))


def test_the_source_is_not_changed_by_a_byte(full: Path, sqlite: Path, tmp_path: Path) -> None:
    for place, driver in ((full, "JOURNAL"), (sqlite, "SQLITE")):
        before = files(place)
        assert move(source(place, driver), target(tmp_path / driver, "JOURNAL")) == []
        assert files(place) == before
        assert before


@pytest.mark.whole
@pytest.mark.parametrize("driver", DRIVERS)
def test_what_a_killed_broker_has_acknowledged_is_moved(tmp_path: Path, driver: str) -> None:
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom oms_journal.broker.embedded.broker import Broker\n"
        "from tests.support.servers.moved_stores import attributes\n"
        "broker = Broker.open(attributes=attributes(Path(sys.argv[1]), sys.argv[2]))\n"
        "alice = broker.session('ALICE').__enter__()\n"
        "for number in range(40):\n    alice.send('A/B/C', b'%d' % number)\n"
        "os._exit(9)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "old"), driver]
    assert subprocess.run(command, env=environment(), check=False).returncode == 9
    before = files(tmp_path / "old")

    assert move(source(tmp_path / "old", driver), target(tmp_path / "new", "JOURNAL")) == []

    assert files(tmp_path / "old") == before
    found = [part for part in everything(tmp_path / "new", "JOURNAL") if isinstance(part, StoredMessage)]
    assert [message.payload for message in found] == [b"%d" % number for number in range(40)]


def test_a_broker_goes_on_with_what_was_moved(full: Path, tmp_path: Path) -> None:
    assert move(source(full), target(tmp_path / "new", "SQLITE")) == []

    with (
        Broker.open(attributes=attributes(tmp_path / "new", "SQLITE", pstore="HOT")) as broker,
        broker.session("ALICE", token="T") as alice,
    ):
        alice.register("A/B/C")
        received = [
            (message.body[:1], len(message.body), message.properties)
            for unit in alice.receive_units(wait=0.1)
            for message in unit
        ]
    expected = [
        (b"x" * (length > 0), length, {"kind": "ü", "n": str(number)} if length else {})
        for number in range(4)
        for length in (10 ** (number + 2), 0)
    ]
    assert [one for one in received if one in expected] == expected
    store = open_store(attributes(tmp_path / "new", "SQLITE"), creates=False)
    assert store.record(LOADED_KEY) is None, "it goes with the first start"
    store.close()


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_resend_is_known_after_the_move(tmp_path: Path, driver: str) -> None:
    with Broker.open(tmp_path / "old") as broker, broker.session("ALICE", token="T") as alice:
        for producer in ("first", "second"):
            alice.send("A/B/C", producer.encode(), producer=producer)
    assert move(source(tmp_path / "old"), target(tmp_path / "new", driver)) == []

    with (
        Broker.open(attributes=attributes(tmp_path / "new", driver)) as broker,
        broker.session("ALICE", token="T") as alice,
    ):
        for producer in ("second", "third", "first"):
            alice.send("A/B/C", producer.encode(), producer=producer)
        alice.register("A/B/C")
        bodies = [message.body for unit in alice.receive_units(wait=0.1) for message in unit]
    assert bodies == [b"first", b"second", b"third"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_subscriber_goes_on_where_it_was_though_no_publication_is_left(tmp_path: Path, driver: str) -> None:
    with Broker.open(tmp_path / "old") as broker, broker.session("READER", token="R") as reader:
        news = reader.subscribe("NEWS", durable=True)
        for number in range(20):
            reader.publish("NEWS", b"%d" % number)
        for publication in news.publications(wait=0.1):
            with publication:
                list(publication)
    assert move(source(tmp_path / "old"), target(tmp_path / "new", driver)) == []

    with (
        Broker.open(attributes=attributes(tmp_path / "new", driver)) as broker,
        broker.session("READER", token="R") as reader,
    ):
        reader.publish("NEWS", b"later")
        news = reader.subscribe("NEWS", durable=True)
        found = [message.body for publication in news.publications(wait=0.1) for message in publication]
    assert found == [b"later"], "a number that was given before would have been taken as read"


# Interrupted.


@a_sample(1)
@pytest.mark.parametrize("driver", DRIVERS)
def test_an_interrupted_load_is_erased_and_repeated(tmp_path: Path, driver: str) -> None:
    _fill(tmp_path / "old", CHUNK_BYTES // 2, 8)
    new = tmp_path / "new"
    expected = everything(tmp_path / "old", "JOURNAL")
    for stops_after in (0, 2, 0, 1):
        assert move(source(tmp_path / "old"), target(new, driver), stops_after=stops_after) == ["stopped"]

    assert move(source(tmp_path / "old"), target(new, driver)) == []

    assert everything(new, driver) == expected


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_load_that_is_begun_again_in_the_same_process_begins_anew(tmp_path: Path, full: Path, driver: str) -> None:
    unloading, loading = Unloading.open(source(full)), Loading.open(target(tmp_path / "new", driver))
    for _ in range(3):
        assert loading.begin(unloading.offer)
        for data in unloading.chunks():
            loading.take(data[: len(data) // 2])
    assert loading.begin(unloading.offer)
    for data in unloading.chunks():
        loading.take(data)
    assert loading.check(unloading.tallies.summary(), unloading.tallies.last, lambda *_: None) == []
    assert not loading.begin(unloading.offer), "it is there already"
    assert loading.check(unloading.tallies.summary(), unloading.tallies.last, lambda *_: None) == []
    loading.close()
    unloading.close()
    assert everything(tmp_path / "new", driver) == everything(full, "JOURNAL")


@a_sample(2)
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("pstore", ["HOT", "WARM", "COLD"])
def test_no_broker_begins_with_an_unfinished_load(tmp_path: Path, full: Path, driver: str, pstore: str) -> None:
    move(source(full), target(tmp_path / "new", driver), stops_after=0)

    with pytest.raises(StartRefused, match="was not finished: repeat it"):
        Broker.open(attributes=attributes(tmp_path / "new", driver, pstore=pstore, force_cold="YES"), erase="ETB001")
    with pytest.raises(StartRefused, match="not whole"):
        Unloading.open(source(tmp_path / "new", driver))

    assert move(source(full), target(tmp_path / "new", driver)) == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_unfinished_load_is_erased_by_its_own_source_only(tmp_path: Path, full: Path, driver: str) -> None:
    with Broker.open(tmp_path / "other") as broker, broker.session("ALICE") as alice:
        alice.send("A/B/C", b"other")
    move(source(full), target(tmp_path / "new", driver), stops_after=0)

    with pytest.raises(MoveRefused, match=r"holds an unfinished load of .*not of"):
        move(source(tmp_path / "other"), target(tmp_path / "new", driver))

    assert move(source(full), target(tmp_path / "new", driver)) == []
    with pytest.raises(MoveRefused, match="holds a load of"):
        move(source(tmp_path / "other"), target(tmp_path / "new", driver))


def test_the_mark_is_the_first_record_and_goes_last(tmp_path: Path) -> None:
    _fill(tmp_path / "old", 1_000_000, 30)
    small = target(tmp_path / "new", "JOURNAL", max_data_file_size="100K")
    move(source(tmp_path / "old"), small, stops_after=27)
    first, *later = sorted(path for path in (tmp_path / "new").glob("*.data"))
    assert len(later) > 2
    with DatabaseView.open(tmp_path / "new") as view:
        assert view.get(LOADING_KEY)
    for path in reversed(later):  # killed while it is erased, at any moment
        path.unlink()
        loading = Loading.open(small)
        with pytest.raises(MoveRefused, match="unfinished load"):
            loading.begin(decode_offer(encode_offer(loading.offer) | {"mode": "PSTORE-UNLOAD", "place": "/elsewhere"}))
        loading.close()
    assert first.name == str(DataFileName(1))

    assert move(source(tmp_path / "old"), small) == []

    assert not list((tmp_path / "new").glob("*.archive"))
    assert everything(tmp_path / "new", "JOURNAL") == everything(tmp_path / "old", "JOURNAL")


def test_no_command_for_messages_touches_an_unfinished_load(tmp_path: Path, full: Path) -> None:
    move(source(full), target(tmp_path / "new", "JOURNAL"), stops_after=0)
    before = everything(full, "JOURNAL")

    for arguments in (("send", "q", "text"), ("receive", "A/B/C"), ("drop", LOADING_KEY, "--yes")):
        result = oms(*arguments, spool=tmp_path / "new", code=2)
        assert "load is not finished" in result.stderr

    assert move(source(full), target(tmp_path / "new", "JOURNAL")) == []
    assert everything(tmp_path / "new", "JOURNAL") == before


# What is refused.


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_target_that_holds_anything_is_refused(tmp_path: Path, driver: str) -> None:
    with Broker.open(attributes=attributes(tmp_path, driver)) as broker, broker.session("ALICE") as alice:
        alice.send("A/B/C", b"mine")
    before = files(tmp_path)

    with pytest.raises(StartRefused, match="is not empty: it holds 1 messages, and records"):
        Loading.open(target(tmp_path, driver))

    assert everything(tmp_path, driver)[0].payload == b"mine"  # type: ignore[union-attr]
    assert before.keys() <= files(tmp_path).keys()


@pytest.mark.parametrize("driver", DRIVERS)
def test_one_store_cannot_be_on_both_sides(tmp_path: Path, full: Path, sqlite: Path, driver: str) -> None:
    place = full if driver == "JOURNAL" else sqlite
    unloading = Unloading.open(source(place, driver))
    loading = Loading.open(target(tmp_path / "new", driver))
    with pytest.raises(MoveRefused, match="both brokers have the same store"):
        loading.begin(decode_offer(encode_offer(loading.offer) | {"mode": "PSTORE-UNLOAD"}))
    with pytest.raises(StartRefused):
        Loading.open(target(place, driver))
    unloading.close()
    loading.close()


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"version": "0.0.9"}, "different versions"),
        ({"protocol": 2}, "different versions"),
        ({"mode": "PSTORE-LOAD"}, "RUN-MODE=PSTORE-LOAD"),
        ({"mode": "STANDARD"}, "RUN-MODE=STANDARD"),
    ],
)
def test_a_partner_that_does_not_go_with_it_is_refused(
    tmp_path: Path, full: Path, said: dict[str, object], match: str
) -> None:
    unloading, loading = Unloading.open(source(full)), Loading.open(target(tmp_path / "new", "JOURNAL"))
    with pytest.raises(MoveRefused, match=match):
        loading.begin(decode_offer(encode_offer(unloading.offer) | said))
    assert loading.begin(unloading.offer)
    loading.close()
    unloading.close()


@pytest.mark.parametrize("document", [None, [], {}, {"version": 1}, {"odd": "x"}, {"mode": "PSTORE-LOAD"}])
def test_what_is_no_offer_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match="offer"):
        decode_offer(document)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_source_that_is_none_is_refused(tmp_path: Path, driver: str) -> None:
    with pytest.raises(StartRefused, match="holds no persistent store"):
        Unloading.open(source(tmp_path / "nothing", driver))
    assert not (tmp_path / "nothing").exists()

    place = tmp_path / "nobody"
    store = open_store(attributes(place, driver))
    store.commit(Changes(adds=[NewMessage("q", b"x")]))
    store.close()
    with pytest.raises(StartRefused, match="is no broker's store"):
        Unloading.open(source(place, driver))

    with (
        Broker.open(attributes=attributes(tmp_path / "its", driver)),
        pytest.raises(StartRefused, match="cannot be unloaded"),
    ):
        Unloading.open(source(tmp_path / "its", driver))
    with pytest.raises(StartRefused, match="belongs to broker ETB001, not to OTHER"):
        Unloading.open(source(tmp_path / "its", driver, broker_id="OTHER"))


@pytest.mark.parametrize("driver", DRIVERS)
def test_nobody_gets_the_source_while_it_is_unloaded(tmp_path: Path, driver: str) -> None:
    with Broker.open(attributes=attributes(tmp_path, driver)):
        pass
    unloading = Unloading.open(source(tmp_path, driver))
    with pytest.raises(StartRefused):
        Broker.open(attributes=attributes(tmp_path, driver))
    unloading.close()
    with Broker.open(attributes=attributes(tmp_path, driver)):
        pass


def test_a_damaged_source_is_refused_until_a_start_has_repaired_it(tmp_path: Path) -> None:
    with Broker.open(tmp_path / "old") as broker, broker.session("ALICE") as alice:
        alice.send("A/B/C", b"x" * 5000)
    (data,) = (tmp_path / "old").glob("*1.data")
    content = bytearray(data.read_bytes())
    content[content.index(b"x" * 5000) + 100] ^= 1
    data.write_bytes(content)
    before = files(tmp_path / "old")

    with pytest.raises((StartRefused, MessageUnreadable), match=r"damaged|cannot be read"):
        move(source(tmp_path / "old"), target(tmp_path / "new", "JOURNAL"))

    assert files(tmp_path / "old") == before


def test_a_source_whose_master_record_is_damaged_is_refused(tmp_path: Path) -> None:
    with Broker.open(tmp_path / "old"):
        pass
    damaged = 0
    for data in sorted((tmp_path / "old").glob("*.data")):
        content = bytearray(data.read_bytes())
        at = -1
        while (at := content.find(b"ETB001", at + 1)) >= 0:
            content[at] ^= 1
            damaged += 1
        data.write_bytes(content)
    assert damaged

    with pytest.raises(StartRefused):
        Unloading.open(source(tmp_path / "old"))
    Loading.open(target(tmp_path / "new", "JOURNAL")).close()


# The report and the summary.


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_reports_of_both_sides_are_equal_line_by_line(
    full: Path, tmp_path: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = {"pstore_report": "YES"}
    assert move(source(full, **said), target(tmp_path / "new", driver, **said)) == []

    unloaded, loaded = list(lines(tmp_path / "PSTORE.REPORT.UNLOAD")), list(lines(tmp_path / "PSTORE.REPORT.LOAD"))
    assert unloaded == loaded
    assert {line[3] for line in loaded} == {"Conversation", "Publication", "Subscription", "Master", "Cluster"}
    records = [part for part in everything(full, "JOURNAL") if isinstance(part, StoredRecord)]
    assert len(loaded) == len(records)


def test_every_difference_is_told() -> None:
    parts: list[Loaded] = [
        StoredMessage(1, "q", b"x", {}, 5),
        StoredMessage(2, "q", b"y", {"k": "v"}, 5),
        StoredRecord("broker/uow/1", b"a"),
        StoredRecord("broker/clock", b"c"),
        StoredRecord("else", b""),
    ]
    changed: list[Loaded] = [
        StoredMessage(2, "q", b"y", {"k": "w"}, 5),
        StoredMessage(2, "q", b"y", {"k": "v"}, 6),
        StoredMessage(2, "p", b"y", {"k": "v"}, 5),
        StoredMessage(2, "q", b"yy", {"k": "v"}, 5),
        StoredMessage(3, "q", b"y", {"k": "v"}, 5),
        StoredMessage(2, "q", b"y", {"k": "v"}, 5, "me"),
    ]
    whole = _summary(parts)
    assert differences(whole, _summary(parts)) == []
    for at in range(len(parts)):
        assert len(differences(whole, _summary(parts[:at] + parts[at + 1 :]))) == 1
        assert len(differences(_summary(parts[:at] + parts[at + 1 :]), whole)) == 1
    for other in changed:
        (line,) = differences(whole, _summary([parts[0], other, *parts[2:]]))
        assert line.startswith("Message: 2 of")


# The stream.


def test_the_stream_is_put_together_from_any_pieces() -> None:
    parts = list(_parts())
    stream = b"".join(map(encode_part, parts))
    for size in (1, 7, 64, 1000, len(stream)):
        decoder = Decoder()
        found = [part for at in range(0, len(stream), size) for part in decoder.feed(stream[at : at + size])]
        assert found == parts
        assert decoder.is_between
    assert not list(Decoder().feed(stream[:3]))


def test_pieces_are_bounded_however_long_a_message_is() -> None:
    long = [encode_part(StoredMessage(number, "q", bytes(3 * CHUNK_BYTES + number), {}, 1)) for number in range(3)]

    pieces = list(chunks(long))

    assert b"".join(pieces) == b"".join(long)
    assert {len(piece) for piece in pieces[:-1]} == {CHUNK_BYTES}


def test_no_damaged_stream_is_taken_for_another() -> None:
    parts = list(_parts())
    for part in parts:
        data = encode_part(part)
        for cut in range(5, len(data)):
            body = data[5:cut]
            shorter = len(body).to_bytes(4, "little") + data[4:5] + body
            try:
                (found,) = Decoder().feed(shorter)
            except NotAReplica:
                continue
            assert isinstance(part, StoredMessage | StoredRecord), "their last field has no length"
            assert found != part
    with pytest.raises(NotAReplica, match="kind 9"):
        list(Decoder().feed(b"\0\0\0\0\x09"))
    with pytest.raises(NotAReplica, match="more than a store holds"):
        list(Decoder().feed(b"\xff\xff\xff\xff\x01"))


def _parts() -> Iterator[Loaded]:
    yield StoredMessage(7, "é/q", b"seven", {"k": "ü"}, -11, "me")
    yield StoredMessage((1 << 60) + 1, "q", b"", {}, 12)
    yield StoredRecord("broker/master", b"value")
    yield StoredRecord("k", b"")
    yield StoredIdentifier("q", "me", 7, 2, (1 << 64) - 1, 5)
    yield LastNumber(1 << 61)


def _summary(parts: list[Loaded]) -> dict[str, Tally]:
    tallies = Tallies()
    for part in parts:
        tallies.take(part, encode_part(part))
    return tallies.summary()


def _fill(spool: Path, size: int, count: int) -> None:
    """Write units of work of one long message."""
    with Broker.open(spool) as broker, broker.session("ALICE", token="T") as alice:
        for number in range(count):
            alice.send("A/B/C", bytes([number]) * size)
