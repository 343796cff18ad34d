"""Whose a file is that has no header, and which no neighbour knows: whatever bytes stand in it, there is an answer."""

import pytest

from oms_journal.journal.format.frames import encode_frame_head, seed_of
from oms_journal.journal.format.headers import FRAMES_AT, HEADERS_SIZE
from oms_journal.journal.reading.evidence import first_identity, was_written_on
from tests.support.crashes.crash_model import SPOOL, open_unattended
from tests.support.crashes.crash_store import headers_of, small_store

UNSEALED = small_store(is_closed=False)
NAME = UNSEALED.data_files()[-1]
FRAMES = UNSEALED.frames_of(NAME)
HEADER = headers_of(UNSEALED.files[NAME])


def without_header(*zeroed: int) -> bytes:
    """Return the newest file without its headers, and with these of its frames without their checksums."""
    data = bytearray(UNSEALED.files[NAME])
    data[:HEADERS_SIZE] = bytes(HEADERS_SIZE)
    for number in zeroed:
        data[FRAMES[number].offset : FRAMES[number].offset + 8] = bytes(8)
    return bytes(data).ljust(len(data) + 4096, b"\0")


def test_the_first_frame_says_whose_the_file_is() -> None:
    assert first_identity(without_header(), HEADER.sequence) == HEADER.identity
    assert first_identity(without_header(0), HEADER.sequence) is None
    assert first_identity(without_header(), HEADER.sequence + 1) is None, "blocks of a file that was removed"
    assert first_identity(b"", 1) is None


def test_a_later_frame_says_only_that_it_was_written() -> None:
    data = without_header(0)

    assert len(FRAMES) > 1
    assert was_written_on(data, HEADER.sequence)
    assert not was_written_on(data, HEADER.sequence + 1), "blocks of a file that was removed"
    assert not was_written_on(data[: FRAMES_AT + 8], HEADER.sequence)
    assert not was_written_on(without_header(*range(-len(FRAMES), 0)), HEADER.sequence)


def test_a_first_group_alone_says_of_none_before_it() -> None:
    first = UNSEALED.frames_of(UNSEALED.data_files()[-1])[0]

    assert not was_written_on(without_header()[: first.end], HEADER.sequence)


@pytest.mark.parametrize(("ahead", "is_there"), [(0, True), (8, False)])
def test_a_frame_that_knows_of_what_stands_behind_it_says_nothing(ahead: int, is_there: bool) -> None:
    offset = FRAMES_AT + 4096
    fields = (64, 9, HEADER.identity, offset + ahead, 0, 0, 0)
    frame = encode_frame_head(bytes(8), seed_of(HEADER.sequence) + offset, *fields)

    assert was_written_on(bytes(offset) + frame, HEADER.sequence) is is_there


def test_messages_of_a_file_that_has_lost_both_headers_are_there_after_a_start() -> None:
    disk = UNSEALED.disk()
    disk.put(SPOOL / NAME, without_header())
    with open_unattended(disk) as database:
        found = {report.name: report for report in database.recovery.files}
        assert (found[NAME].row, found[NAME].losses) == ("damaged header", ())


def test_a_start_comes_to_its_end_where_header_and_checksums_are_gone() -> None:
    disk = UNSEALED.disk()
    disk.put(SPOOL / NAME, without_header(*range(-len(FRAMES), 0)))
    with open_unattended(disk) as database:
        assert database.recovery.files
