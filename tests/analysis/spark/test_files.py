"""The table of data files takes as long as reading their headers, and says what reading all of them says."""

from pathlib import Path

import pytest

from oms_journal.analysis.reading import files
from oms_journal.journal.format.footer import OUTLINE_SIZE, SUMMARY, TRAILER, trailer_size
from oms_journal.journal.format.headers import HEADERS_SIZE
from tests.support.disks.counting_disk import CountingDisk
from tests.support.disks.small_files import fill, open_small
from tests.support.journals.analysed import Row, files_table
from tests.support.journals.random_journal import RandomWriter
from tests.support.sweeps import a_sample


def _by_whole_files(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> list[Row]:
    with monkeypatch.context() as patched:
        patched.setattr(files, "_row_by_outline", lambda _: None)
        return files_table(*paths)


def test_of_a_sealed_file_the_header_and_the_ends_of_its_footer_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_small(tmp_path, max_data_file_size="300K") as db:
        for _ in range(10):
            db.add_many("q", [bytes(70)] * 1000)
        db.deliver_many(list(db.numbers())[:500])
    names = sorted(path.name for path in tmp_path.glob("*.data"))
    disk = CountingDisk.watching(monkeypatch)

    found = files_table(tmp_path)

    assert [row["file"] for row in found if row["sealed"]] == names
    assert sum(row["rows"] for row in found) == 10_500
    *older, _, _ = (
        disk.read[name] for name in names
    )  # who reads headers looks at the last two footers, for lost files
    assert len(older) > 1
    assert max(older) <= HEADERS_SIZE + OUTLINE_SIZE + TRAILER.size


@a_sample(1)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_of_footers_is_what_whole_files_say(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RandomWriter(tmp_path / "spool", seed, retention=tmp_path / "retained")
    writer.write(openings=3, steps=60)
    paths = (tmp_path / "spool", tmp_path / "retained")

    assert files_table(*paths) == _by_whole_files(monkeypatch, *paths)
    with writer.open(max_data_file_size=100_000) as db:
        for turn in range(30):
            db.add("orders", bytes(turn))
        found = [row for row in files_table(*paths) if row["sealed"]]  # the open file may be durable farther by now
        assert found == [row for row in _by_whole_files(monkeypatch, *paths) if row["sealed"]]


@pytest.mark.parametrize("place", [0, 8, 24, 40, 48, SUMMARY.size, SUMMARY.size + 40, -1])
def test_a_footer_whose_ends_do_not_agree_with_the_headers_is_not_believed(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_small(tmp_path) as db:
        fill(db, 3)
    path = sorted(tmp_path.glob("*.data"))[1]
    data = bytearray(path.read_bytes())
    size = trailer_size(bytes(data))
    assert size is not None
    data[place if place < 0 else len(data) - size + place] ^= 1
    path.write_bytes(data)

    [found] = [row for row in files_table(tmp_path) if row["file"] == path.name]

    assert not found["sealed"]
    assert [found] == [row for row in _by_whole_files(monkeypatch, tmp_path) if row["file"] == path.name]
