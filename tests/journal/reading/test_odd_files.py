"""What a start makes of data files that are not as they should be, and that the second start is content.

Here are the files that a person or a format may bring about: renamed, exchanged, of a newer version,
with rotted padding or headers. What a crash leaves behind is tested beside them.
"""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import NewerFormat, NotThisDatabase
from oms_journal.journal.format.footer import MAGIC as FOOTER_MAGIC
from oms_journal.journal.format.frames import FRAME_SIZE, FrameHeader
from oms_journal.journal.format.headers import HEADER_COPIES, HEADER_SIZE, FileHeader, xxh3
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.walk import Span, walk
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.validation import validate_directory

Opened = list[tuple[str, str]]


def data_file(directory: Path, sequence: int) -> Path:
    return directory / str(DataFileName(sequence))


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Return a closed database of three files with ten, one and one messages."""
    directory = tmp_path / "spool"
    for payload_count in (10, 1, 1):
        with MessageDatabase.open(directory) as database:
            for number in range(payload_count):
                database.add("orders", b"payload" * number)
    return directory


def reopened(directory: Path) -> tuple[Opened, int]:
    """Open the directory; return what the start saw of each file, and how many messages it has."""
    with MessageDatabase.open(directory) as database:
        return [(file.verdict.value, file.row) for file in database.recovery.files], database.undelivered_count()


def frames_of(path: Path) -> tuple[list[FrameHeader], int]:
    """Return a sealed file's frames and their end."""
    with DataFile(RealDisk(), path) as file:
        header, footer = file.header(), file.footer(identity=None)
        assert isinstance(header, FileHeader) and isinstance(footer, Footer)
        span = Span(
            sequence=header.sequence,
            identity=header.identity,
            limit=footer.summary.end,
        )
        return walk(file.bytes(), span).frames, footer.summary.end


