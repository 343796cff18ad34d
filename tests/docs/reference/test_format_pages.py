"""The pages on the format are as the code has them, can be read in one go, and leave nothing to the code."""

import importlib
import re
from pathlib import Path

import pytest

from tests.docs.reference.format_pages import BYTES, READING, SMALLEST, verdicts, written
from tests.support.journals.annotated import as_bytes
from tests.support.journals.format_tables import PAGES, markdown_tables

LINES_MAX = 300  # of the page on the bytes
WORDS_MAX = 25  # of a sentence, and of what stands between two semicolons in the cell of a table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_and_example_are_those_of_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text == written(page, text), "write them anew: python -m tests.docs.reference.format_pages"


def test_the_table_of_verdicts_is_that_of_recovery() -> None:
    assert verdicts() in markdown_tables(READING.read_text(encoding="utf-8"))


def test_the_page_on_the_bytes_is_short() -> None:
    assert len(BYTES.read_text(encoding="utf-8").splitlines()) <= LINES_MAX


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_sentence_is_long(page: Path) -> None:
    long = [one for one in _sentences(page.read_text(encoding="utf-8")) if len(one.split()) > WORDS_MAX]

    assert not long


def _sentences(text: str) -> list[str]:
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    cells = [cell for rows in markdown_tables(text) for row in rows for cell in row]
    prose = [re.sub(r"^(- |\d+\. )", "", line) for line in text.splitlines() if not line.startswith("|")]
    parts = [part for line in prose for part in re.split(r"(?<=[.!?:])\s+", line)]
    return parts + [part for cell in cells for part in re.split(r"[.;:] ", cell)]


def test_the_example_has_every_byte_of_the_smallest_file() -> None:
    example = BYTES.read_text(encoding="utf-8").split("<!-- dump:begin -->")[1].split("<!-- dump:end -->")[0]
    data = bytearray()

    for line in example.splitlines():
        place = re.match(r"# <(\d+)>", line)
        assert place is None or int(place[1]) == len(data), line
        if line.endswith("the 256 bytes that stand at 0, again"):
            data += data[:256]
        for one, times in re.findall(r"\b([0-9a-f]{2})(?: \*(\d+))?", "" if "`" in line else line.split("#")[0]):
            data += bytes.fromhex(one) * int(times or 1)

    assert data == as_bytes(SMALLEST.read_text(encoding="utf-8"))


def test_each_check_of_the_appendix_is_where_it_says() -> None:
    (rows,) = [rows for rows in markdown_tables(READING.read_text(encoding="utf-8")) if rows[0][-1] == "checked by"]

    for *_, place in rows[1:]:
        names = place.strip("`").split(".")
        room = next(at for at in range(len(names), 0, -1) if names[at - 1].islower() and _module(names[:at]))
        found: object = importlib.import_module(".".join(["oms_journal", *names[:room]]))
        for name in names[room:]:
            found = getattr(found, name)
        assert callable(found), place


def _module(names: list[str]) -> bool:
    try:
        importlib.import_module(".".join(["oms_journal", *names]))
    except ModuleNotFoundError:
        return False
    return True


def test_what_the_old_page_lacked_is_said() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)

    for said in (
        "of 34 and 35: how many *bytes*",
        "vouches for the first place of *that* file, at 4352",
        "It counts when nothing vouches for its frame, too.",
        "A gap frame vouches, and belongs to the chain",
        "No identity is known.",
        "A good footer stays good if the *file checksum* is wrong.",
        "gets SIGBUS after the new end",
        "A header with `created` 0 was made by a repair.",
        "The ranges cover the rows of the columns only",
        "Leave alone the `.new` files too",
        "If neither counts, the file is **lost**, as if it were missing.",
        "The second copy starts at half of the length.",
        "for start in (the last place of `OMSFOOT2`, then file size − T):               # in this order",
        "At the same offset it is not.",
    ):
        assert said in text
