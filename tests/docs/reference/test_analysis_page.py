"""The page on the analysis is what the code says: options, columns and questions."""

import re

import pytest

from oms_journal.analysis import questions
from oms_journal.analysis.reading.plan import PARTITION_BYTES
from oms_journal.analysis.spark import options
from tests.docs.reference.analysis import OPTIONS, PAGE, asked, found, parts

TEXT = PAGE.read_text(encoding="utf-8")
TABLES = re.findall(r"^### Options of ([^\n]+)\n(.+?)(?=^###)", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("part", parts())
def test_what_is_between_marks_is_what_the_code_says(part: str) -> None:
    assert found(part) == parts()[part], "write it anew: python -m tests.docs.reference.analysis"


def test_every_option_has_a_row_and_every_row_is_an_option() -> None:
    rows = [name for _, table in TABLES for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for name in
            re.findall(r"`([\w.…]+)`", row)]  # fmt: skip

    assert sorted(rows) == sorted([*OPTIONS, "storage.…"])


def test_the_options_of_operations_are_those_that_another_table_refuses() -> None:
    (table,) = [table for name, table in TABLES if "operations" in name]
    rows = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)

    assert {name.lower() for row in rows for name in re.findall(r"`(\w+)`", row)} == options._OF_OPERATIONS


def test_the_defaults_are_those_of_the_code() -> None:
    plain = options.parse({"path": "spool"})
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|\s][^|]*?) \|", "".join(table for _, table in TABLES), re.MULTILINE))

    assert told == {
        "table": f"`{plain.table}`",
        "terms": f"`{str('terms' in plain.shown).lower()}`",
        "mode": f"`{plain.mode.value}`",
        "maxPartitionBytes": f"{PARTITION_BYTES >> 20} MiB",
        "verify": f"`{str(plain.verifies).lower()}`",
        "startingOffsets": "`latest`" if plain.starts_latest else "`earliest`",
        "onMissing": "`gap`" if plain.shows_gaps else "`fail`",
    }


def test_every_question_has_its_heading() -> None:
    headings = re.findall(r"^### (.+)$", found("questions"), re.MULTILINE)

    assert headings == list(questions.QUESTIONS) == list(asked())
