"""`oms send`, `list`, `show`, `delete` and `drop` on a real spool directory."""

import base64
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from tests.support.cli_runner import oms, oms_json, oms_lines, oms_process
from tests.support.disks.small_files import MODEST


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def orders(spool: Path) -> Path:
    """A database with three orders, one bill and a key."""
    with MessageDatabase.open(spool, max_data_file_size=MODEST) as db:
        db.add_many("orders", [b"one", b"two", b"three"])
        db.add("bills", b"\x00\x01\xfe\xff", properties={"to": "me"}, producer_id="bill-1")
        db.put("state", b"value")
    return spool


def test_a_sent_message_has_a_number_and_is_there(spool: Path) -> None:
    number = int(oms("send", "orders", "hello", spool=spool).stdout)

    with MessageDatabase.open(spool) as db:
        assert db.read(number).payload == b"hello"


def test_a_message_from_standard_input_keeps_every_byte(spool: Path) -> None:
    payload = bytes(range(256)) * 300

    number = int(oms("send", "orders", spool=spool, stdin=payload).stdout)

    assert oms("show", str(number), "--raw", spool=spool).stdout_bytes == payload


@pytest.mark.parametrize("line", [["send", "orders"], ["send", "orders", ""]])
def test_an_empty_message_is_a_message_where_it_is_asked_for(spool: Path, line: list[str]) -> None:
    oms(*line, spool=spool, stdin=b"", code=2)
    assert not spool.exists()

    sent = oms_json(*line, "--empty", spool=spool)
    assert sent == {"number": sent["number"], "queue": "orders", "length": 0}


def test_properties_and_identifier_travel_with_the_message(spool: Path) -> None:
    sent = oms_json("send", "q", "x", "-p", "a=1", "--property", "b=2=3", "--producer-id", "p-1", spool=spool)

    shown = oms_json("show", str(sent["number"]), spool=spool)

    assert shown["properties"] == {"a": "1", "b": "2=3"}
    assert shown["producer_id"] == "p-1"


def test_a_message_sent_again_under_its_identifier_is_added_once(spool: Path) -> None:
    first = oms("send", "q", "x", "--producer-id", "p", spool=spool).stdout

    assert oms("send", "q", "x", "--producer-id", "p", spool=spool).stdout == first
    assert oms_json("stats", spool=spool)["undelivered"] == 1
    assert "give another identifier" in oms("send", "q", "other", "--producer-id", "p", spool=spool, code=1).stderr


@pytest.mark.parametrize(("queue", "size"), [("q" * 256, 1), ("q", 101)])
def test_what_is_too_long_is_wrong_usage_and_nothing_is_added(spool: Path, queue: str, size: int) -> None:
    result = oms("send", queue, "--max-message-size", "100", spool=spool, stdin=b"x" * size, code=2)

    assert len(result.stderr.splitlines()) == 1
    assert not list(spool.glob("*.data"))


@pytest.mark.whole
def test_limits_come_from_the_environment_too(spool: Path) -> None:
    done = oms_process("send", "q", "four", spool=spool, variables={"MAX_MESSAGE_SIZE": "3B"})

    assert done.returncode == 2
    assert b"at most 3" in done.stderr


def test_the_queues_are_listed_with_what_waits_in_them(orders: Path) -> None:
    queues = oms_json("list", spool=orders)["queues"]

    assert {name: queue["undelivered"] for name, queue in queues.items()} == {"orders": 3, "bills": 1}
    assert 0 <= queues["orders"]["oldest_age"] < 60
    lines = oms("list", spool=orders).stdout.splitlines()
    assert lines[0].split() == ["queue", "undelivered", "size", "oldest", "age"]
    assert [line.split()[0] for line in lines[2:]] == ["orders", "bills"]


