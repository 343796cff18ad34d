"""`omsmsg.backup`: its bytes, what is refused of it, and how a directory is read that has one."""

import errno
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oms_journal import BackupUnfinished, DatabaseView, IsBackup, ManifestDamaged, MessageDatabase, NewerFormat
from oms_journal.database.bulk.locked import LockedView
from oms_journal.journal import names
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format import manifest
from oms_journal.journal.format.headers import FRAMES_AT, Ending, xxh3
from oms_journal.journal.format.manifest import BackupFile, BadManifest, Manifest, decode, encode
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile, require_header
from oms_journal.journal.reading.walk import Span, walk
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.small_files import SMALL
from tests.support.journals.annotated import as_bytes
from tests.support.journals.format_tables import docstring_tables, widths
from tests.support.journals.golden_files import GOLDEN

numbers = st.integers(0, 2**64 - 1)
files = st.builds(
    BackupFile,
    sequence=numbers,
    identity=numbers,
    size=numbers,
    checksum=numbers,
    is_sealed=st.booleans(),
    is_damaged=st.booleans(),
)
manifests = st.builds(
    Manifest,
    database=st.binary(min_size=16, max_size=16),
    parent=st.binary(min_size=16, max_size=16),
    parent_sequence=numbers,
    low_water=numbers,
    tail=st.builds(Ending, sequence=numbers, identity=numbers, end=numbers, commit=numbers, chain=numbers),
    next_message=numbers,
    next_commit=numbers,
    owner=numbers,
    was_closed=st.booleans(),
    has_broker=st.booleans(),
    taken_at=st.integers(-(2**63), 2**63 - 1),
    source=st.text(st.characters(codec="utf-8"), max_size=1000),
    files=st.lists(files, max_size=20).map(tuple),
)
EXAMPLE = Manifest(
    database=bytes(range(16)),
    parent=bytes(range(16, 32)),
    parent_sequence=2,
    low_water=3,
    tail=Ending(sequence=4, identity=0x1122334455667788, end=1000, commit=17, chain=0x99AABBCCDDEEFF00),
    next_message=42,
    next_commit=18,
    owner=5,
    was_closed=True,
    has_broker=True,
    taken_at=1_767_225_600_000_000,
    source="harbour:/var/spool/größe",
    files=(
        BackupFile(sequence=3, identity=7, size=4096, checksum=8, is_sealed=True, is_damaged=True),
        BackupFile(sequence=4, identity=0x1122334455667788, size=1000, checksum=9, is_sealed=False),
    ),
)


@given(manifests)
@settings(derandomize=True, deadline=None)
def test_what_is_written_is_read(wanted: Manifest) -> None:
    assert decode(encode(wanted)) == wanted


def test_the_bytes_are_the_golden_ones() -> None:
    assert encode(EXAMPLE) == as_bytes((GOLDEN / "backup" / "manifest-v1.hex").read_text(encoding="utf-8"))


def test_the_widths_in_the_tables_add_up_to_the_structs() -> None:
    head, entry = docstring_tables("oms_journal.journal.format.manifest")

    assert sum(width for _, width in widths(head)) == manifest.HEAD.size
    assert sum(width for _, width in widths(entry)) == manifest.ENTRY.size


def test_one_copy_is_enough_whatever_byte_of_the_other_is_wrong() -> None:
    data = encode(EXAMPLE)
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0xFF
        assert decode(bytes(broken)) == EXAMPLE, at


def test_with_both_copies_wrong_in_any_one_byte_it_is_refused() -> None:
    data = encode(EXAMPLE)
    half = len(data) // 2
    size = struct.unpack_from("<Q", data, 16)[0]
    for at in range(size):
        broken = bytearray(data)
        broken[at] ^= 0xFF
        broken[half + at] ^= 0x10
        assert isinstance(decode(bytes(broken)), BadManifest), at


def test_wherever_it_is_cut_it_is_never_another_manifest() -> None:
    data = encode(EXAMPLE)
    for size in range(len(data)):
        assert isinstance(decode(data[:size]), BadManifest), size
    assert isinstance(decode(data + b"\0"), BadManifest)


@given(st.binary(max_size=2048), st.integers(0, 3))
@settings(derandomize=True, deadline=None)
def test_no_bytes_raise_anything(data: bytes, sectors: int) -> None:
    half = (manifest.MAGIC + data).ljust(512 * sectors, b"\0")

    assert isinstance(decode(data), BadManifest)
    assert isinstance(decode(half + half), BadManifest)


@pytest.mark.parametrize("name", ["version", "flags", "files", "source", "flags of an entry"])
def test_what_is_beyond_this_version_is_refused_as_newer(name: str, tmp_path: Path) -> None:
    fields = dict(widths(docstring_tables("oms_journal.journal.format.manifest")[0]))
    at = sum(list(fields.values())[: list(fields).index(name)]) if name in fields else manifest.HEAD.size + 32
    data = bytearray(encode(EXAMPLE))
    half = len(data) // 2
    size = struct.unpack_from("<Q", data, 16)[0]
    for start in (0, half):
        data[start + at] |= 0x40
        data[start + size - 8 : start + size] = struct.pack("<Q", xxh3(bytes(data[start : start + size - 8])))
    (tmp_path / names.BACKUP).write_bytes(data)

    with pytest.raises(NewerFormat):
        manifest.read(RealDisk(), tmp_path)


