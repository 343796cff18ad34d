"""`omsmsg.index`: which messages the sealed files can hold, for readers without the lock; trusted by nobody else."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oms_journal import MessageDatabase
from oms_journal.database.lookup import decode_index_file, encode_index_file, read_index_file, write_index_file
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format.contents import Ranges
from oms_journal.journal.names import INDEX, DataFileName, unfinished
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.writing.segment import Sealed
from tests.support.disks.small_files import churn, fill, open_small
from tests.support.disks.watched_disk import WatchedDisk

limits = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
numbers = st.integers(0, 2**64 - 1)
entries = st.builds(Sealed, numbers, numbers, numbers, st.builds(Ranges, added=limits, removed=limits, time=limits))


@given(owner=numbers, files=st.lists(entries, max_size=5, unique_by=lambda file: file.sequence))
@settings(derandomize=True, deadline=None)
def test_what_is_written_is_read(owner: int, files: list[Sealed]) -> None:
    found = decode_index_file(encode_index_file(owner, files))

    assert found is not None
    assert found.owner == owner
    assert list(found.files) == sorted(files, key=lambda file: file.sequence)


def _example() -> bytes:
    ranges = Ranges(added=(1, 5), removed=(2, 3), time=(10, 20))
    return encode_index_file(7, [Sealed(1, 99, 4000, ranges), Sealed(2, 98, 3000, ranges)])


def test_whatever_bit_is_wrong_it_is_not_used() -> None:
    data = _example()
    for bit in range(8 * len(data)):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        assert decode_index_file(bytes(broken)) is None, bit


def test_wherever_it_is_cut_it_is_not_used() -> None:
    data = _example()
    for size in range(len(data)):
        assert decode_index_file(data[:size]) is None
    assert decode_index_file(data + b"\0") is None


def test_it_takes_its_place_by_a_rename_and_a_half_written_one_does_no_harm(tmp_path: Path) -> None:
    disk = RealDisk()
    assert read_index_file(disk, tmp_path) is None
    (tmp_path / unfinished(INDEX)).write_bytes(b"half of it")
    for _ in range(2):
        write_index_file(disk, tmp_path, _example())
        assert [path.name for path in tmp_path.iterdir()] == [INDEX]
        found = read_index_file(disk, tmp_path)
        assert found is not None and len(found.files) == 2


def _from_footers(directory: Path) -> dict[int, tuple[int, int, tuple[int, int]]]:
    """Return identity, end and added numbers of every sealed file, as its footer has them."""
    found = {}
    for path in sorted(directory.glob("*.data")):
        with DataFile(RealDisk(), path) as file:
            footer = file.footer(identity=None)
        if isinstance(footer, Footer):
            columns = footer.contents().columns
            added = columns["number"][columns["kind"] == 1]
            limits = (int(added.min()), int(added.max())) if len(added) else (1, 0)
            found[footer.summary.header.sequence] = (footer.summary.header.identity, footer.summary.end, limits)
    return found


def _indexed(directory: Path) -> dict[int, tuple[int, int, tuple[int, int]]]:
    found = read_index_file(RealDisk(), directory)
    assert found is not None
    return {file.sequence: (file.identity, file.end, tuple(file.ranges.added)) for file in found.files}  # type: ignore[misc]


def test_it_says_what_the_footers_say_at_every_opening_roll_and_clean_up(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        assert _indexed(tmp_path) == {}
        fill(db, 5)
        db._journal.seal_all()
        assert _indexed(tmp_path) == _from_footers(tmp_path) != {}
        db.deliver_many(db.numbers())
        churn(db, 3)
        assert db.cleanup().deleted
        assert _indexed(tmp_path) == _from_footers(tmp_path)
    for _ in range(2):
        with open_small(tmp_path) as db:
            assert _indexed(tmp_path) == _from_footers(tmp_path)
            db.add("q", b"x")


def test_no_start_trusts_it(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        expected = [number for numbers in fill(db, 3).values() for number in numbers]
    (tmp_path / INDEX).write_bytes(_example())
    with open_small(tmp_path) as db:
        assert db.recovery.intact
        assert list(db.numbers()) == expected
        assert _indexed(tmp_path) == _from_footers(tmp_path), "it is made anew"


def test_a_database_whose_index_file_cannot_be_written_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class NoIndex(WatchedDisk):
        def rename(self, old: Path, new: Path) -> None:
            if new.name == INDEX:
                raise OSError(28, "No space left on device")
            super().rename(old, new)

    with MessageDatabase.open(tmp_path, disk=NoIndex(), max_data_file_size=7680, cleanup_interval=0) as db:
        churn(db, 3)
        assert db.cleanup().deleted
        number = db.add("q", b"x")
    assert "No space left on device" in caplog.text
    with open_small(tmp_path) as db:
        assert list(db.numbers()) == [number]
        assert str(DataFileName(1)) not in [path.name for path in tmp_path.iterdir()]
