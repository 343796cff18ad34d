"""How late the flights of each airline arrived: from the table of flights, in plain Python, to compare with Spark's.

carrier      the airline's code, which is the name of its queue
arrived      flights with an arrival on record
delivered    messages that were delivered: as many
known        of these, the flights whose delay is on record: those that were diverted have none
minutes      all their delays added up; who comes early takes from it
mean         minutes a flight
p10 … p99    the delay in minutes that so many of 100 flights do not exceed, between two flights where it falls
             between them
longest      minutes
late         flights that came more than 15 minutes late
misplaced    messages on the airline's queue whose payload names another airline, or none
delays       how many flights had which delay, by whole minutes in order: {minutes, flights}
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oms_journal.cli.demo.flights.table import Flights
from oms_journal.cli.output import counted

LATE_MINUTES = 15  # from then on a flight is called late
SHARES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99}
CLOSE = 1e-9  # two sums of the same numbers in another order

Row = Mapping[str, Any]


def delays(flights: Flights) -> list[Row]:
    """Return one row for each airline of which a flight has arrived, by its code."""
    arrived: Counter[str] = Counter()
    known: dict[str, list[int]] = {}
    for carrier, minutes in flights.arrivals():
        arrived[carrier] += 1
        if minutes is not None:
            known.setdefault(carrier, []).append(minutes)
    return [_row(carrier, arrived[carrier], sorted(known.get(carrier, ()))) for carrier in sorted(arrived)]


def differences(found: Iterable[Row], expected: Sequence[Row]) -> list[str]:
    """Return in words where Spark's figures are not those of the table."""
    by_carrier = {row["carrier"]: row for row in found}
    texts = []
    for row in expected:
        other = by_carrier.pop(row["carrier"], None)
        if other is None:
            texts.append(f"arrival delays: Spark has none of {row['carrier']}")
            continue
        texts += [
            f"arrival delays of {row['carrier']}: {_told(name, other[name], value)}"
            for name, value in row.items()
            if not _is_same(value, other[name])
        ]
    return texts + [f"arrival delays: Spark has {carrier}, the table has not" for carrier in by_carrier]


def _row(carrier: str, arrived: int, minutes: Sequence[int]) -> Row:
    total, known = sum(minutes), len(minutes)
    return {
        "carrier": carrier,
        "arrived": arrived,
        "delivered": arrived,
        "known": known,
        "minutes": total if known else None,
        "mean": total / known if known else None,
        **{name: _at(minutes, share) for name, share in SHARES.items()},
        "longest": minutes[-1] if known else None,
        "late": sum(each > LATE_MINUTES for each in minutes),
        "misplaced": 0,
        "delays": [{"minutes": late, "flights": count} for late, count in sorted(Counter(minutes).items())],
    }


def _at(ascending: Sequence[int], share: float) -> float | None:
    """Return the value at a share of the ranks, between two neighbours where it lies between them."""
    if not ascending:
        return None
    rank = share * (len(ascending) - 1)
    low, high = math.floor(rank), math.ceil(rank)
    return ascending[low] + (rank - low) * (ascending[high] - ascending[low])


def _told(name: str, by_spark: Any, by_table: Any) -> str:
    if name != "delays":
        return f"{name} is {by_spark} by Spark and {by_table} by the table"
    there, here = ({step["minutes"]: step["flights"] for step in steps} for steps in (by_spark, by_table))
    late = min(minutes for minutes in {*there, *here} if there.get(minutes) != here.get(minutes))
    counts = [counted(each.get(late, 0), "flight") for each in (there, here)]
    return f"{counts[0]} {late} minutes late by Spark, {counts[1]} by the table"


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(one == other)
