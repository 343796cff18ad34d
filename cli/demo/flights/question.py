"""The demo's own question to Spark: how late the flights of each airline arrived, from the messages' payloads alone.

Rows as in `delays.py`, and a section of the report's page that shows them beside what the table of
flights gives in plain Python.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis import wording
from oms_journal.analysis.answers import Ranked, Row
from oms_journal.analysis.described import answers
from oms_journal.analysis.extras import Extra
from oms_journal.analysis.journals import Request
from oms_journal.analysis.listing import Column as Heading
from oms_journal.analysis.listing import count_column, listing, name_column
from oms_journal.analysis.markup import Html, tag
from oms_journal.analysis.plots import Bins
from oms_journal.analysis.scales import Span
from oms_journal.analysis.schema import ddl
from oms_journal.analysis.spreads import Spread, spread_column
from oms_journal.analysis.verdicts import Name, Question, Verdict
from oms_journal.cli.demo.flights.delays import LATE_MINUTES, SHARES, differences

SPREAD_MINUTES = (-60, 180)  # what is drawn; what lies outside stands at the ends
STEP_MINUTES = 5
QUESTION = Question("late", "How late did the flights arrive?", "Late arrivals")
TABLE = "arrival_delays"
TICK_MINUTES = 60
COLUMNS = ("operation", "moved", "queue", "payload")  # that the question looks at
_PAYLOAD = "carrier string, arr_time int, arr_delay int"  # of the rows of the table that the messages are


@answers(
    {
        "carrier": "code of the airline, from the name of its queue",
        "arrived": "flights with an arrival on record",
        "delivered": "messages of the queue that were delivered: as many",
        "known": "of these, the flights whose delay is on record",
        "minutes": "all their delays added up, early ones as negative numbers",
        "mean": "minutes a flight",
        "p10": "minutes late that 10 of 100 flights do not exceed; negative: they were early",
        "p50": "likewise, 50 of 100",
        "p90": "likewise, 90 of 100",
        "p99": "likewise, 99 of 100",
        "longest": "the longest delay, minutes",
        "late": f"flights that came more than {LATE_MINUTES} minutes late",
        "misplaced": "messages on the airline's queue whose payload names another airline, or none",
        "delays": "how many flights had which delay, by whole minutes in order: minutes and flights",
    }
)
def arrival_delays(operations: DataFrame) -> DataFrame:
    """Return one row an airline, from operations with their payloads: rows of the table as JSON.

    A message that compaction has written again is looked at where it stood first.
    """
    is_add = (F.col("operation") == "ADD") & ~F.col("moved")
    flight = F.from_json(F.when(is_add, F.col("payload").cast("string")), _PAYLOAD)
    parsed = (
        operations.where(is_add | (F.col("operation") == "DELIVER"))
        .select("queue", is_add.alias("is_add"), F.inline(F.array(flight)))  # taken apart once, not once a field
        .withColumn("arrives", F.col("arr_time").isNotNull())
        .withColumn("misplaced", F.col("is_add") & ~F.col("carrier").eqNullSafe(F.col("queue")))
    )
    delay = F.when(F.col("arrives"), F.col("arr_delay")).alias("delay")
    by_delay = parsed.groupBy(F.col("queue").alias("carrier"), delay).agg(
        F.count_if("arrives").alias("flights"),
        F.count_if(~F.col("is_add")).alias("delivered"),
        F.count_if("misplaced").alias("misplaced"),
    )
    return by_delay.groupBy("carrier").agg(*_figures()).where((F.col("arrived") > 0) | (F.col("delivered") > 0))


def _figures() -> list[Column]:
    """Return an airline's figures, from how many flights had which delay."""
    delay, flights = F.col("delay"), F.col("flights")
    known = F.when(delay.isNotNull(), flights)
    step = F.when(known.isNotNull(), F.struct(delay.alias("minutes"), "flights"))
    return [
        F.sum(flights).alias("arrived"),
        F.sum("delivered").alias("delivered"),
        F.coalesce(F.sum(known), F.lit(0)).alias("known"),
        F.sum(delay * flights).alias("minutes"),
        (F.sum(delay * flights) / F.sum(known)).alias("mean"),
        *[F.percentile(delay, F.lit(share), flights).alias(name) for name, share in SHARES.items()],
        F.max(delay).alias("longest"),
        F.coalesce(F.sum(F.when(delay > LATE_MINUTES, flights)), F.lit(0)).alias("late"),
        F.sum("misplaced").alias("misplaced"),
        F.array_sort(F.collect_list(step)).alias("delays"),
    ]


