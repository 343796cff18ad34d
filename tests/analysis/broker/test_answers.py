"""Every question about a broker's journals answers what plain loops over their operations answer. No Spark here."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oms_journal import MessageDatabase
from oms_journal.analysis.broker import conversations, scan, services, stays, store, topics, units
from oms_journal.analysis.broker.answers import ANSWERS
from oms_journal.analysis.fold import local
from oms_journal.analysis.fold.answers import schema_of
from oms_journal.analysis.fold.engine import T, Work, decoded, encoded
from oms_journal.analysis.reading.parts import FilePart, Partition
from oms_journal.analysis.reading.plan import plan
from oms_journal.analysis.storage import locate
from oms_journal.broker.records import (
    MASTER_KEY,
    PUBLICATIONS,
    SUBSCRIPTIONS,
    UOW,
    UOWS,
    VERSION,
    Flag,
    Status,
    SubscriptionRecord,
    UowRecord,
)
from tests.analysis.broker import plain_broker as plain
from tests.support.journals.plain_rows import Answer, assert_same_rows, database_of, plain_rows
from tests.support.journals.random_broker import BrokerWriter
from tests.support.sweeps import sampled

SEEDS = (2, 6)
CLEANED = 2  # the seed of a journal of which the first files are not there
ERASED = 6  # the seed of a journal whose last start was a cold one


@dataclass(frozen=True, slots=True)
class Journals:
    """Journals of several brokers, as plain values and as files."""

    partitions: list[Partition]
    now: int
    traced: list[plain.Traced]
    units: Answer
    published: Answer


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Journals:
    directory = tmp_path_factory.mktemp("brokers")
    paths: list[Path] = []
    now = 0
    for seed in SEEDS:
        spool, retention = directory / f"spool-{seed}", directory / f"retention-{seed}"
        writer = BrokerWriter(spool, seed, retention=retention)
        writer.write(erases=seed == ERASED)
        paths += [spool] if seed == CLEANED else [spool, retention / database_of(spool)]
        now = max(now, writer.clock.now + 10**9)
    traced = plain.traced(*paths)
    partitions = plan(locate([str(path) for path in paths]), partition_bytes=1)
    return Journals(partitions, now, traced, plain.units_of_work(traced), plain.publications(traced))


def at_once(partitions: Sequence[Partition], work: Work[T]) -> list[T]:
    """Look at all files as one part."""
    return [work([part for partition in partitions for part in partition.parts])]


@pytest.fixture(scope="module")
def told(journals: Journals) -> dict[str, pa.Table]:
    return tables(scan.read(at_once, journals.partitions), journals.now)


def tables(found: scan.Store, now: int, *, exact: bool = False) -> dict[str, pa.Table]:
    """Return every answer by its name."""
    of_units, stayed = units.units_of_work(found), stays.uow_stays(found)
    published = topics.publications(found)
    subscribed = topics.subscribers(found, published, now=now)
    talks = conversations.conversations(of_units)
    return {
        "units_of_work": of_units,
        "uow_services": services.uow_services(of_units, now=now, exact=exact),
        "uow_statuses": services.uow_statuses(of_units, stayed, exact=exact),
        "uow_stays": stayed,
        "uow_attempts": services.uow_attempts(of_units),
        "uow_failures": services.uow_failures(of_units),
        "conversations": talks,
        "conversation_services": conversations.conversation_services(talks, now=now, exact=exact),
        "publications": published,
        "subscribers": subscribed,
        "topics": topics.topics(published, subscribed, now=now, exact=exact),
        "broker_starts": store.broker_starts(found),
        "broker_records": store.broker_records(found),
    }


def expected(journals: Journals, *, exact: bool = False) -> dict[str, Answer]:
    """Return what plain loops answer."""
    stayed, talks = plain.uow_stays(journals.traced), plain.conversations(journals.units)
    subscribed = plain.subscribers(journals.traced, journals.published, now=journals.now)
    now = journals.now
    return {
        "units_of_work": journals.units,
        "uow_services": plain.uow_services(journals.units, now=now, exact=exact),
        "uow_statuses": plain.uow_statuses(journals.units, stayed, exact=exact),
        "uow_stays": stayed,
        "uow_attempts": plain.uow_attempts(journals.units),
        "uow_failures": plain.uow_failures(journals.units, list(ANSWERS["uow_failures"])),
        "conversations": talks,
        "conversation_services": plain.conversation_services(talks, now=now, exact=exact),
        "publications": journals.published,
        "subscribers": subscribed,
        "topics": plain.topics(journals.published, subscribed, now=now, exact=exact),
        "broker_starts": plain.broker_starts(journals.traced),
        "broker_records": plain.broker_records(journals.traced),
    }


def test_the_journals_hold_what_there_is_to_ask_about(journals: Journals) -> None:
    statuses = {unit["status"] for unit in journals.units}
    steps = [step for each in journals.traced for step in each.steps]

    assert {*plain.WAITING, *(status.name for status in plain.COMPLETE), "RECEIVED", "REMOVED", "GONE"} <= statuses
    assert {0, 1, 2} <= {unit["attempts"] for unit in journals.units}
    assert 0 in {unit["attempts"] for unit in journals.units if unit["status"] == "TIMEOUT"}
    assert {row["status"] for row in journals.published} == {"ACCEPTED", "PROCESSED", "TIMEOUT", "GONE"}
    read = [step.record.acknowledged for step in steps if isinstance(step.record, SubscriptionRecord)]
    assert {len(each) for each in read} >= {0, 3}, "one by itself, and a range"
    assert any(step.moved and step.key.startswith(UOWS) for step in steps)
    assert any(unit["forgotten"] and unit["ended"] < unit["forgotten"] for unit in journals.units)
    talks = plain.conversations(journals.units)
    assert {talk["state"] for talk in talks} == {"OPEN", "EOC", "EOC_CANCEL"}
    subscribed = plain.subscribers(journals.traced, journals.published, now=journals.now)
    assert {row["ended"] is None for row in subscribed} == {True, False}
    assert {row["lag_publications"] > 0 for row in subscribed} == {True, False}
    starts = Counter(row["what"] for row in plain.broker_starts(journals.traced))
    assert starts.keys() == {"cold start", "hot start", "termination"}
    assert {row["status"] for row in plain.uow_stays(journals.traced)} >= {"RECEIVED", *plain.WAITING, "PROCESSED"}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_that_of_plain_loops(journals: Journals, told: dict[str, pa.Table], name: str) -> None:
    found = told[name]

    found.validate(full=True)
    assert found.schema.equals(schema_of(ANSWERS[name]), check_metadata=True)
    assert_same_rows(plain_rows(found), expected(journals)[name])


def test_exact_percentiles_lie_between_two_ranks(journals: Journals) -> None:
    found = tables(scan.read(at_once, journals.partitions), journals.now, exact=True)

    for name, rows in expected(journals, exact=True).items():
        assert_same_rows(plain_rows(found[name]), rows)


@pytest.mark.parametrize("seed", sampled(range(3), 1))
def test_it_does_not_matter_how_the_files_are_split(journals: Journals, told: dict[str, pa.Table], seed: int) -> None:
    chance = random.Random(seed)

    def in_tree(parts: Sequence[FilePart], work: Work[Any]) -> Any:
        if len(parts) == 1:
            return decoded(encoded(work(parts)))
        middle = chance.randrange(1, len(parts))
        found = in_tree(parts[:middle], work)
        found.merge(in_tree(parts[middle:], work))
        return found

    def engine(partitions: Sequence[Partition], work: Work[T]) -> list[T]:
        return [in_tree([part for partition in partitions for part in partition.parts], work)]

    assert tables(scan.read(engine, journals.partitions), journals.now) == told


def test_before_a_time_there_is_what_was_known_then(journals: Journals) -> None:
    times = sorted(unit["created"] for unit in journals.units)
    until = times[len(times) // 2]
    before = [plain.Traced(one.database, [step for step in one.steps if step.time < until]) for one in journals.traced]

    found = scan.read(partial(local.fold, processes=1), journals.partitions, until)

    assert_same_rows(plain_rows(units.units_of_work(found)), plain.units_of_work(before))
    assert_same_rows(plain_rows(stays.uow_stays(found)), plain.uow_stays(before))
    assert_same_rows(plain_rows(topics.publications(found)), plain.publications(before))
    assert_same_rows(plain_rows(store.broker_records(found)), plain.broker_records(before))


def test_what_strangers_put_under_a_brokers_keys_is_counted_and_left_out(tmp_path: Path) -> None:
    """A record that was put again and cannot be read is told as it was before."""
    good = UowRecord("1000000100000001", "1000000100000002", Status.ACCEPTED, Flag(2), created=1, changed=2)
    newer = bytes((VERSION + 1,)) + UOW.encode(good)[1:]
    with MessageDatabase.open(tmp_path) as db:
        for key, value in (
            (f"{UOWS}{good.uowid}", UOW.encode(good)),
            (f"{UOWS}{good.uowid}", b"spoilt"),
            (f"{UOWS}1000000100000003", newer),
            (f"{UOWS}\n<b>", b""),
            (f"{PUBLICATIONS}1", bytes(200)),
            (f"{SUBSCRIPTIONS}1", b"x" * 300),
            (MASTER_KEY, "Grüße".encode()),
            ("broker/else", b"mine"),
        ):
            db.put(key, value)
        db.drop(f"{PUBLICATIONS}1")
    known = plain.traced(tmp_path)

    found = tables(scan.read(local.fold, plan(locate([str(tmp_path)]))), now=0)

    assert_same_rows(plain_rows(found["units_of_work"]), plain.units_of_work(known))
    assert found["units_of_work"]["uowid"].to_pylist() == [good.uowid]
    assert {row["kind"]: (row["unreadable"], row["newer"]) for row in found["broker_records"].to_pylist()} == {
        **{"UOW": (3, 1), "PUBLICATION": (1, 0), "SUBSCRIPTION": (1, 0), "MASTER": (1, 0)},
    }
    assert len(found["broker_starts"]) == 0


def test_other_journals_are_no_brokers_and_have_empty_answers(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.put("brokers", b"of ships")
        db.add("q", b"")

    found = scan.read(local.fold, plan(locate([str(tmp_path)])))

    assert not found.is_a_brokers
    assert {name: len(table) for name, table in tables(found, now=0).items()} == dict.fromkeys(ANSWERS, 0)