def test_an_empty_database_lists_nothing(spool: Path) -> None:
    MessageDatabase.open(spool).close()

    assert oms("list", spool=spool).stdout == "No undelivered messages.\n"
    assert oms_json("list", spool=spool) == {"queues": {}}
    assert oms_lines("list", "orders", spool=spool) == []


def test_the_messages_of_a_queue_are_listed_in_order(orders: Path) -> None:
    found = oms_lines("list", "orders", spool=orders)

    assert [message["length"] for message in found] == [3, 3, 5]
    assert found == sorted(found, key=lambda message: message["number"])
    assert set(found[0]) == {
        "number",
        "queue",
        "added_at",
        "producer_id",
        "properties",
        "length",
        "sequence",
        "offset",
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found[0]["added_at"])
    assert "three" in oms("list", "orders", spool=orders).stdout


def test_a_long_list_says_what_it_leaves_out(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        db.add_many("q", [b"x"] * 30)

    assert "… and 10 more; --limit 0 shows all" in oms("list", "q", spool=spool).stdout
    assert "more" not in oms("list", "q", "--limit", "0", spool=spool).stdout
    assert len(oms_lines("list", "q", spool=spool)) == 30
    assert len(oms_lines("list", "q", "--limit", "7", spool=spool)) == 7


def test_a_message_is_shown_with_its_place(orders: Path) -> None:
    bill = oms_lines("list", "bills", spool=orders)[0]

    text = oms("show", str(bill["number"]), spool=orders).stdout
    shown = oms_json("show", str(bill["number"]), spool=orders)

    assert f"omsmsg-{bill['sequence']:010}.data at byte {bill['offset']:,}" in text
    assert "property to" in text
    assert "00000000  00 01 fe ff" in text
    assert base64.b64decode(shown["payload"]) == b"\x00\x01\xfe\xff"
    assert datetime.fromisoformat(shown["added_at"]).tzinfo == UTC


def test_a_long_payload_is_shown_in_part(spool: Path) -> None:
    number = oms("send", "q", spool=spool, stdin=b"x" * 10_000).stdout.strip()

    assert "… and 5,904 bytes more; --raw prints all" in oms("show", number, spool=spool).stdout


def test_a_message_that_is_not_there_is_a_no(orders: Path) -> None:
    result = oms("show", "999", spool=orders, code=1)

    assert result.stderr == "oms: no undelivered message has number 999; `oms dump` tells what became of a message\n"
    assert json.loads(oms("show", "999", "--json", spool=orders, code=1).stderr)["error"] == "NoSuchMessage"


def test_nothing_in_a_message_reaches_the_terminal_as_a_command(spool: Path) -> None:
    evil = "a\x1b[2J\x07\u202e\r\n[bold]b"
    with MessageDatabase.open(spool) as db:
        number = db.add(evil, evil.encode(), properties={evil: evil}, producer_id=evil)
        db.put(evil, b"")

    commands = [
        ["list"],
        ["list", evil],
        ["show", str(number)],
        ["stats"],
        ["explain"],
        ["dump", "--payload"],
    ]
    for command in [*commands, ["receive", evil, "--peek", "--json"], ["delete", "--queue", evil, "--yes"]]:
        text = oms(*command, spool=spool).stdout
        assert all(c == "\n" or c.isprintable() for c in text), command


def test_messages_are_deleted_by_number(orders: Path) -> None:
    numbers = [str(message["number"]) for message in oms_lines("list", "orders", spool=orders)]

    assert oms("delete", *numbers[:2], "--yes", spool=orders).stdout == "2 messages deleted\n"
    assert oms_json("delete", *numbers, "--yes", spool=orders, code=1) == {"deleted": 1, "missing": 2}
    assert oms_json("stats", spool=orders)["undelivered"] == 1


def test_a_queue_is_deleted_as_a_whole(orders: Path) -> None:
    assert oms_json("delete", "--queue", "orders", "--yes", spool=orders) == {"deleted": 3, "missing": 0}
    assert oms_json("delete", "--queue", "orders", "--yes", spool=orders) == {"deleted": 0, "missing": 0}
    assert oms_json("list", spool=orders)["queues"].keys() == {"bills"}


def test_only_messages_older_than_the_age_are_deleted(orders: Path) -> None:
    assert oms_json("delete", "--queue", "orders", "--older", "1h", "--yes", spool=orders)["deleted"] == 0
    assert oms_json("delete", "--queue", "orders", "--older", "0s", "--yes", spool=orders)["deleted"] == 3
    assert "--older" in oms("delete", "--queue", "bills", "--older", "soon", "--yes", spool=orders, code=2).stderr


@pytest.mark.parametrize("arguments", [["delete", "1"], ["delete", "--queue", "orders"], ["drop", "state"]])
def test_nothing_is_removed_without_a_terminal_to_ask_on(orders: Path, arguments: list[str]) -> None:
    result = oms(*arguments, spool=orders, stdin=b"y\n", code=2)

    assert result.stderr == "oms: there is no terminal to ask on: give --yes to do it without a question\n"
    assert oms_json("stats", spool=orders)["undelivered"] == 4


def test_a_key_is_dropped_once(orders: Path) -> None:
    assert oms("drop", "state", "--yes", spool=orders).stdout == "key state dropped\n"
    assert oms_json("drop", "state", "--yes", spool=orders, code=1) == {"dropped": False}
    assert oms("drop", "state", spool=orders, code=1).stdout == "there is no key state\n"


@pytest.fixture
def typed() -> Iterator[tuple[int, int]]:
    """A pseudo terminal: what a person types into, and what the program has as its standard input."""
    person, program = os.openpty()
    yield person, program
    os.close(person)
    os.close(program)


@pytest.mark.whole
@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 1, 4), (b"\n", 1, 4), (b"y\n", 0, 1)])
def test_a_person_is_asked_before_anything_is_removed(
    orders: Path, typed: tuple[int, int], answer: bytes, code: int, left: int
) -> None:
    person, program = typed
    os.write(person, answer)

    done = oms_process("delete", "--queue", "orders", spool=orders, terminal=program)

    assert done.returncode == code
    assert b"Delete 3 messages of queue orders? [y/N]" in done.stderr
    assert b"Traceback" not in done.stderr
    assert oms_json("stats", spool=orders)["undelivered"] == left


