"""The fold on this machine: in this process, in a pool of processes, interrupted, and with files that are not whole."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.analysis.fold import engine, local
from oms_journal.analysis.fold.asked import Asked, asked, micros
from oms_journal.analysis.fold.engine import T, Work
from oms_journal.analysis.fold.partial import folded
from oms_journal.analysis.reading.parts import FilePart, Partition
from oms_journal.analysis.reading.plan import plan
from oms_journal.analysis.storage import NoJournal, locate
from oms_journal.journal.format.footer import MAGIC
from tests.support.journals.analysed import files_table
from tests.support.journals.folded import EVERY, expected
from tests.support.journals.plain_rows import assert_same_rows, files_in, moment, plain_rows, rows_in
from tests.support.journals.random_journal import RandomWriter, damage
from tests.support.sweeps import sampled


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    writer = RandomWriter(tmp_path_factory.mktemp("local") / "spool", 7, has_terms=True)
    writer.write()
    return writer.spool


NOW = 1 << 51
ASKED = Asked(every=EVERY)


def test_a_pool_of_processes_gives_the_same_tables_as_one_process(spool: Path) -> None:
    partitions = plan(locate([str(spool)]), partition_bytes=1)
    pool = partial(local.fold, processes=2, pool_bytes_min=0)
    assert len(partitions) > 4

    found = engine.told(pool, partitions, ASKED, NOW)

    assert found == local.answers([str(spool)], ASKED, now=NOW)


def test_a_pool_keeps_its_processes_for_all_passes(spool: Path) -> None:
    partitions = plan(locate([str(spool)]), partition_bytes=1)

    with local.Pool(2, pool_bytes_min=0) as pool:
        pool.begin(0)
        first, second = ({process for process in pool(partitions, process_of)} for _ in range(2))

    assert len(first | second) <= 2
    assert os.getpid() not in first | second


def process_of(_: Sequence[FilePart]) -> int:
    return os.getpid()


def test_a_pool_that_is_left_early_ends_its_processes(spool: Path) -> None:
    partitions = plan(locate([str(spool)]), partition_bytes=1)

    for _ in local.fold(partitions, partial(folded, asked=ASKED, aside={}), processes=2, pool_bytes_min=0):
        break


def test_the_answers_about_a_path_are_those_of_plain_loops(spool: Path) -> None:
    found = local.answers([str(spool)], ASKED, now=NOW)

    plain = expected(rows_in(spool), files_in(spool), ASKED, NOW) | {"files": files_table(spool)}
    for name, table in found.items():
        assert_same_rows(plain_rows(table), plain[name])


@pytest.mark.parametrize("count", [256, 300])
def test_many_queues_are_told_apart_as_few_are(tmp_path: Path, count: int) -> None:
    """As many as a byte can number, and more."""
    spool = tmp_path / "spool"
    with MessageDatabase.open(spool) as db:
        for turn in range(2):
            with db.commit() as commit:
                for queue in range(count - turn):
                    commit.add(f"queue-{queue:03}", bytes(queue % 7))
            with db.commit() as commit:
                for number in list(db.numbers())[:: turn + 2]:
                    commit.deliver(number) if number % 5 else commit.delete(number)
            db.put("key", b"value")

    found = local.answers([str(spool)], ASKED, now=NOW)

    plain = expected(rows_in(spool), files_in(spool), ASKED, NOW) | {"files": files_table(spool)}
    for name, table in found.items():
        assert_same_rows(plain_rows(table), plain[name])
    assert found["lifecycle"].num_rows == count


def test_what_is_asked_with_times_and_texts(spool: Path) -> None:
    times = sorted(row.time for row in rows_in(spool))
    since, until = (moment(times[place * len(times) // 3]) for place in (1, 2))

    found = asked(["rate"], since=since, until=until, queues=["orders"])

    assert found == Asked(
        questions=frozenset(["rate"]), since=micros(since), until=micros(until), queues=frozenset(["orders"])
    )
    with pytest.raises(ValueError, match="no time zone"):
        asked(since=since.replace(tzinfo=None))
    with pytest.raises(ValueError, match="no fold answers weather"):
        asked(["weather"])
    with pytest.raises(ValueError, match="at least a microsecond"):
        Asked(every=0)
    with pytest.raises(ValueError, match="at least one bin"):
        Asked(bins_a_decade=0)


def test_the_fold_needs_neither_spark_nor_java(spool: Path) -> None:
    lines = (
        "import sys",
        "from oms_journal.analysis.fold.asked import Asked",
        "from oms_journal.analysis.fold.local import answers",
        "answers([sys.argv[1]], Asked(), now=1)",
        "assert not {'pyspark', 'py4j'} & set(sys.modules)",
    )
    program = "\n".join(lines)

    done = subprocess.run([sys.executable, "-c", program, str(spool)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_path_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoJournal):
        local.answers([str(tmp_path)], ASKED, now=NOW)


@pytest.mark.parametrize("seed", sampled(range(3), 1))
def test_what_is_doubtful_after_damage_is_folded_once_more(tmp_path: Path, seed: int) -> None:
    """Salvaged, and without footers: ADDs are missing in files that are there, and their ends are not."""
    writer = RandomWriter(tmp_path / "spool", seed)
    writer.write(openings=2)
    for path in [path for path in sorted(writer.spool.glob("*.data")) if rows_in(path)][1::2]:
        damage(path, place=0.3)
        path.write_bytes(path.read_bytes()[: path.read_bytes().rindex(MAGIC)])
    writer.write(openings=1, steps=60, cleans=False, policy="salvage")
    turns: list[object] = []

    def counted(partitions: Sequence[Partition], work: Work[T]) -> Iterator[T]:
        turns.append(work)
        yield from local.fold(partitions, work, processes=1)

    found = engine.answers(counted, [str(writer.spool)], ASKED, now=NOW)

    plain = expected(rows_in(writer.spool), files_in(writer.spool), ASKED, NOW) | {"files": files_table(writer.spool)}
    for name, table in found.items():
        assert_same_rows(plain_rows(table), plain[name])
    assert len(turns) == 2 + (seed > 0)  # and once for duplicates
