"""No filter of Spark's loses a row or lets one through: with push-down the rows are those of the same query without."""

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from oms_journal import MessageDatabase
from oms_journal.analysis.reading.schema import TIME_MAX, TIME_MIN, Wanted
from oms_journal.analysis.spark.filters import narrowed
from oms_journal.analysis.spark.options import micros
from tests.support.disks.watched_disk import HandClock
from tests.support.journals.plain_rows import moment
from tests.support.journals.random_journal import QUEUES, RandomWriter
from tests.support.journals.source_calls import DEFAULT, Rows, load, reader, rows_of
from tests.support.sweeps import Share, a_sample, in_two_sizes

SEED = 5
FILE_BYTES = 12_584  # some eight files
Row = dict[str, Any]


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("filtered")
    RandomWriter(directory, SEED).write(openings=1, steps=70, cleans=False, max_data_file_size=FILE_BYTES)
    return directory


@pytest.fixture(scope="module")
def rows(spool: Path) -> Rows:
    return load(spool)


# The square of filters, called as Spark calls them.

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda one, other: one == other,
    GreaterThan: lambda one, other: one > other,
    GreaterThanOrEqual: lambda one, other: one >= other,
    LessThan: lambda one, other: one < other,
    LessThanOrEqual: lambda one, other: one <= other,
    StringStartsWith: lambda one, other: one.startswith(other),
    StringEndsWith: lambda one, other: one.endswith(other),
    StringContains: lambda one, other: other in one,
}


def holds(one: Any, row: Row) -> bool | None:
    """Return what SQL says of a row: None is unknown, and does not pass."""
    if isinstance(one, Not):
        inner = holds(one.child, row)
        return None if inner is None else not inner
    value = row[one.attribute[0]]
    if isinstance(one, IsNull | IsNotNull):
        return (value is None) == isinstance(one, IsNull)
    given: Any = _plain(one.value)
    if isinstance(one, EqualNullSafe):
        return bool(value == given)
    if isinstance(one, In):
        if value is None:
            return None
        return True if value in given else None if None in given else False
    return None if value is None or given is None else _COMPARISONS[type(one)](value, given)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return micros(value) if hasattr(value, "tzinfo") else value


def _values(rows: Rows, column: str, chance: random.Random) -> list[Any]:
    """Return what filters on a column may compare with: what is there, and what is not."""
    there = sorted({row[column] for row in rows} - {None})
    some = [there[0], there[-1], *chance.sample(there, min(3, len(there)))]
    if column == "time":
        return [moment(value) for value in (*some, some[0] - 1, some[1] + 1, TIME_MIN, TIME_MAX)]
    if isinstance(there[0], int):
        return [*some, there[0] - 1, there[-1] + 1, -(1 << 63), (1 << 63) - 1]
    return [*some, "none", "", "DEL", "o"]


def _filters(rows: Rows, column: str, chance: random.Random) -> Iterator[Filter]:
    name = (column,)
    values = _values(rows, column, chance)
    is_text = isinstance(values[0], str)
    kinds = [kind for kind in _COMPARISONS if is_text or not kind.__name__.startswith("String")]
    making: list[Any] = [*kinds, EqualNullSafe]
    for kind, value in itertools.product(making, values):
        yield kind(name, value)
    for count in range(4):
        several = tuple(chance.sample(values, count))
        yield In(name, several)
        yield In(name, (*several, None))
    yield from (IsNull(name), IsNotNull(name), EqualTo(name, None), EqualNullSafe(name, None), LessThan(name, None))


def _read(spool: Path, filters: Sequence[Filter], **options: Any) -> Rows:
    """Return the rows that are left; nothing is sent anywhere."""
    made = reader(spool, columns=DEFAULT, filters=filters, **options)
    return rows_of(batch for partition in made.partitions() for batch in made.read(partition))


@a_sample(1, more=2)
@pytest.mark.parametrize("column", ["time", "sequence", "commit", "operation", "queue", "message", "key", "length"])
def test_a_filter_and_its_negation_leave_every_row_that_passes(rows: Rows, spool: Path, column: str) -> None:
    chance = random.Random(column)
    for one in _filters(rows, column, chance):
        for each in (one, Not(one)):
            expected = [row for row in rows if holds(each, row)]
            assert [row for row in _read(spool, [each]) if holds(each, row)] == expected, each