def test_a_directory_without_one_is_no_backup_and_a_bad_one_is_an_error(tmp_path: Path) -> None:
    assert manifest.read(RealDisk(), tmp_path) is None
    (tmp_path / names.BACKUP).write_bytes(b"nothing of the kind")
    with pytest.raises(ManifestDamaged):
        manifest.read(RealDisk(), tmp_path)


def test_after_a_power_cut_at_any_change_it_is_the_old_one_or_the_new_one() -> None:
    spool, old, new = Path("/backup"), EXAMPLE, replace(EXAMPLE, files=EXAMPLE.files[:1])
    for kill_at in range(1, 100):
        for seed in range(5):
            disk = _with_manifest(spool, old)
            disk.kill_at = disk.steps + kill_at
            try:
                manifest.write(disk, spool, new)
            except BaseException:
                assert manifest.read(disk.crash(seed), spool) in (old, new)
                continue
            assert manifest.read(disk.crash(seed), spool) == new
    assert kill_at > disk.steps


@pytest.mark.parametrize("verb", ["create", "write", "sync", "rename", "sync_directory"])
def test_when_it_cannot_be_written_the_old_one_stays(verb: str) -> None:
    spool = Path("/backup")
    disk = _with_manifest(spool, EXAMPLE)
    disk.fail(verb, code=errno.ENOSPC)

    with pytest.raises(OSError):
        manifest.write(disk, spool, replace(EXAMPLE, files=()))

    assert manifest.read(disk.crash(1), spool) in (EXAMPLE, replace(EXAMPLE, files=()))
    manifest.write(disk, spool, replace(EXAMPLE, owner=9))
    assert manifest.read(disk, spool) == replace(EXAMPLE, owner=9)


def _with_manifest(spool: Path, wanted: Manifest) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(spool)
    manifest.write(disk, spool, wanted)
    return disk


# How a directory is read that has one.


def _database(directory: Path) -> list[int]:
    """Write a few commits, and return their numbers."""
    with MessageDatabase.open(directory, max_data_file_size=SMALL) as db:
        return [db.add("q", b"%d" % number) for number in range(3)]


def test_a_backup_is_read_and_never_opened_for_writing(tmp_path: Path) -> None:
    added = _database(tmp_path)
    manifest.write(RealDisk(), tmp_path, _of_first_frames(tmp_path, 3))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    with pytest.raises(IsBackup):
        MessageDatabase.open(tmp_path)
    with pytest.raises(IsBackup):
        LockedView.open(tmp_path)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with DatabaseView.open(tmp_path) as view:
        assert list(view.numbers()) == added


@pytest.mark.parametrize("count", range(4))
def test_a_backup_ends_where_its_manifest_says_whatever_stands_behind(tmp_path: Path, count: int) -> None:
    added = _database(tmp_path)
    manifest.write(RealDisk(), tmp_path, _of_first_frames(tmp_path, count))

    with DatabaseView.open(tmp_path) as view:
        assert list(view.numbers()) == added[:count]


def test_a_file_that_the_manifest_does_not_name_is_left_out(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=SMALL) as db:
        added = [db.add("q", bytes(700)) for _ in range(12)]
    wanted = _of_first_frames(tmp_path, 2)
    manifest.write(RealDisk(), tmp_path, wanted)

    with DatabaseView.open(tmp_path) as view:
        assert list(view.numbers()) == added[:2]


def test_with_a_manifest_of_no_files_a_directory_is_no_backup_yet(tmp_path: Path) -> None:
    _database(tmp_path)
    manifest.write(RealDisk(), tmp_path, replace(EXAMPLE, files=(), low_water=1))

    with pytest.raises(BackupUnfinished):
        DatabaseView.open(tmp_path)


def test_a_manifest_that_cannot_be_read_keeps_the_directory_from_being_opened(tmp_path: Path) -> None:
    _database(tmp_path)
    (tmp_path / names.BACKUP).write_bytes(b"")

    with pytest.raises(IsBackup):
        MessageDatabase.open(tmp_path)
    with pytest.raises(ManifestDamaged):
        DatabaseView.open(tmp_path)


def _of_first_frames(directory: Path, count: int) -> Manifest:
    """Return the manifest of a backup that ends behind the first frames of the first data file."""
    path = directory / str(DataFileName(1))
    with DataFile(RealDisk(), path) as file:
        header, data = require_header(file), file.bytes()
    span = Span(sequence=header.sequence, identity=header.identity, limit=len(data))
    frames = walk(data, span).frames[:count]
    end = frames[-1].end if frames else FRAMES_AT
    chain = xxh3(b"".join(frame.checksum.to_bytes(8, "little") for frame in frames))
    commit = frames[-1].commit if frames else header.next_commit - 1
    return Manifest(
        database=header.database,
        tail=Ending(sequence=1, identity=header.identity, end=end, commit=commit, chain=chain),
        files=(BackupFile(sequence=1, identity=header.identity, size=end, checksum=xxh3(data[:end]), is_sealed=False),),
    )
