"""What archives tell and repaired files do not is what plain loops over `dump` find, without Spark."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from oms_journal.analysis.fold import local, losses
from oms_journal.analysis.fold.answers import LOSSES, LOSSES_BY_QUEUE, schema_of
from oms_journal.analysis.fold.engine import T, Work
from oms_journal.analysis.reading.parts import Partition
from oms_journal.analysis.reading.plan import plan
from oms_journal.analysis.storage import locate
from tests.support.journals import plain_answers as plain
from tests.support.journals.plain_rows import Answer, assert_same_rows, plain_rows, rows_in
from tests.support.journals.random_journal import RandomWriter, damage

SEEDS = range(4)
SALVAGED = (2, 3)  # seeds of journals of which every good frame is kept, not only those before a bad one


@pytest.fixture(scope="module")
def spools(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return spools of several databases, repaired, with the archives of the repairs."""
    found = []
    for seed in SEEDS:
        spool = tmp_path_factory.mktemp("repaired") / f"spool-{seed}"
        writer = RandomWriter(spool, seed)
        writer.write(openings=2)
        for path in [path for path in sorted(spool.glob("*.data")) if rows_in(path)][1::2]:
            damage(path, place=0.3)
        writer.write(openings=1, steps=30, cleans=seed == 1, policy="salvage" if seed in SALVAGED else "truncate")
        found.append(spool)
    return found


def partitions(*paths: Path | str) -> list[Partition]:
    return plan(locate([str(path) for path in paths]), partition_bytes=1)


def expected(spools: list[Path]) -> Answer:
    archives = sorted(path for spool in spools for path in spool.glob("*.archive"))
    found = plain.losses(rows_in(*spools), rows_in(*archives))
    names = [name for name in LOSSES if name != "effect"]
    return [{**{name: getattr(row, name) for name in names}, "effect": effect} for row, effect in found]


def test_the_losses_are_those_of_plain_loops_over_the_dump(spools: list[Path]) -> None:
    told = expected(spools)
    assert {row["effect"] for row in told} >= {"message lost", "undelivered again", "none"}
    archives = [path for spool in spools for path in spool.glob("*.archive")]

    found = losses.found_by(partial(local.fold, processes=1), partitions(*spools), partitions(*archives))

    found.validate(full=True)
    assert found.schema.equals(schema_of(LOSSES), check_metadata=True)
    assert_same_rows(plain_rows(found), told)


def test_they_are_counted_by_queue_operation_and_effect(spools: list[Path]) -> None:
    archives = [path for spool in spools for path in spool.glob("*.archive")]
    lost = losses.found_by(local.fold, partitions(*spools), partitions(*archives))

    found = losses.by_queue(lost)

    assert found.schema.equals(schema_of(LOSSES_BY_QUEUE), check_metadata=True)
    counts = {(row["database"], row["queue"], row["operation"], row["effect"]): row for row in plain_rows(found)}
    assert len(counts) == len(found)
    for key, row in counts.items():
        mine = [each for each in plain_rows(lost) if tuple(each[name] for name in losses._BY_QUEUE) == key]
        times = [each["time"] for each in mine]
        assert (row["operations"], row["bytes"]) == (len(mine), sum(each["length"] or 0 for each in mine))
        assert (row["first_time"], row["last_time"]) == (min(times), max(times))


def test_without_an_archive_nothing_is_lost_and_nothing_is_read(spools: list[Path]) -> None:
    partition = Partition(partitions(spools[0])[0].parts)

    def engine(partitions: Sequence[Partition], work: Work[T]) -> list[T]:
        assert not partitions, "no file is looked at"
        return [work(one.parts) for one in partitions]

    found = losses.found_by(engine, [partition], [])

    assert found.equals(schema_of(LOSSES).empty_table())
    assert losses.by_queue(found).num_rows == 0
