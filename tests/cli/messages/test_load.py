"""`oms load`: every format, durable batches, and what it says when it stops midway."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from tests.support.cli_runner import command_line, environment, oms, oms_json, oms_lines
from tests.support.warm_starts import Process


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def payloads(spool: Path, queue: str) -> list[bytes]:
    with MessageDatabase.open(spool) as db:
        return [message.payload for message in db.undelivered(queue)]


def test_each_line_becomes_a_message_in_order(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("one\n\nthree\n")

    result = oms_json("load", str(tmp_path / "words.txt"), "--queue", "q", "--batch", "2", spool=spool)

    assert payloads(spool, "q") == [b"one", b"", b"three"]
    assert result["acknowledged"] == 3
    assert result["commits"] == 2
    assert result["bytes"] == 8
    assert result["queues"] == {"q": 3}
    assert result["last"] - result["first"] == 2


def test_standard_input_is_loaded_too(spool: Path) -> None:
    text = oms("load", "-", "--queue", "q", spool=spool, stdin=b"a\nb\n").stdout

    assert text.startswith("2 messages (2 B) added to q in 1 commit, ")
    assert payloads(spool, "q") == [b"a", b"b"]


def test_an_empty_input_loads_nothing(spool: Path) -> None:
    assert oms("load", "-", "--queue", "q", spool=spool, stdin=b"").stdout.startswith("0 messages (0 B) added in")


def test_the_suffix_chooses_the_format(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n\n{"x": 2}\n')

    oms("load", str(tmp_path / "a.csv"), "-q", "csv", spool=spool)
    oms("load", str(tmp_path / "a.jsonl"), "-q", "json", spool=spool)

    assert payloads(spool, "csv") == [b'{"x":"1","y":"2"}']
    assert payloads(spool, "json") == [b'{"x": 1}', b'{"x": 2}']


def test_what_receive_prints_can_be_loaded_again(spool: Path, tmp_path: Path) -> None:
    with MessageDatabase.open(spool) as db:
        db.add("a", b"\x00\xff", properties={"k": "v"}, producer_id="p-1")
        db.add("a", b"plain")
    printed = oms("receive", "a", "--peek", "--count", "9", "--json", spool=spool).stdout_bytes

    oms("load", "-", "--format", "envelope", spool=tmp_path / "copy", stdin=printed)

    kept = ("queue", "payload", "properties", "producer_id")
    copied = oms_lines("receive", "a", "--peek", "--count", "9", spool=tmp_path / "copy")
    assert [[line[name] for name in kept] for line in copied] == [
        [json.loads(line)[name] for name in kept] for line in printed.splitlines()
    ]


def test_envelopes_of_several_queues_keep_their_order(spool: Path) -> None:
    lines = [{"queue": name, "text": str(place)} for place, name in enumerate("aabbab")]

    result = oms_json_stdin(spool, "\n".join(map(json.dumps, lines)).encode(), "--format", "envelope")

    assert result["queues"] == {"a": 3, "b": 3}
    assert payloads(spool, "a") == [b"0", b"1", b"4"]


def oms_json_stdin(spool: Path, stdin: bytes, *arguments: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(oms("load", "-", *arguments, "--json", spool=spool, stdin=stdin).stdout)
    return found


def test_a_bad_line_stops_the_load_and_all_before_it_is_acknowledged(spool: Path) -> None:
    lines = b"\n".join([b"{}"] * 25 + [b"bad"] + [b"{}"] * 4)
    arguments = ["load", "-", "-q", "q", "--format", "ndjson", "--batch", "10"]

    result = oms(*arguments, "--json", spool=spool, stdin=lines, code=2)

    told = json.loads(result.stderr)
    assert told["acknowledged"] == told["skip"] == 25 == len(payloads(spool, "q"))
    assert told["line"] == 26
    assert told["message"].startswith("line 26: it is not JSON")
    assert "--skip 25 goes on from there" in told["message"]


def test_a_load_goes_on_where_it_stopped(spool: Path) -> None:
    oms("load", "-", "-q", "q", "--format", "ndjson", spool=spool, stdin=b"1\n2\nbad\n", code=2)

    result = oms_json_stdin(spool, b"1\n2\n3\n4\n", "-q", "q", "--format", "ndjson", "--skip", "2")

    assert result["acknowledged"] == 2
    assert result["skipped"] == 2
    assert payloads(spool, "q") == [b"1", b"2", b"3", b"4"]


def test_the_same_load_with_a_producer_prefix_adds_nothing_twice(spool: Path) -> None:
    arguments = ["load", "-", "-q", "q", "--batch", "2", "--producer-prefix", "flights"]

    oms(*arguments, spool=spool, stdin=b"1\n2\n3\n")
    oms(*arguments, spool=spool, stdin=b"1\n2\n3\n4\n", code=1)

    assert payloads(spool, "q")[:3] == [b"1", b"2", b"3"]
    oms(*arguments, spool=spool, stdin=b"1\n2\n3\n")
    assert len(payloads(spool, "q")) == 3


def test_a_line_longer_than_a_message_may_be_is_refused(spool: Path) -> None:
    result = oms("load", "-", "-q", "q", "--max-message-size", "5", spool=spool, stdin=b"12345\n123456\n", code=2)

    assert "line 2: it is longer than the 5 bytes a message may have" in result.stderr
    assert payloads(spool, "q") == [b"12345"]


def test_data_files_are_as_long_as_asked_for(spool: Path) -> None:
    oms("load", "-", "-q", "q", "--max-data-file-size", "64K", spool=spool, stdin=(b"x" * 99 + b"\n") * 5000)

    sizes = [path.stat().st_size for path in spool.glob("*.data")]
    assert len(sizes) > 5
    assert max(sizes) <= 64 << 10


@pytest.mark.whole
@pytest.mark.parametrize(
    ("number", "code", "what"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "stopped by SIGTERM"),
        (signal.SIGHUP, 129, "stopped by SIGHUP"),
    ],
)
def test_what_asks_for_the_end_stops_between_commits_and_tells_how_far_it_came(
    spool: Path, number: signal.Signals, code: int, what: str
) -> None:
    reading, writing = os.pipe()
    with Process[bytes](
        command_line("load", "-", "-q", "q", "--batch", "10", "--json"),
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(spool),
    ) as process:
        os.close(reading)
        os.write(writing, b"line\n" * 2000)  # 200 commits; 0 to 9 lines more stay in the reader
        wait_for_messages(spool, 2000, process)
        process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()  # it waits for more lines, and we would wait for it
            os.close(writing)

    told = json.loads(errors)
    assert process.returncode == told["exit"] == code
    assert told["message"].startswith(f"{what}; 2,000 messages acknowledged")
    assert len(payloads(spool, "q")) == told["acknowledged"] == 2000


def wait_for_messages(spool: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if any(spool.glob("omsmsg*")) and oms_json("stats", spool=spool)["undelivered"] >= count:
            return
        time.sleep(0.05)
    process.kill()  # it waits for us, and we would wait for it
    raise AssertionError("the messages did not come")


@pytest.mark.whole
def test_a_killed_load_lost_nothing_it_had_committed(spool: Path) -> None:
    with Process[bytes](
        command_line("load", "-", "-q", "q", "--batch", "7"),
        stdin=subprocess.PIPE,
        env=environment(spool),
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(b"%d\n" % number for number in range(7000)))
        process.stdin.flush()
        wait_for_messages(spool, 7000 - 7, process)
        process.kill()

    found = payloads(spool, "q")
    assert found == [b"%d" % number for number in range(len(found))]
    assert len(found) >= 7000 - 7