def snapshot(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.data")}


def swap(directory: Path) -> None:
    first, second, beside = data_file(directory, 1), data_file(directory, 2), directory / "beside"
    first.rename(beside)
    second.rename(first)
    beside.rename(second)


@pytest.mark.parametrize(
    "rename",
    [
        pytest.param(swap, id="two files exchanged"),
        pytest.param(lambda d: data_file(d, 3).rename(data_file(d, 7)), id="the newest renamed"),
        pytest.param(lambda d: data_file(d, 1).rename(data_file(d, 4)), id="the oldest renamed"),
        pytest.param(lambda d: shutil.copy(data_file(d, 2), data_file(d, 4)), id="a copy under the next name"),
        pytest.param(lambda d: shutil.copy(data_file(d, 2), data_file(d, 3)), id="a copy over the newest"),
    ],
)
def test_a_file_under_another_name_is_refused_and_nothing_is_changed(
    spool: Path, rename: Callable[[Path], object]
) -> None:
    rename(spool)
    before = snapshot(spool)

    with pytest.raises(NotThisDatabase, match="under another name"):
        MessageDatabase.open(spool)

    assert snapshot(spool) == before
    assert not list(spool.glob("*.archive"))


@pytest.mark.parametrize(("field", "value"), [(8, 3), (12, 512), (112, 24), (116, 1)])
def test_a_file_of_a_newer_version_is_refused_and_nothing_is_changed(spool: Path, field: int, value: int) -> None:
    data = bytearray(data_file(spool, 2).read_bytes())
    for copy in HEADER_COPIES:
        data[copy + field : copy + field + 4] = struct.pack("<I", value)
        body = bytes(data[copy : copy + HEADER_SIZE - 8])
        data[copy + HEADER_SIZE - 8 : copy + HEADER_SIZE] = struct.pack("<Q", xxh3(body))
    data_file(spool, 2).write_bytes(data)
    before = snapshot(spool)

    with pytest.raises(NewerFormat):
        MessageDatabase.open(spool)

    assert snapshot(spool) == before


@pytest.mark.parametrize("copy", HEADER_COPIES)
def test_one_rotted_copy_of_a_header_is_repaired_and_nothing_is_lost(spool: Path, copy: int) -> None:
    data = bytearray(data_file(spool, 1).read_bytes())
    data[copy : copy + HEADER_SIZE] = bytes(HEADER_SIZE)
    data_file(spool, 1).write_bytes(data)

    first, second = reopened(spool), reopened(spool)

    assert first == ([("damaged", "damaged header"), ("clean", "sealed"), ("clean", "sealed")], 12)
    assert second == ([("clean", "sealed")] * 3, 12)


@pytest.mark.parametrize("alignment", [16, 64, 512])
def test_a_healthy_file_with_padding_between_its_groups_is_clean_without_a_footer(
    tmp_path: Path, alignment: int
) -> None:
    database = MessageDatabase.open(tmp_path / "spool", group_alignment=alignment)
    for number in range(80):
        database.add("orders", bytes([1]) * (8 * number))
    shutil.copytree(tmp_path / "spool", tmp_path / "copy", ignore=shutil.ignore_patterns("*.new"))
    database.close()
    newest = max((tmp_path / "copy").glob("*.data"))

    reports = {report.name: report for report in validate_directory(tmp_path / "copy")}

    assert (reports[newest.name].verdict, reports[newest.name].row) == (Verdict.CLEAN, "unsealed")
    assert reopened(tmp_path / "copy")[1] == 80


@pytest.mark.parametrize("size", ["below a frame's", "above a frame's"])
def test_a_flipped_bit_in_padding_loses_nothing(tmp_path: Path, size: str) -> None:
    spool = tmp_path / "spool"
    for _ in range(2):
        with MessageDatabase.open(spool, group_alignment=512) as database:
            for number in range(60):
                database.add("orders", bytes([1]) * (8 * number))
    frames, _ = frames_of(data_file(spool, 1))
    held = [FRAME_SIZE + one.meta + 8 * number for number, one in enumerate(frames)]
    rests = [(one.end, one.length - size) for one, size in zip(frames, held, strict=True) if one.operations]
    place = next(end for end, rest in rests if rest and (rest < FRAME_SIZE) == (size == "below a frame's")) - 1
    data = bytearray(data_file(spool, 1).read_bytes())
    data[place] ^= 1
    data_file(spool, 1).write_bytes(data)

    first, second = reopened(spool), reopened(spool)

    assert first[0][0][0] == "damaged"
    assert (first[1], second[1]) == (120, 120)
    assert second[0] == [("clean", "sealed")] * 2


@pytest.mark.parametrize("zero_count", [16, 56, 200])
def test_a_promised_last_frame_whose_end_is_lost_becomes_a_gap(spool: Path, zero_count: int) -> None:
    """The bytes behind its last one that is not zero were promised too."""
    _, end = frames_of(data_file(spool, 1))
    data = bytearray(data_file(spool, 1).read_bytes())
    data[end - zero_count : end] = bytes(zero_count)
    data_file(spool, 1).write_bytes(data)

    first, second = reopened(spool), reopened(spool)

    assert first == ([("damaged", "damaged"), ("clean", "sealed"), ("clean", "sealed")], 12), "the footer tells it"
    assert second == ([("clean", "sealed")] * 3, 12)


@pytest.mark.parametrize("behind", [0, 1, 1000])
@pytest.mark.parametrize("alignment", [8, 64, 4096])
def test_a_footer_that_was_only_begun_is_no_torn_write(tmp_path: Path, alignment: int, behind: int) -> None:
    spool = tmp_path / "spool"
    with MessageDatabase.open(spool, group_alignment=alignment) as database:
        database.add("orders", b"payload")
    data = data_file(spool, 1).read_bytes()
    footer = data.rindex(FOOTER_MAGIC)
    data_file(spool, 1).write_bytes(data[: footer + 300] + bytes(behind))

    assert reopened(spool) == ([("clean", "unsealed")], 1)
    assert not list(spool.glob("*.archive"))


def test_a_file_exchanged_for_one_of_a_copy_of_the_database_is_reported_once(spool: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    data_file(spool, 3).unlink()
    shutil.copytree(spool, copy)
    for directory, payload in ((spool, b"ours"), (copy, b"theirs")):
        with MessageDatabase.open(directory) as database:
            database.add("orders", payload)
    with MessageDatabase.open(spool) as database:
        database.add("orders", b"last")
    newest_of_copy = max(copy.glob("*.data"))
    assert (spool / newest_of_copy.name).exists()
    shutil.copy(newest_of_copy, spool)

    first, second = reopened(spool), reopened(spool)

    assert ("damaged", "other ending") in first[0]
    assert {verdict for verdict, _ in second[0]} == {"clean"}
    assert first[1] == second[1]


@pytest.mark.parametrize("size", [7680, 8600, 100_000])
def test_a_first_commit_larger_than_a_file_leaves_clean_files_only(tmp_path: Path, size: int) -> None:
    for _ in range(2):
        with MessageDatabase.open(tmp_path / "spool", max_data_file_size=7680) as database:
            assert database.recovery.intact
            database.add("orders", bytes(size))
            database.add("orders", b"small")

    assert {report.verdict for report in validate_directory(tmp_path / "spool")} == {Verdict.CLEAN}
    assert reopened(tmp_path / "spool")[1] == 4
