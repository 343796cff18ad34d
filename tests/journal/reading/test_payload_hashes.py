"""No record has the hash of a payload without its properties: the columns of a file get it from the bytes."""

from pathlib import Path

import numpy as np
import pytest

from oms_journal import MessageDatabase
from oms_journal.analysis.reading.frames import scan
from oms_journal.analysis.reading.parts import FilePart
from oms_journal.analysis.storage import Storage
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DuplicateConflict
from oms_journal.journal.format.contents import DAMAGED, Contents
from oms_journal.journal.format.footer import MAGIC
from oms_journal.journal.format.headers import FileHeader, xxh3
from oms_journal.journal.format.records import PROPERTIES
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.sweep import sweep
from oms_journal.journal.reading.walk import Span, walk

PAYLOADS = [b"plain", b"", b"with properties", b"two in", b"one commit", b"of a producer", b"many 1", b"many 2"]


def _written(directory: Path) -> Path:
    """Return the only file of a closed database; its messages have the payloads above, in order."""
    with MessageDatabase.open(directory) as db:
        db.add("q", PAYLOADS[0])
        db.add("q", PAYLOADS[1], properties={"of": "an empty payload"})
        db.add("q", PAYLOADS[2], properties={"a": "1"})
        with db.commit() as commit:
            commit.put("key", b"value")
            commit.add("q", PAYLOADS[3], properties={"b": "2"})
            commit.add("q", PAYLOADS[4])
            commit.deliver(1)
            commit.add("other", PAYLOADS[5], properties={"c": "3"}, producer_id="p")
        db.add_many("q", PAYLOADS[6:])
    return directory / "omsmsg-0000000001.data"


def _footer(path: Path) -> tuple[FileHeader, Contents, int]:
    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=None)
        assert isinstance(footer, Footer)
        assert sweep(file.file, footer.summary, footer.contents()) == []
        return footer.summary.header, footer.contents(), footer.summary.start


def _hashes(contents: Contents) -> list[int]:
    hashes: list[int] = contents.columns["hash"][contents.columns["kind"] == Operation.ADD].tolist()
    return hashes


def test_the_columns_of_a_footer_a_walk_and_a_scan_have_the_same_hashes(tmp_path: Path) -> None:
    path = _written(tmp_path)
    header, contents, start = _footer(path)
    data = path.read_bytes()[:start]

    walked = walk(data, Span(sequence=1, identity=header.identity, limit=start, alignment=8))
    scanned = scan(data, FilePart(storage=Storage(), path=path, sequence=1, database="", header=header), header)

    assert scanned is not None
    for found in (contents, walked.builder.build(start), scanned.builder.build_checked(start, header, data)):
        assert _hashes(found) == [xxh3(payload) for payload in PAYLOADS]


def test_a_footer_with_another_hash_of_a_payload_is_not_the_files(tmp_path: Path) -> None:
    path = _written(tmp_path)
    _, contents, _ = _footer(path)
    rows = np.flatnonzero((contents.columns["kind"] == Operation.ADD) & (contents.columns["flags"] & PROPERTIES != 0))

    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=None)
        assert isinstance(footer, Footer)
        for row in rows.tolist():
            wrong = footer.contents()
            wrong.columns["hash"][row] ^= 1
            assert sweep(file.file, footer.summary, wrong) is None


@pytest.mark.parametrize("has_footer", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_payload_that_is_lost_is_still_what_its_identifier_stands_for(
    tmp_path: Path, count: int, has_footer: bool
) -> None:
    """Without a footer its hash is lost with it. A resend is answered as before, and not told that it is another."""
    payloads = [b"the lost one", b"another"][:count]

    def send(db: MessageDatabase, payloads: list[bytes]) -> list[int]:
        with db.commit(producer_id="p") as commit:
            for payload in payloads:
                commit.add("q", payload, properties={"a": "1"})
        return list(commit.numbers)

    with MessageDatabase.open(tmp_path) as db:
        first = send(db, payloads)
        db.add("q", b"behind it")
    path = tmp_path / "omsmsg-0000000001.data"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) if has_footer else data.rindex(MAGIC)].replace(b"the lost one", b"the lost ONE"))

    for _ in range(2):  # from the frames, then from the footer that the repair has made
        with MessageDatabase.open(tmp_path) as db:
            assert send(db, payloads) == first
            with pytest.raises(DuplicateConflict):
                send(db, [*payloads, b"more"])
    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=None)
        assert isinstance(footer, Footer)
        columns = footer.columns()
        hashes = columns["hash"][columns["flags"] & DAMAGED != 0].tolist()
        assert hashes == [xxh3(b"the lost one") if has_footer else 0]
