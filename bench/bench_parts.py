"""The parts of the ways in and out, each by itself, for pytest-benchmark: which one got slower?

make bench prints these behind the table. Times are of this machine and its disk; compare them only
with others of the same machine (`pytest bench --benchmark-only --benchmark-autosave`, then
`--benchmark-compare`).
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.datasets import add_batches
from oms_journal import MessageDatabase
from oms_journal.recovery.validation import validate_directory

QUEUE = "bench"
PAYLOAD = os.urandom(256)
MESSAGES = 20_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "db") as opened:
        yield opened


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A closed database with messages in it."""
    with MessageDatabase.open(tmp_path / "db") as opened:
        add_batches(opened, size=len(PAYLOAD), count=MESSAGES)
    return tmp_path / "db"


def test_add_one_message(benchmark: BenchmarkFixture, database: MessageDatabase) -> None:
    benchmark(database.add, QUEUE, PAYLOAD)


def test_add_one_message_with_properties_and_identifier(benchmark: BenchmarkFixture, database: MessageDatabase) -> None:
    identifiers = iter(range(1 << 60))
    benchmark(
        lambda: database.add(QUEUE, PAYLOAD, properties={"kind": "order"}, producer_id=f"order-{next(identifiers)}")
    )


@pytest.mark.parametrize("count", [16, 64, 1000])
def test_add_many_messages(benchmark: BenchmarkFixture, database: MessageDatabase, count: int) -> None:
    benchmark(database.add_many, QUEUE, [PAYLOAD] * count)


def test_deliver_one_message(benchmark: BenchmarkFixture, database: MessageDatabase) -> None:
    numbers = iter(database.add_many(QUEUE, [b""] * 500_000))
    benchmark(lambda: database.deliver(next(numbers)))


def test_put_a_key(benchmark: BenchmarkFixture, database: MessageDatabase) -> None:
    benchmark(database.put, "key", PAYLOAD)


def test_read_one_message(benchmark: BenchmarkFixture, database: MessageDatabase) -> None:
    number = database.add(QUEUE, PAYLOAD)
    benchmark(database.read, number)


def test_read_all_messages_in_order(benchmark: BenchmarkFixture, full: Path) -> None:
    with MessageDatabase.open(full) as opened:
        assert benchmark(lambda: sum(1 for _ in opened.undelivered(QUEUE))) == MESSAGES


def test_open_and_close(benchmark: BenchmarkFixture, full: Path) -> None:
    benchmark(lambda: MessageDatabase.open(full).close())


def test_validate(benchmark: BenchmarkFixture, full: Path) -> None:
    assert all(report.verdict.value == "clean" for report in benchmark(validate_directory, full))