class Lateness:
    """The question as the report asks it, and how its answer differs from what plain Python makes of the table."""

    def __init__(self, expected: Sequence[Row]) -> None:
        self._expected = expected
        self.differences: list[str] = []

    def extra(self) -> Extra:
        """Return the question for a report."""
        return Extra(
            name=TABLE,
            meaning="how late the flights of each airline arrived, from the messages' payloads",
            answer=_asked,
            verdict=self._verdict,
            section=_section,
        )

    def _verdict(self, rows: Sequence[Row]) -> Verdict:
        self.differences = differences(rows, self._expected)
        known = sum(row["known"] for row in rows)
        if not known:
            return Verdict(QUESTION, ["No arrival is on record.", *self._compared()], "none")
        mean = sum(row["minutes"] or 0 for row in rows) / known
        late = wording.share(sum(row["late"] for row in rows), known)
        worst = max((row for row in rows if row["known"]), key=lambda row: row["mean"])
        sentence = [
            f"{known:,} flights arrived {_minutes(mean)} on average; {late} of them came more than "
            f"{LATE_MINUTES} minutes late. Of the airlines ",
            Name(worst["carrier"]),
            f" was the latest, {_minutes(worst['mean'])} on average.",
            *self._compared(),
        ]
        detail = f"more than {LATE_MINUTES} minutes; {_minutes(mean)} on average"
        return Verdict(QUESTION, sentence, late, (detail,), "bad" if self.differences else "")

    def _compared(self) -> list[str]:
        if not self.differences:
            return [" Spark has read that from the messages, and the table of flights gives the same figures."]
        count = wording.counted(len(self.differences), "figure differs", "figures differ")
        return [f" But {count} from what the table of flights gives: {self.differences[0]}."]


def _asked(spark: SparkSession, request: Request) -> DataFrame:
    columns = spark.read.format("omsjournal").schema(ddl(COLUMNS)).option("operation", "ADD,DELIVER")
    return arrival_delays(columns.load(list(request.paths)))


def _minutes(late: float) -> str:
    return f"{wording.number(abs(late))} minutes {'late' if late >= 0 else 'early'}"


def _section(rows: Sequence[Row]) -> list[Html]:
    first, last = SPREAD_MINUTES
    axis = Span(first, last, TICK_MINUTES, _tick)

    def spread(row: Row) -> Spread:
        said = f"half by {_minutes(row['p50'])}, 9 of 10 by {_minutes(row['p90'])}" if row["known"] else "unknown"
        return Spread(bins=_bins(row), marks=[row["p50"], row["p90"]] if row["known"] else [], said=said)

    ranked = sorted(rows, key=lambda row: (row["p50"] is None, -(row["p50"] or 0), row["carrier"]))
    columns = (
        name_column("Airline", "carrier"),
        spread_column("Minutes late", axis, spread, lambda row: row["p50"]),
        _minutes_column("Mean", "mean"),
        _minutes_column("p10", "p10", "minutes late: 10 of 100 flights came at this time or earlier"),
        _minutes_column("p50", "p50", "half of the flights"),
        _minutes_column("p90", "p90", "90 of 100"),
        _minutes_column("p99", "p99", "99 of 100"),
        _minutes_column("Longest", "longest"),
        Heading("Late", _late, _late_share, f"by more than {LATE_MINUTES} minutes", is_number=True),
        count_column("Arrived", "arrived", "flights with an arrival on record"),
    )
    note = (
        f"How many flights came how late: {-first} minutes early at the left, {last} minutes late at the right, and "
        f"whoever was earlier or later stands at the ends. The lines stand at p50 and p90."
    )
    table = listing("Airlines, the latest first", columns, Ranked(ranked, len(ranked)), table=TABLE)
    return [tag("p", note, class_="quiet"), table]


def _tick(minutes: float) -> str:
    return _signed(f"{minutes:+.0f} min") if minutes else "on time"


def _signed(text: str) -> str:
    return text.replace("-", "−")


def _bins(row: Row) -> Bins:
    """Return an airline's flights by steps of minutes."""
    first, last = SPREAD_MINUTES
    counts: dict[int, int] = {}
    for each in row["delays"]:
        start = min(max(each["minutes"], first), last - 1) // STEP_MINUTES * STEP_MINUTES
        counts[start] = counts.get(start, 0) + each["flights"]
    return [(start, start + STEP_MINUTES, count) for start, count in counts.items()]


def _minutes_column(title: str, field: str, hint: str = "") -> Heading:
    def text(row: Row) -> str:
        return "" if row[field] is None else _signed(wording.number(row[field]))

    return Heading(title, text, lambda row: row[field], hint or "minutes late", is_number=True)


def _late(row: Row) -> str:
    return wording.share(row["late"], row["known"])


def _late_share(row: Row) -> float | None:
    return row["late"] / row["known"] if row["known"] else None
