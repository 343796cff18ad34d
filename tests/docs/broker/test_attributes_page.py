"""The page on attributes names every attribute with its sections, values and defaults as the broker reads them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from oms_journal.broker.attributes.keywords import DEFAULTS_OF_OMS, KEYWORDS, SECTIONS, BadValue, Keyword
from oms_journal.broker.durations import MICROSECONDS
from tests.support.project import REPOSITORY
from tests.support.sweeps import for_each

PAGE = (REPOSITORY / "docs" / "reference" / "attributes.md").read_text(encoding="utf-8")
KNOWN = {keyword.name: keyword for keyword in KEYWORDS}
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Row(NamedTuple):
    names: str
    sections: str
    values: str
    default: str
    of_oms: str
    meaning: str


def _rows() -> Iterator[Row]:
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(Row._fields) and cells[0].startswith("`"):
            yield Row(*cells)


ROWS = {re.findall(r"`(.+?)`", row.names)[0]: row for row in _rows()}


def test_every_attribute_has_a_row_and_no_row_is_of_anything_else() -> None:
    assert ROWS.keys() == KNOWN.keys()
    assert len(list(_rows())) == len(ROWS)


@for_each("name", KNOWN)
def test_a_row_says_where_an_attribute_stands_and_what_counts_without_it(name: str) -> None:
    row, keyword = ROWS[name], KNOWN[name]

    assert re.findall(r"`(.+?)`", row.names) == [name, *keyword.short]
    assert row.sections.split(", ") == [section for section in SECTIONS if section in keyword.sections]
    assert row.default == (f"`{keyword.default}`" if keyword.default else "none")
    assert row.of_oms == (f"`{DEFAULTS_OF_OMS[name]}`" if name in DEFAULTS_OF_OMS else "")
    assert len(row.meaning.split()) >= 3


@for_each("name", KNOWN)
def test_a_row_says_which_values_an_attribute_takes(name: str) -> None:
    keyword, values = KNOWN[name], ROWS[name].values
    taken, refused = _probes(values)

    for value in taken:
        keyword.read(value)
    for value in refused:
        with pytest.raises(BadValue):
            keyword.read(value)
    assert ("`UNLIM`" in values) is _takes(keyword, "UNLIM") or values.startswith("text")


def _takes(keyword: Keyword, value: str) -> bool:
    try:
        keyword.read(value)
    except BadValue:
        return False
    return True


def _probes(values: str) -> tuple[list[str], list[str]]:
    """Return values that the cell says are taken, and values that it says are not."""
    kind, _, rest = values.partition(", ")
    if kind == "number":
        low, high = (int(each) for each in re.findall(r"\d+", rest.replace(",", "")))
        return [str(low), str(high)], [str(low - 1), str(high + 1), "some"]
    if kind == "size":
        low, high = (int(digits) * UNITS[unit] for digits, unit in re.findall(r"(\d+)([KMG]?)", rest))
        return [f"{low}B", f"{high}"], [str(low - 1), str(high + 1), "some"]
    if kind == "time":
        return (["0S", "90"], ["soon"]) if "0S" in rest else (["1S", "90"], ["0S", "soon"])
    if kind == "text":
        width = int(re.findall(r"\d+", rest.replace(",", ""))[0])
        return ["x" * width], ["x" * (width + 1)]
    if kind == "address":
        return ["host:1971:TCP"], ["host:1971", "host:1971:UDP", "host:0:TCP", f"{'h' * 32}:1971:TCP"]
    return re.findall(r"`(.+?)`", values), ["PERHAPS", ""]


def test_a_time_without_a_letter_is_in_seconds_unless_its_row_says_otherwise() -> None:
    for name, row in ROWS.items():
        if row.values.startswith("time"):
            seconds = 60 if "in minutes" in row.values else 1
            assert KNOWN[name].read("90") == 90 * seconds * MICROSECONDS
