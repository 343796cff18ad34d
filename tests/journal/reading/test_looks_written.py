"""Whether a file without a header was written: whatever bytes stand in it, the question is answered."""

import pytest

from oms_journal.journal.format.headers import HEADERS_SIZE
from oms_journal.journal.reading.evidence import looks_written
from tests.support.crashes.crash_model import SPOOL, open_unattended
from tests.support.crashes.crash_store import headers_of, small_store

UNSEALED = small_store(is_closed=False)
NAME = UNSEALED.data_files()[-1]
FRAMES = UNSEALED.frames_of(NAME)
IDENTITY = headers_of(UNSEALED.files[NAME]).identity


def without_header(*zeroed: int) -> bytes:
    """Return the newest file without its headers, and with these of its frames without their checksums."""
    data = bytearray(UNSEALED.files[NAME])
    data[:HEADERS_SIZE] = bytes(HEADERS_SIZE)
    for number in zeroed:
        data[FRAMES[number].offset : FRAMES[number].offset + 8] = bytes(8)
    return bytes(data).ljust(len(data) + 4096, b"\0")


@pytest.mark.parametrize("zeroed", [(), (-1,), (-2,), (-2, -1), tuple(range(-len(FRAMES), 0))], ids=str)
def test_frames_without_checksums_are_no_other_files_whatever_follows_them(zeroed: tuple[int, ...]) -> None:
    assert looks_written(without_header(*zeroed), others=[(1, IDENTITY ^ 5)])


def test_frames_of_another_file_at_their_own_places_are_that_ones() -> None:
    assert not looks_written(without_header(), others=[(1, IDENTITY)])
    assert not looks_written(without_header(-len(FRAMES) + 1), others=[(1, IDENTITY)]), "the next one tells it too"


def test_a_start_comes_to_its_end_where_header_and_checksums_are_gone() -> None:
    disk = UNSEALED.disk()
    disk.put(SPOOL / NAME, without_header(*range(-len(FRAMES), 0)))
    with open_unattended(disk) as database:
        assert database.recovery.files
