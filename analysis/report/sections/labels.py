"""How the page calls queues; with several databases the beginning of an identity follows the name."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.tables import Row, Tables

KEYS = "keys (PUT, DROP)"
DATABASE_SHOWN = 8  # hexadecimal digits of an identity, where there are several databases


def labelled(table: pa.Table, facts: Facts) -> pa.ChunkedArray:
    """Return how the page calls each row's queue."""
    queues = pc.fill_null(table["queue"], KEYS)
    if not facts.has_several:
        return queues
    short = pc.utf8_slice_codeunits(table["database"], 0, DATABASE_SHOWN)
    return pc.binary_join_element_wise(queues, pc.binary_join_element_wise("(", short, ")", ""), " ")


def with_label(row: Row, facts: Facts, name: str = "queue") -> dict[str, Any]:
    """Return the row with its label; `name` is the column that says what it is of."""
    label = row[name] if row[name] is not None else KEYS
    return {**row, "label": f"{label} ({row['database'][:DATABASE_SHOWN]})" if facts.has_several else label}


def rows_with_labels(table: pa.Table, facts: Facts) -> list[dict[str, Any]]:
    """Return the rows, each with its label."""
    rows: list[dict[str, Any]] = table.append_column("label", labelled(table, facts)).to_pylist()
    return rows


def lifecycle(tables: Tables, facts: Facts) -> list[dict[str, Any]]:
    """Return what became of the messages of each queue."""
    return rows_with_labels(tables.read("lifecycle"), facts)
