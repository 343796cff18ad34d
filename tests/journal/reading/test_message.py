"""A message is read out of its frame and verified: each byte of it, however long it is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal.journal.errors import MessageDamaged
from oms_journal.journal.format.records import Added
from oms_journal.journal.reading.message import FrameReader, Message, Source
from oms_journal.journal.writing.draft import CommitBuilder, Draft, QueueTemplate
from oms_journal.journal.writing.groups import form
from oms_journal.journal.writing.single import PlainAdds, WritePosition
from tests.support.disks.faulty_disk import SimulatedDisk

PATH = Path("/spool/omsmsg-0000000003.data")
PLACE = WritePosition(identity=5, sequence=3, alignment=8, offset=4096, synced=2000, next_message=1000, next_commit=40)
PAYLOAD = bytes(range(251)) * 20


def _plain() -> Draft:
    return PlainAdds([QueueTemplate(b"queue", 0)], [PAYLOAD], 0)


def _composed() -> Draft:
    builder = CommitBuilder()
    builder.add(Added(queue=b"queue", payloads=[PAYLOAD]))
    return builder.draft()


def _read(disk: SimulatedDisk) -> Message | MessageDamaged:
    source = Source(disk.open(PATH), PATH, PLACE.identity, PLACE.sequence)
    (found,) = FrameReader(source).messages([(PLACE.next_message, PLACE.offset)])
    return found


@pytest.mark.parametrize("draft", [_plain, _composed])
def test_whichever_byte_of_a_message_is_wrong_it_is_damaged(draft: Callable[[], Draft]) -> None:
    group = form(PLACE, [draft()], time=1)
    data = bytes(PLACE.offset) + b"".join(bytes(buffer) for buffer in group.buffers)
    start = data.index(PAYLOAD)
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    disk.put(PATH, data)

    found = _read(disk)
    assert isinstance(found, Message) and found.payload == PAYLOAD
    for place in (*range(start, start + len(PAYLOAD), 97), start + len(PAYLOAD) - 1):
        disk.put(PATH, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert isinstance(_read(disk), MessageDamaged), place - start