@pytest.mark.whole
def test_filters_together_leave_every_row_that_passes_all_of_them(rows: Rows, spool: Path) -> None:
    chance = random.Random(SEED)
    columns = ("time", "sequence", "commit", "operation", "queue", "key")
    every = {column: list(_filters(rows, column, chance)) for column in columns}
    for _ in range(150):
        several = [chance.choice(every[chance.choice(columns)]) for _ in range(chance.randint(2, 4))]
        several = [Not(one) if chance.random() < 0.3 else one for one in several]
        expected = [row for row in rows if all(holds(one, row) for one in several)]
        found = _read(spool, several, queue="orders", toSequence=5)

        wanted = [row for row in expected if row["queue"] == "orders" and row["sequence"] <= 5]
        assert [row for row in found if all(holds(one, row) for one in several)] == wanted, several


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([EqualTo(("operation",), "ADD")], Wanted(operations=frozenset(("ADD",)))),
        ([Not(EqualTo(("operation",), "ADD"))], Wanted(operations=frozenset(("DELIVER", "DELETE", "PUT", "DROP")))),
        ([Not(In(("operation",), ("ADD", None)))], Wanted(operations=frozenset())),
        ([In(("queue",), ("a", "b", None)), EqualTo(("queue",), "b")], Wanted(queues=frozenset("b"))),
        ([IsNull(("queue",))], Wanted(operations=frozenset(("PUT", "DROP")))),
        ([IsNotNull(("message",))], Wanted(operations=frozenset(("ADD", "DELIVER", "DELETE")))),
        ([Not(EqualNullSafe(("queue",), "a"))], Wanted()),
        ([GreaterThan(("sequence",), 3), Not(GreaterThan(("sequence",), 8))], Wanted(sequences=(4, 8))),
        ([In(("commit",), (9, 4))], Wanted(commits=(4, 9))),
        ([GreaterThan(("time",), moment(5)), LessThanOrEqual(("time",), moment(9))], Wanted(since=6, until=10)),
        ([GreaterThanOrEqual(("time",), moment(TIME_MIN)), LessThanOrEqual(("time",), moment(TIME_MAX))], Wanted()),
        ([LessThan(("length",), 3)], Wanted()),
    ],
    ids=lambda given: str(given) if isinstance(given, list) else "",  # a set's text differs from run to run
)
def test_filters_become_bounds(filters: Sequence[Filter], left: Wanted) -> None:
    assert narrowed(Wanted(), filters) == left


