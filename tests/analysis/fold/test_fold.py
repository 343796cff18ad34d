"""Every answer of a fold, on journals that random operations wrote, is what plain loops over `dump` answer."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oms_journal.analysis.fold.answers import ANSWERS, schema_of
from oms_journal.analysis.fold.asked import QUESTIONS, Asked
from oms_journal.analysis.fold.engine import Beside, Engine, T, Work, decoded, encoded, told
from oms_journal.analysis.reading.parts import FilePart, Partition
from tests.support.journals.analysed import files_table
from tests.support.journals.folded import EVERY, expected, parts_of
from tests.support.journals.plain_answers import moves_in
from tests.support.journals.plain_rows import (
    Answer,
    File,
    Row,
    assert_same_rows,
    database_of,
    files_in,
    plain_rows,
    rows_in,
)
from tests.support.journals.random_journal import QUEUES, RandomWriter
from tests.support.sweeps import a_sample, sampled

SEEDS = range(4)


@dataclass(frozen=True, slots=True)
class Journals:
    """Journals of several databases, with what clean-up has moved away."""

    rows: list[Row]
    files: list[File]
    parts: list[FilePart]
    now: int
    table: Answer  # of files
    plain: dict[Asked, dict[str, Answer]] = field(default_factory=dict)  # what was asked already


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Journals:
    directory = tmp_path_factory.mktemp("journals")
    rows: list[Row] = []
    files: list[File] = []
    spools: list[Path] = []
    now = 0
    for seed in SEEDS:
        spool = directory / f"spool-{seed}"
        is_kept = seed % 2 == 0  # what clean-up moves away; the others are known from where they begin
        writer = RandomWriter(spool, seed, retention=directory / "retention" if is_kept else None, has_terms=seed > 1)
        writer.write()
        moved_away = directory / "retention" / database_of(spool)
        rows += [*(rows_in(moved_away) if moved_away.exists() else ()), *rows_in(spool)]
        files += files_in(spool)
        spools.append(spool)
        now = max(now, writer.clock.now)
    parts = parts_of(*spools, directory / "retention")
    assert any(row.moved for row in rows)
    assert any(row.due for row in rows)
    assert any(row.expiry for row in rows)
    assert moves_in(rows)
    return Journals(rows, files, parts, now + 10**9, files_table(*spools, directory / "retention"))


def answers(journals: Journals, asked: Asked, engine: Engine) -> dict[str, pa.Table]:
    return told(engine, [Partition(tuple(journals.parts))], asked, journals.now)


def at_once(partitions: Sequence[Partition], work: Work[T]) -> list[T]:
    """Fold everything as one part."""
    [partition] = partitions
    return [work(partition.parts)]


def assert_as_expected(journals: Journals, asked: Asked, found: dict[str, pa.Table]) -> None:
    if asked not in journals.plain:
        journals.plain[asked] = expected(journals.rows, journals.files, asked, journals.now)
    plain = journals.plain[asked] | {"files": journals.table}
    assert found.keys() == asked.questions
    for name, table in found.items():
        table.validate(full=True)
        assert table.schema.equals(schema_of(ANSWERS[name]), check_metadata=True)
        try:
            assert_same_rows(plain_rows(table), plain[name])
        except AssertionError as failure:
            raise AssertionError(f"{name}: {failure}") from failure


def periods(journals: Journals) -> list[Asked]:
    times = sorted(row.time for row in journals.rows)
    early, late = times[len(times) // 3], times[2 * len(times) // 3]
    return [
        Asked(every=EVERY),
        Asked(every=EVERY, since=early),
        Asked(every=EVERY, until=late),
        Asked(every=EVERY, since=early, until=late),
        Asked(every=EVERY, since=early, until=late, queues=frozenset(QUEUES[:2])),
        Asked(every=EVERY, queues=frozenset(("none",))),
    ]


@a_sample(2)
@pytest.mark.parametrize("place", range(6))
def test_a_fold_answers_what_plain_loops_answer_for_every_period(journals: Journals, place: int) -> None:
    asked = periods(journals)[place]

    found = answers(journals, asked, at_once)

    assert_as_expected(journals, asked, found)


def test_what_expired_and_what_became_a_dead_letter_is_told_apart_where_a_message_may_be_both(
    journals: Journals,
) -> None:
    asked = Asked(questions=frozenset(("lifecycle",)))

    found = plain_rows(answers(journals, asked, at_once)["lifecycle"])

    expired, dead_lettered, deleted = ([row[name] for row in found] for name in ("expired", "dead_lettered", "deleted"))
    assert 0 < sum(expired) < sum(deleted)
    assert 0 < sum(dead_lettered) < sum(deleted)
    assert any(one > both for one, both in zip(expired, dead_lettered, strict=True))


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_is_asked_alone_has_the_same_answer(journals: Journals, question: str) -> None:
    asked = Asked(every=EVERY, questions=frozenset((question,)))

    found = answers(journals, asked, at_once)

    assert_as_expected(journals, asked, found)


def in_pieces(parts: Sequence[FilePart], chance: random.Random, fold: Callable[[FilePart], Any]) -> Any:
    """Fold the parts one by one, and put them together in a tree of any shape."""
    if len(parts) == 1:
        return decoded(encoded(fold(parts[0])))
    middle = chance.randrange(1, len(parts))
    found = in_pieces(parts[:middle], chance, fold)
    found.merge(in_pieces(parts[middle:], chance, fold))
    return found


@pytest.mark.parametrize("seed", sampled(range(5), 2))
def test_it_does_not_matter_how_the_files_are_split(journals: Journals, seed: int) -> None:
    chance = random.Random(seed)
    asked = periods(journals)[chance.choice((0, 3))]

    def in_some_tree(_: Sequence[Partition], work: Work[T]) -> list[T]:
        found: Any = in_pieces(journals.parts, chance, lambda part: work([part]))
        assert not found.doubtful()
        return [found]

    assert_as_expected(journals, asked, answers(journals, asked, in_some_tree))


@pytest.mark.parametrize("count", (1, 7))
def test_what_is_open_may_be_put_together_in_parts_by_number(journals: Journals, count: int) -> None:
    asked = Asked(every=EVERY)

    def in_two_stages(_: Sequence[Partition], work: Work[T]) -> list[T]:
        found: list[Any] = [work([part]) for part in journals.parts]
        handed = [one.hand_over(count) for one in found]
        for parts in handed[1:]:
            for one, later in zip(handed[0], parts, strict=True):
                one.merge(later)
        return [*found, *handed[0]]

    assert_as_expected(journals, asked, answers(journals, asked, in_two_stages))


def test_other_work_is_done_beside_a_fold_in_its_first_pass(journals: Journals) -> None:
    asked = Asked(every=EVERY)
    passes: list[int] = []
    seen: list[int] = []

    def counted(partitions: Sequence[Partition], work: Work[T]) -> list[T]:
        passes.append(len(partitions))
        return [work(partition.parts) for partition in partitions]

    partitions = [Partition((part,)) for part in journals.parts]
    found = told(Beside(counted, _sequences, seen.extend), partitions, asked, journals.now)

    assert_as_expected(journals, asked, found)
    assert passes == [len(partitions)] * 2  # a second time for duplicates
    assert seen == [part.sequence for part in journals.parts]


def _sequences(parts: Sequence[FilePart]) -> list[int]:
    return [part.sequence for part in parts]