def test_what_a_message_waits_for_and_how_often_it_came_back_is_listed_and_shown(spool: Path) -> None:
    due, over = datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
    with MessageDatabase.open(spool) as db:
        plain = db.add("q", b"plain")
        waits = db.add("q", b"waits", at=due, expires=over, group="customer-7")
        for _ in range(3):
            assert db.take("q") is not None and db.release(plain)
        away = db.add("r", b"away")
        assert db.take("r") is not None and db.release(away, delay=1e9)

    one, other = oms_lines("list", "q", spool=spool)
    assert (one["attempts"], {"due_at", "expires_at", "group"} & set(one)) == (3, set())
    said = {"due_at": "2100-01-02T03:04:05.000000Z", "expires_at": "2200-01-01T00:00:00.000000Z", "group": "customer-7"}
    assert other.items() >= said.items() and "attempts" not in other
    assert oms_json("show", str(waits), spool=spool).items() >= said.items()
    listed = oms("list", "q", spool=spool).stdout
    for text in ("due", "expires", "group", "attempts", "2100-01-02 03:04:05Z", "2200-01-01", "customer-7"):
        assert text in listed
    shown = oms("show", str(waits), spool=spool).stdout
    assert "2100-01-02 03:04:05Z" in shown and "customer-7" in shown and "attempts" not in shown
    assert re.search(r"^attempts +3$", oms("show", str(plain), spool=spool).stdout, re.MULTILINE)
    assert oms_json("show", str(away), spool=spool)["due_at"] > "2050"
    assert "group" not in oms("list", "r", spool=spool).stdout
