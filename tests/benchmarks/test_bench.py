"""The benchmarks as programs: that they measure what they say, never how fast it was."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench import beside_embedded, figures, table
from bench.__main__ import FIGURES, PAGE, PARTS
from bench.callers import QUEUE, frame_bytes
from bench.engine import commits, consumers, growth, opening, verbs
from bench.measure import BUSY, Rate, Row, Settings, quiet_rates
from bench.raw import METHODS, RawJournal
from tests.support.project import REPOSITORY
from tests.support.sweeps import a_sample

METHOD = next(iter(METHODS))


def _settings(directory: Path) -> Settings:
    return Settings(directory=directory, method=METHOD, rounds=1, slices=1, slice_seconds=0.01, data_bytes=200_000)


def _row(*measured: float, bound: float | None = None, is_most: bool = False) -> Row:
    return Row(name="row", what="what", measured=measured, bound=bound, is_most=is_most)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [333, 1000, 4096, 10_000])
def test_the_raw_loop_writes_every_byte_once_and_fills_the_rest_with_zeros(
    tmp_path: Path, method: str, size: int
) -> None:
    file_bytes = 10_000
    raw = RawJournal(tmp_path / "raw", METHODS[method], file_bytes=file_bytes)
    per_file = file_bytes // size
    for _ in range(2 * per_file + 1):
        raw.append(b"x" * size)
    raw.settle()

    files = [path.read_bytes() for path in sorted((tmp_path / "raw").iterdir())]
    raw.close()

    full = (b"x" * size * per_file).ljust(file_bytes, b"\0")
    last = (b"x" * size).ljust(file_bytes, b"\0")
    assert files[:3] == [full, full, last]
    assert all(file == bytes(file_bytes) for file in files[3:])  # the next one, ready
    assert not (tmp_path / "raw").exists()


def test_a_frame_of_256_bytes_is_what_the_format_says(tmp_path: Path) -> None:
    size = frame_bytes(tmp_path, lambda database: database.add(QUEUE, bytes(256)))

    assert size == 56 + 40 + 256  # frame header, record with the name of five bytes, payload


@pytest.mark.parametrize(
    ("row", "is_met"),
    [
        (_row(0.8, 0.9, 1.0, bound=0.9), True),
        (_row(0.8, 0.89, 1.0, bound=0.9), False),
        (_row(2.9, 3.0, 9.0, bound=3.0, is_most=True), True),
        (_row(2.9, 3.1, 9.0, bound=3.0, is_most=True), False),
        (_row(1.0), None),
    ],
)
def test_a_row_is_judged_by_its_median(row: Row, is_met: bool | None) -> None:
    assert row.is_met is is_met


def test_a_row_that_met_its_bound_on_a_machine_that_was_too_busy_is_missed() -> None:
    row = Row(name="row", what="what", measured=[1.0], bound=0.5, is_too_busy=True)

    assert row.is_met is False
    assert table.cells(row)[-1] == f"NO, {BUSY}"


def test_a_row_without_values_says_why_and_is_not_judged() -> None:
    row = Row(name="row", what="what", measured=[], bound=0.5, note="not installed")

    assert row.is_met is None
    assert table.cells(row)[2] == "not installed"
    assert table.as_dict(row)["median"] is None


def _rates(*values: float) -> Rate:
    found = iter(values)
    return lambda seconds: next(found)


def test_a_run_whose_raw_side_varied_by_more_than_30_percent_is_taken_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = replace(_settings(tmp_path), rounds=2)

    found = quiet_rates(settings, _rates(9, 100, 140, 9, 100, 130), _rates(9, 1, 1, 9, 2, 2))

    assert (found.raw, found.ours) == ([100, 130], [2, 2])
    assert not found.is_too_busy
    assert capsys.readouterr().err.count(BUSY) == 1


def test_without_a_quiet_run_in_five_the_quietest_one_stands_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = replace(_settings(tmp_path), rounds=2)
    raw = [rate for worst in (300, 200, 150, 250, 300) for rate in (9, 100, worst)]

    found = quiet_rates(settings, _rates(*raw), _rates(*range(15)))

    assert found.raw == [100, 150]
    assert found.is_too_busy
    assert capsys.readouterr().err.count(BUSY) == settings.runs == 5


def test_the_table_goes_between_the_markers_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    (begin, end), others = table.markers("engine"), "\n".join((*table.markers("spark"), "behind"))
    page.write_text(f"before\n{begin}\nold\n{end}\n{others}\n")

    for text in ("first", "second"):
        table.rewrite(page, "engine", text)

        assert page.read_text() == f"before\n{begin}\n\n{text}\n\n{end}\n{others}\n"


def test_the_page_has_a_place_for_the_table_of_every_part() -> None:
    text = PAGE.read_text(encoding="utf-8")

    places = [text.find(marker) for part in PARTS for marker in table.markers(part)]

    assert -1 not in places and places == sorted(places)


@pytest.mark.parametrize(
    "content", ["", "<!-- bench:engine:begin -->", "<!-- bench:engine:end --><!-- bench:engine:begin -->"]
)
def test_a_page_without_markers_is_left_alone(tmp_path: Path, content: str) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(content)

    with pytest.raises(ValueError, match="has no line"):
        table.rewrite(page, "engine", "table")

    assert page.read_text() == content


def test_a_markdown_table_has_as_many_cells_in_every_line() -> None:
    rows = [_row(1.0, bound=2.0), _row(1234.5, 0.5, is_most=True, bound=3.0)]

    lines = [line for line in table.markdown(rows, ["a machine"]).splitlines() if line.startswith("|")]

    assert {line.count("|") for line in lines} == {len(table.HEADS) + 1}
    assert len(lines) == 2 + len(rows)


@pytest.mark.whole
def test_the_six_figures_are_measured_and_written_where_the_readme_has_a_place(tmp_path: Path) -> None:
    extent = figures.Extent(rounds=1, seconds=0.05, opened=500, weighed=500)
    readme = tmp_path / "README.md"
    readme.write_text("before\n")

    measured = list(figures.figures(tmp_path, extent))

    assert len(measured) == 6
    assert all(value > 0 for figure in measured for value in figure.measured)
    assert not table.has_place(readme, FIGURES)
    readme.write_text("\n".join(("before", *table.markers(FIGURES), "behind")))
    assert table.has_place(readme, FIGURES)
    table.rewrite(readme, FIGURES, figures.markdown(measured, ["a machine", "a commit"]))
    lines = [line for line in readme.read_text().splitlines() if line.startswith("|")]
    assert len(lines) == 8 and {line.count("|") for line in lines} == {4}


@a_sample(2)
@pytest.mark.parametrize(
    "group", [commits.one, commits.tasks, commits.threads, commits.add_many, commits.deliver, commits.cycles]
)
def test_every_commit_row_measures_something(tmp_path: Path, group: commits.Group) -> None:
    rows = list(group(_settings(tmp_path)))

    assert rows
    assert all(row.measured and row.median > 0 for row in rows)


@pytest.mark.whole
def test_the_imports_measure_something(tmp_path: Path) -> None:
    rows = list(opening.imports(_settings(tmp_path)))

    assert [row.name for row in rows] == ["import", "import-database"]
    assert rows[0].bound == 20 and len(rows[0].measured) == 1
    assert rows[1].median > 0


@pytest.mark.whole
def test_growth_measures_something(tmp_path: Path) -> None:
    settings = replace(_settings(tmp_path), beside_messages=100, identifiers=100)

    rows = list(growth.growth(settings))

    assert [row.name for row in rows] == [
        "growth-cycle", "growth-cycle-few", "growth-empty", "growth-empty-few",
        "growth-window", "growth-window-one", "growth-commit",
    ]  # fmt: skip
    assert all(row.measured and row.median > 0 for row in rows)


@pytest.mark.whole
def test_the_calls_of_a_consumer_measure_something(tmp_path: Path) -> None:
    settings = replace(_settings(tmp_path), beside_messages=100, identifiers=100, index_messages=10_000)

    rows = list(consumers.consumers(settings))

    assert {"cpu-take", "cpu-deliver", "cpu-cycle", "cpu-identifier", "cpu-take-deep"} <= {row.name for row in rows}
    assert any("take-many" in row.name for row in rows)
    assert all(row.measured and row.median > 0 for row in rows)


@pytest.mark.whole
def test_the_verbs_of_a_queue_measure_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DUE_SECONDS": 0.1, "WAITS": 2, "STOCK": 16, "WEIGHINGS": 1}.items():
        monkeypatch.setattr(verbs, name, value)
    settings = replace(_settings(tmp_path), identifiers=100, slope_counts=(1000, 10_000), runs=1)

    rows = list(verbs.verbs(settings))

    assert [row.name for row in rows] == [
        "wait-threads", "wait-asyncio", "cpu-take-lease", "memory-due", "memory-group", "start-groups",
        "due-cpu", "due-late",
    ]  # fmt: skip
    assert all(row.measured for row in rows)


@pytest.mark.whole
def test_embedded_stores_are_measured_where_they_are_installed(tmp_path: Path) -> None:
    present = {peer.name.lower(): peer.version() is not None for peer in beside_embedded.PEERS}

    rows = list(beside_embedded.embedded(_settings(tmp_path)))

    assert {row.name.split("-")[1] for row in rows} == {name.split("-")[0] for name in beside_embedded.OPERATIONS}
    for name, is_present in present.items():
        theirs = [row for row in rows if row.name.endswith(f"-{name}")]
        assert len(theirs) == len(beside_embedded.OPERATIONS)
        assert all(bool(row.measured) is is_present and (is_present or row.note) for row in theirs)


@pytest.mark.whole
def test_a_store_that_is_not_installed_has_rows_that_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = beside_embedded.Peer(name="Nowhere", package="no-such-package", open=beside_embedded.Ours, options="none")
    monkeypatch.setattr(beside_embedded, "PEERS", (absent,))

    rows = list(beside_embedded.embedded(_settings(tmp_path)))

    theirs = [table.cells(row)[2] for row in rows if row.name.endswith("-nowhere")]
    assert theirs == ["not installed"] * len(beside_embedded.OPERATIONS)
    assert beside_embedded.options() == ["Nowhere through no-such-package not installed: none"]


@pytest.mark.whole
def test_reopening_measures_something(tmp_path: Path) -> None:
    rows = list(opening.reopen(_settings(tmp_path)))

    assert [row.name for row in rows] == [
        "reopen-256", "footers-256", "reading", "linear-full", "linear-footers", "reopen-4096", "footers-4096",
    ]  # fmt: skip
    assert all(row.median > 0 for row in rows)


@pytest.mark.whole
def test_the_runner_prints_a_table_and_writes_the_same_as_json(tmp_path: Path) -> None:
    document = tmp_path / "rows.json"
    options = ["--quick", "--only", "add-many", "--directory", str(tmp_path), "--json", str(document)]

    done = subprocess.run(
        [sys.executable, "-m", "bench", *options], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    assert done.returncode in (0, 1), done.stderr
    assert "add_many of 64" in done.stdout
    (row,) = json.loads(document.read_text())["rows"]
    assert row["name"] == "add-many"
    assert row["is_met"] is (done.returncode == 0)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]