def test_filters_leave_out_whole_files(spool: Path, rows: Rows) -> None:
    middle = sorted(row["time"] for row in rows)[len(rows) // 2]
    everything = reader(spool, maxPartitionBytes=1).partitions()
    for one in (GreaterThan(("time",), moment(middle)), LessThan(("sequence",), 3), EqualTo(("queue",), "none")):
        assert len(reader(spool, filters=[one], maxPartitionBytes=1).partitions()) < len(everything), one


def test_times_that_no_timestamp_holds_pass_as_the_first_and_the_last_one(tmp_path: Path) -> None:
    clock = HandClock()
    with MessageDatabase.open(tmp_path, clock=clock) as db:
        for time in (-(1 << 62), 5, 1 << 62):
            clock.now = time
            db.add("q", b"")
    shown = [row["time"] for row in load(tmp_path)]

    assert (len(shown), shown[0], shown[2]) == (3, TIME_MIN, TIME_MAX)
    for one in (GreaterThanOrEqual(("time",), moment(TIME_MIN)), LessThanOrEqual(("time",), moment(TIME_MAX))):
        assert [row["time"] for row in load(tmp_path, filters=[one])] == shown
    for bound, kind in ((TIME_MIN, EqualTo), (TIME_MAX, EqualTo), (TIME_MAX, GreaterThanOrEqual), (9, LessThan)):
        each = kind(("time",), moment(bound))
        found = [row["time"] for row in load(tmp_path, filters=[each]) if holds(each, row)]
        assert found == [time for time in shown if _COMPARISONS[kind](time, bound)], each


# The same through Spark, with literals of all kinds.


def _conditions(rows: Rows) -> list[str]:
    times = sorted(row["time"] for row in rows)
    early, late = (moment(times[int(place * len(times))]) for place in (0.3, 0.7))
    text = f"timestamp'{early.isoformat()}'"
    shifted = f"timestamp'{late.astimezone().isoformat().replace('+00:00', 'Z')}'"
    queue = QUEUES[2].replace("'", "\\'")
    on_time = [
        *(f"time {sign} {text}" for sign in ("=", "<=>", "<", "<=", ">", ">=", "<>")),
        *(f"time in ({text}, {shifted})", f"time not in ({text}, {shifted})", f"time in ({text}, null)", "time = null"),
        *(
            f"not (time < {text})",
            f"time > '{early:%Y-%m-%d %H:%M:%S.%f}'",
            f"time >= '{late:%Y-%m-%d %H:%M:%S}+05:30'",
        ),
    ]
    on_names = [
        *(
            "operation <> 'DELIVER'",
            "operation >= 'DELIVER'",
            "operation in ('ADD', 'PUT')",
            "operation not in ('ADD', null)",
        ),
        *("operation like 'DE%'", "operation not like '%ER'", "operation is null", "not (operation <=> null)"),
        *(f"queue {sign} '{queue}'" for sign in ("=", "<=>", "<>")),
        *(
            "queue is null",
            "queue is not null",
            "queue <=> null",
            "not (queue <=> 'orders')",
            "queue in ('orders', null)",
        ),
        *(
            "queue not in ('orders', 'bills')",
            "queue like 'o%'",
            "key = 'state'",
            "message is null",
            "not (message > 5)",
        ),
    ]
    on_numbers = [
        *("sequence = 4", "sequence <> 4", "sequence < 4", "not (sequence <= 4)", "sequence in (2, 5, null)"),
        *("sequence not in (2, 5)", "sequence > 3.5", "sequence = '3'", "commit between 10 and 20"),
    ]
    together = [
        f"operation = 'ADD' and queue = 'orders' and time >= {text} and sequence < 6",
        "operation = 'ADD' or queue = 'bills'",
        "not (operation = 'ADD' or queue = 'bills')",
    ]
    return [*on_time, *on_names, *on_numbers, *together]


def _form_of(condition: str) -> str:
    """Return the condition without what it compares, and with what."""
    return " ".join(re.findall(r"[<=>]+|\b(?:and|between|in|is|like|not|null|or)\b", condition))


@pytest.mark.whole
@in_two_sizes
def test_with_push_down_spark_finds_the_same_rows(spool: Path, rows: Rows, spark: SparkSession, share: Share) -> None:
    """In the sample is one condition of each form."""
    mark = F.xxhash64("sequence", "offset", "message", "key", "operation")

    def marks(frame: DataFrame, place: int) -> DataFrame:
        return frame.select(F.lit(place).alias("place"), mark.alias("mark"))

    def loaded(*, pushes: bool) -> DataFrame:
        return spark.read.format("omsjournal").option("pushFilters", pushes).load(str(spool))

    conditions = share.of(_conditions(rows), 10, kind=_form_of)
    everything = loaded(pushes=False)
    verdicts = everything.select(mark, *(F.expr(condition) for condition in conditions)).collect()
    reference = {place: sorted(row[0] for row in verdicts if row[place + 1]) for place in range(len(conditions))}
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed = [marks(loaded(pushes=True).where(condition), place) for place, condition in enumerate(conditions)]
        found = _by_place(_union(pushed))
        assert loaded(pushes=True).count() == len(rows)
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")

    for place, condition in enumerate(conditions):
        assert found.get(place, []) == reference[place], condition
    assert sum(1 for one in reference.values() if 0 < len(one) < len(rows)) > len(conditions) / 2
    assert loaded(pushes=True).where(conditions[0]).count() == len(reference[0]), "the setting is off"


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return all of them as one; Spark looks at every half again, so it is not done one by one."""
    middle = len(frames) // 2
    return _union(frames[:middle]).union(_union(frames[middle:])) if middle else frames[0]


def _by_place(marks: DataFrame) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for place, mark in marks.collect():
        found.setdefault(place, []).append(mark)
    return {place: sorted(several) for place, several in found.items()}
