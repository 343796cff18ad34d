"""The report of the persistent store: its fields, record types and actions, its name, its pages."""

import logging
from pathlib import Path

import pytest

from oms_journal.broker.records import RecordKind
from oms_journal.broker.store.report import (
    FILE_NAMES,
    LINES_MAX,
    LOADED,
    UNLOADED,
    Action,
    Report,
    ReportLine,
    report_path,
)

STARTED = 1_203_614_318_123_456  # 2008-02-21 17:18:38 UTC
FIRST = 1_203_614_337_190_999


def made(path: Path) -> Report:
    return Report(path, started=STARTED, version="0.1.0")


def created(number: int) -> ReportLine:
    return ReportLine(f"100000000D{number:06X}", RecordKind.UOW, Action.CREATED, 5, 1148)


def test_a_report_has_a_title_headings_and_a_line_for_each_record(tmp_path: Path) -> None:
    report = made(tmp_path / "r")
    report.write([created(0x16), created(0x17)], FIRST)
    report.write([ReportLine("100000000C000001", RecordKind.UOW, Action.DELETED)], FIRST + 33_486_000)
    report.close()

    assert (tmp_path / "r").read_text() == (
        "oms-journal 0.1.0  PSTORE Report  2008-02-21 17:18:38  Page 1\n"
        "\n"
        "Identifier        Elements  Total length  Record Type   Date        Time          Action\n"
        "100000000D000016         5          1148  Conversation  2008-02-21  17:18:57.190  Created\n"
        "100000000D000017         5          1148  Conversation  2008-02-21  17:18:57.190  Created\n"
        "100000000C000001         0             0  Conversation  2008-02-21  17:19:30.676  Deleted\n"
    )


def test_every_kind_of_record_has_its_name_and_every_action_too(tmp_path: Path) -> None:
    report = made(tmp_path / "r")
    for kind in RecordKind:
        report.write([ReportLine("X", kind, Action.CREATED, 1, 2)], FIRST)
    report.write([ReportLine("X", RecordKind.UOW, Action.DELETED)], FIRST)
    report.line("X", RecordKind.UOW, LOADED, FIRST, elements=3, length=4)
    report.line("X", RecordKind.UOW, UNLOADED, FIRST, elements=3, length=4)
    report.close()

    rows = [line.split() for line in (tmp_path / "r").read_text().splitlines()[3:]]
    types = {row[3] for row in rows}
    assert types == {"Cluster", "Conversation", "Master", "Publication", "Subscription"}
    assert [row[6] for row in rows[-3:]] == ["Deleted", "Loaded", "Unloaded"]
    assert rows[-1][:3] == ["X", "3", "4"]


@pytest.mark.parametrize("count", [1, LINES_MAX - 3, LINES_MAX - 2, 3 * LINES_MAX])
def test_every_page_has_its_title_its_number_and_at_most_so_many_lines(tmp_path: Path, count: int) -> None:
    report = made(tmp_path / "r")
    for number in range(count):
        report.write([created(number)], FIRST + number)
    report.close()

    pages = (tmp_path / "r").read_text().split("\f")
    lines = [page.splitlines() for page in pages]
    assert [page[0].rpartition(" ")[2] for page in lines] == [str(number) for number in range(1, len(pages) + 1)]
    assert all(page[2] == lines[0][2] and page[1] == "" for page in lines)
    assert all(len(page) == LINES_MAX for page in lines[:-1])
    assert 3 < len(lines[-1]) <= LINES_MAX
    found = [line.split()[0] for page in lines for line in page[3:]]
    assert found == [created(number).identifier for number in range(count)]
    assert len(pages) == -(-count // (LINES_MAX - 3))


def test_a_report_is_there_while_it_is_written_and_begins_anew_with_the_next_run(tmp_path: Path) -> None:
    report = made(tmp_path / "r")
    report.write([created(1)], FIRST)
    assert (tmp_path / "r").read_text().count("\n") == 4
    report.close()
    report.write([created(2)], FIRST)
    report.close()
    again = made(tmp_path / "r")
    again.close()
    assert (tmp_path / "r").read_text() == ""


@pytest.mark.parametrize(
    ("run_mode", "variable", "argument", "expected"),
    [
        ("STANDARD", None, None, "PSTORE.REPORT"),
        ("STANDBY", None, None, "PSTORE.REPORT"),
        ("PSTORE-LOAD", None, None, "PSTORE.REPORT.LOAD"),
        ("PSTORE-UNLOAD", None, None, "PSTORE.REPORT.UNLOAD"),
        ("PSTORE-LOAD", "from the variable", None, "from the variable"),
        ("STANDARD", "", None, "PSTORE.REPORT"),
        ("STANDARD", None, "from -p", "from -p"),
        ("PSTORE-UNLOAD", "from the variable", "from -p", "from -p"),
    ],
)
def test_the_report_s_file(run_mode: str, variable: str | None, argument: str | None, expected: str) -> None:
    environ = {} if variable is None else {"ETB_PSTORE_REPORT": variable}
    assert report_path(run_mode, environ, argument) == Path(expected)
    assert run_mode in FILE_NAMES


def test_a_report_that_cannot_be_written_is_given_up_with_a_word_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "oms.broker"):
        report = made(tmp_path / "no such directory" / "r")
        report.write([created(1)], FIRST)
        report.close()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "No such file" in caplog.text

    caplog.clear()
    with caplog.at_level(logging.ERROR, "oms.broker"):
        full = made(Path("/dev/full"))
        for number in range(3):
            full.write([created(number)], FIRST)
        full.close()
    assert "No space left" in caplog.text
