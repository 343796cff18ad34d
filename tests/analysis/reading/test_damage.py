"""What is bad in a journal is told as recovery judges it, and what is good around it is read."""

import errno
import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from oms_journal.analysis.reading import damage, rows, schema
from oms_journal.analysis.reading.damage import DamageFound, refuse
from oms_journal.analysis.reading.datafile import agrees
from oms_journal.analysis.reading.parts import Damage, FilePart
from oms_journal.journal.disk import DiskFile, RealDisk
from oms_journal.journal.errors import DiskError, JournalError
from oms_journal.journal.format.footer import TRAILER
from oms_journal.journal.format.headers import HEADERS_SIZE, xxh3
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.validation import validate_directory
from tests.support.crashes.strange_frames import STRANGE, write_unchecked
from tests.support.disks.small_files import SMALL, churn, fill, open_small
from tests.support.journals.analysed import ALL, Row, analysed, batches_of, comparable, damages, dumped, planned
from tests.support.journals.plain_rows import database_of
from tests.support.journals.random_journal import RandomWriter
from tests.support.sweeps import a_sample

TRIALS = 15  # of each seed
UNNAMED = shutil.ignore_patterns("*.new")  # files that an open database prepares, and gives their name at any moment


def _ignore(_: Damage) -> None:
    """Hear of damage and go on."""


def _by_file(found: Iterable[Row]) -> dict[str, list[Row]]:
    files: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        files[row["file"]].append(row)
    return files


# Any damage at all: the verdicts are recovery's, the rows are those of `dump`.


def _spoiled(data: bytes, chance: random.Random) -> bytes | None:
    """Return a file as a bad disk or a power cut might leave it, None for no file."""
    changed = bytearray(data or bytes(1))
    content = len(data.rstrip(b"\0")) or 1
    place = chance.randrange(content)
    match chance.choice(
        ("flip", "flip", "flips", "header", "zeros", "tail", "cut", "behind", "nothing left", "removed")
    ):
        case "flip":
            changed[place] ^= 1 << chance.randrange(8)
        case "flips":
            for _ in range(3):
                changed[chance.randrange(content)] ^= 1 << chance.randrange(8)
        case "header":
            for at in chance.sample((0, 512), chance.choice((1, 2))):
                changed[at + chance.randrange(256)] ^= 1
        case "zeros":
            end = min(content, place + chance.randrange(1, 200))
            changed[place:end] = bytes(end - place)
        case "tail":
            start = max(0, content - chance.randrange(1, 100))
            changed[start:content] = bytes(content - start)
        case "cut":
            del changed[place:]
        case "behind":
            changed += chance.randbytes(chance.randrange(1, 100))
        case "nothing left":
            changed = bytearray(len(data))
        case "removed":
            return None
    return bytes(changed)


def _small_journal(directory: Path, chance: random.Random, seed: int) -> None:
    """Write a journal that was closed, or whose process has stopped anywhere."""
    writer = RandomWriter(directory / "written", seed)
    alignment = chance.choice((8, 64, 512))
    writer.write(openings=chance.choice((1, 2)), steps=chance.choice((3, 20, 60)), group_alignment=alignment)
    if chance.random() < 0.4:
        shutil.copytree(directory / "written", directory / "spool")
        return
    with writer.open() as db:
        for turn in range(chance.choice((1, 5, 30))):
            db.add("orders", bytes(turn), properties={"a": "b"})
        shutil.copytree(directory / "written", directory / "spool", ignore=UNNAMED)


def _trials(directory: Path, seed: int) -> Iterator[tuple[Path, dict[str, list[Row]]]]:
    """Yield a spool, with one of its files spoilt in another way each time, and the rows that were in it."""
    chance = random.Random(seed)
    _small_journal(directory, chance, seed)
    spool = directory / "spool"
    files = {path: path.read_bytes() for path in sorted(spool.glob("*.data"))}
    original = _by_file(analysed(spool))
    for _ in range(TRIALS):
        newest = list(files)[-3:]
        path = chance.choice(newest if chance.random() < 0.7 else list(files))
        data = _spoiled(files[path], chance)
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
        yield spool, original
        path.write_bytes(files[path])


@a_sample(2)
@pytest.mark.parametrize("seed", range(8))
def test_damage_is_told_where_recovery_sees_it_and_nowhere_else(seed: int, tmp_path: Path) -> None:
    for spool, _ in _trials(tmp_path, seed):
        reports = {report.name: report for report in validate_directory(spool)}
        found = _by_file(damages(spool))
        assert set(found) <= set(reports)
        for name, report in reports.items():
            kinds = {row["kind"] for row in found[name]}
            assert kinds <= {"torn", "damaged", "missing"}, report
            seen = Verdict.DAMAGED if kinds & {"damaged", "missing"} else Verdict.TORN if kinds else Verdict.CLEAN
            assert seen is report.verdict, (report, found[name])


def test_blocks_of_an_older_file_in_one_that_was_never_begun_are_torn_as_recovery_says(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, files=3)
    first, *_, newest = sorted((tmp_path / "spool").glob("*.data"))
    stale = newest.with_name(str(DataFileName(int(newest.stem[-10:]) + 1)))
    stale.write_bytes(bytes(HEADERS_SIZE) + first.read_bytes()[HEADERS_SIZE:6584].ljust(SMALL, b"\0"))
    verdicts = {report.name: report.verdict for report in validate_directory(tmp_path / "spool")}
    assert verdicts[stale.name] is Verdict.TORN
    assert [(row["file"], row["kind"]) for row in damages(tmp_path / "spool")] == [(stale.name, "torn")]


@pytest.mark.parametrize("is_cleaned", [False, True], ids=["prepared since", "cleaned up before"])
def test_a_lone_file_of_zeros_is_lost_unless_starts_have_removed_those_before_it(
    is_cleaned: bool, tmp_path: Path
) -> None:
    first = tmp_path / str(DataFileName(1))
    first.write_bytes(bytes(SMALL))
    open_small(tmp_path).close()
    (tmp_path / str(DataFileName(2))).write_bytes(bytes(SMALL))
    if is_cleaned:
        with open_small(tmp_path) as db:
            churn(db, 3)
            db.cleanup()
        *_, newest = sorted(tmp_path.glob("*.data"))
        for path in tmp_path.glob("*.data"):
            path.unlink()
        newest.write_bytes(bytes(SMALL))
    (report,) = validate_directory(tmp_path)
    assert report.row == ("emptied" if is_cleaned else "prepared")
    assert [row["file"] for row in damages(tmp_path)] == ([report.name] if is_cleaned else [])


@a_sample(1, more=2)
@pytest.mark.parametrize("seed", range(10, 18))
def test_what_is_good_in_damaged_files_is_read_and_nothing_is_made_up(seed: int, tmp_path: Path) -> None:
    for spool, original in _trials(tmp_path, seed):
        found = analysed(spool, report=_ignore)
        of_dump = _by_file(dumped(spool, database=found[0]["database"] if found else "?"))
        parts = {part.name: part for partition in planned(spool) for part in partition.parts}
        files = _by_file(found)
        for name, part in parts.items():
            if _has_good_footer(part):
                assert _without_bytes(files[name]) == _without_bytes(original[name])
            elif part.header is None or part.is_promised:  # dump does not know of what only a footer promises
                assert not _invented(files[name], original[name])
            else:
                _assert_as_dumped(files[name], of_dump[name])
            _assert_never_wrong(files[name], original[name])


def _has_good_footer(part: FilePart) -> bool:
    with DataFile(RealDisk(), part.path) as file:
        footer = None if part.identity is None else file.footer(identity=part.identity)
        return isinstance(footer, Footer) and agrees(footer, file, part)


def _without_bytes(found: Iterable[Row]) -> list[Row]:
    return [{**row, "payload": None, "properties": None} for row in found]


def _invented(found: Iterable[Row], original: Iterable[Row]) -> list[Row]:
    """Return the rows that the original has not; where the payload is lost its hash may be too."""
    known = _without_bytes(original)
    known += [{**row, "hash": None} for row in known]
    return [row for row in _without_bytes(found) if row not in known]


def _assert_as_dumped(found: list[Row], expected: list[Row]) -> None:
    """Compare rows; `dump` calls a message damaged, where here its payload may be good and only its properties not."""
    assert len(found) == len(expected)
    for row, other in zip(comparable(found), comparable(expected), strict=True):
        if other["operation"] == "ADD" and other["payload"] is None:
            row = comparable([{**row, "payload": None}])[0]
        assert row == other


def _assert_never_wrong(found: list[Row], original: list[Row]) -> None:
    """Check that a payload and properties are the right ones, or null."""
    good = {(row["offset"], row["operation"], row["message"], row["key"]): row for row in original}
    for row in found:
        right = good[row["offset"], row["operation"], row["message"], row["key"]]
        assert row["payload"] in (None, right["payload"])
        assert row["properties"] in (None, right["properties"])


@a_sample(2)
@pytest.mark.parametrize("seed", range(20, 28))
def test_a_repaired_journal_is_read_as_dump_reads_it_and_says_what_was_lost(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    spool = tmp_path / "spool"
    writer = RandomWriter(spool, seed)
    writer.write(openings=2, steps=40, group_alignment=chance.choice((8, 512)))
    original = analysed(spool)
    for path in chance.sample(sorted(spool.glob("*.data")), 2):
        data = _spoiled(path.read_bytes(), chance)
        path.write_bytes(b"" if data is None else data)
    with writer.open() as db:
        db.add("orders", b"after the repair")

    found = analysed(spool, report=_ignore)

    _assert_as_dumped(found, dumped(spool))
    lost = damages(spool)
    assert {row["kind"] for row in lost} <= {"gap", "damaged"}, "a repair has cut off what was torn"
    assert [
        row for row in lost if row["kind"] == "damaged" and "does not match its checksum" not in row["reason"]
    ] == []
    archives = {path.name for path in spool.glob("*.archive")}
    assert {row["archive"] for row in lost if row["kind"] == "gap"} <= archives | {None}
    for path in spool.glob("*.archive"):
        assert not _invented(_as_data(analysed(path, report=_ignore)), original)


def _as_data(found: Iterable[Row]) -> list[Row]:
    """Return an archive's rows as those of the data file that it is a copy of."""
    return [{**row, "file": f"{row['file'].partition('-v')[0]}.data"} for row in found]


# One kind after another.


def _lose_a_frame(path: Path) -> tuple[int, int]:
    """Spoil the header of a file's first frame; return where it stands."""
    start, end = sorted({row["offset"] for row in analysed(path)})[:2]
    data = bytearray(path.read_bytes())
    data[start + 20] ^= 1
    path.write_bytes(data)
    return start, end


def test_a_sealed_file_says_by_its_footer_what_was_in_it_and_the_table_what_is_bad(tmp_path: Path) -> None:
    """Reading operations does not look at frames; the damage table hashes every byte, unless told not to."""
    with open_small(tmp_path) as db:
        fill(db, 1)
    [path, *_] = sorted(tmp_path.glob("*.data"))
    expected = [row["message"] for row in analysed(tmp_path)]
    start, end = _lose_a_frame(path)

    assert [row["message"] for row in analysed(tmp_path, report=_ignore)] == expected
    [found] = damages(tmp_path)
    assert found == {
        "database": database_of(tmp_path),
        "file": path.name,
        "sequence": 1,
        "start": start,
        "end": end,
        "kind": "damaged",
        "reason": "the frame's checksum does not match",
        "archive": None,
    }
    assert damages(tmp_path, full=False) == []


def test_a_lost_range_is_a_gap_after_the_repair_and_its_archive_is_read_when_it_is_named(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        fill(db, 1)
    [path, *_] = sorted(tmp_path.glob("*.data"))
    before = [row["message"] for row in analysed(path)]
    start, end = _lose_a_frame(path)
    with open_small(tmp_path):
        pass

    [gap] = damages(tmp_path)

    assert (gap["kind"], gap["start"], gap["end"]) == ("gap", start, end)
    assert gap["archive"] == "omsmsg-0000000001-v0001.archive"
    assert [row["message"] for row in analysed(path, report=_ignore)] == before, "the footer tells it"
    archive = tmp_path / gap["archive"]
    assert [row["message"] for row in analysed(archive, report=_ignore)] == before, "its footer tells what was lost"
    assert [row["kind"] for row in damages(archive)] == ["damaged"]
    assert {row["file"] for row in analysed(archive)} == {archive.name}


def _rotted_footers(whole: bytes) -> Iterator[bytes]:
    """Yield the file with its footer's first bytes, columns, summary, trailer or all of it rotted, and without it."""
    start = whole.rindex(b"OMSFOOT2", 0, len(whole) - TRAILER.size)
    size = len(whole) - start
    for at, count in ((0, 8), (8, 8), (size // 4, 20), (size // 2, 1), (size - 150, 40), (size - 16, 8), (0, size)):
        rotted = bytearray(whole)
        for place in range(start + at, start + at + count):
            rotted[place] ^= 0x5A
        yield bytes(rotted)
    yield whole[:start]


@a_sample(2)
@pytest.mark.parametrize("which", [0, 1, -1], ids=["the first file", "the second one", "the newest one"])
@pytest.mark.parametrize("has_gap", [False, True], ids=["whole", "repaired"])
def test_a_footer_that_has_rotted_is_told_and_what_only_it_knew_is_told_as_missing(
    has_gap: bool, which: int, tmp_path: Path
) -> None:
    with open_small(tmp_path) as db:
        numbers = fill(db, 2)
        for held in numbers.values():
            db.deliver(held[0])
    path = sorted(tmp_path.glob("*.data"))[which]
    before = analysed(tmp_path)
    if has_gap:
        start, end = _lose_a_frame(path)
        open_small(tmp_path).close()
        assert [row["kind"] for row in damages(tmp_path)] == ["gap"]
    whole = path.read_bytes()
    for place, data in enumerate(_rotted_footers(whole)):
        path.write_bytes(data)
        met: list[Damage] = []

        found = analysed(tmp_path, report=met.append)

        told = [row for row in damages(tmp_path) if row["file"] == path.name]
        kinds = {row["kind"] for row in told}
        assert not _invented(found, before), place
        missing = [row for row in before if row["file"] == path.name and _key(row) not in {*map(_key, found)}]
        if not has_gap:
            assert not missing, place
            assert found == before, place
            (report,) = [one for one in validate_directory(tmp_path) if one.name == path.name]
            assert kinds == ({"damaged"} if report.verdict is Verdict.DAMAGED else set()), place
            assert kinds or place > 5, "where nothing is left of a footer, nobody knows that it was there"
            continue
        assert {*map(_key, missing)} == {_key(row) for row in before if _lies_in(row, path.name, start, end)}, place
        assert kinds == {"damaged", "gap"}, place
        assert [(row["start"], row["end"]) for row in told if row["kind"] == "gap"] == [(start, end)], place
        assert {(one.kind, one.file) for one in met} == {("damaged", path.name), ("gap", path.name)}, place
        with pytest.raises(DamageFound):
            analysed(tmp_path, report=refuse)


def _lies_in(row: Row, file: str, start: int, end: int) -> bool:
    return bool(row["file"] == file and start <= row["offset"] < end)


def _key(row: Row) -> tuple[object, ...]:
    return row["sequence"], row["offset"], row["operation"], row["message"], row["key"]


@pytest.mark.parametrize("kind", ["missing", "emptied"])
def test_a_file_that_is_not_there_is_a_loss(kind: str, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, 3)
        shutil.copytree(tmp_path / "spool", tmp_path / "copy", ignore=UNNAMED)
    sequences = {row["sequence"] for row in analysed(tmp_path / "copy")}
    path = tmp_path / "copy" / "omsmsg-0000000002.data"
    if kind == "missing":
        path.unlink()
    else:
        path.write_bytes(bytes(path.stat().st_size))

    [found] = damages(tmp_path / "copy")

    assert (found["file"], found["kind"]) == (path.name, "missing" if kind == "missing" else "damaged")
    assert found["start"] < found["end"]
    assert {row["sequence"] for row in analysed(tmp_path / "copy", report=_ignore)} == sequences - {2}


@a_sample(9, more=30)
@pytest.mark.parametrize("is_closed", [False, True], ids=["killed", "closed"])
@pytest.mark.parametrize("what", STRANGE)
def test_a_frame_that_is_whole_and_makes_no_sense_costs_itself(what: str, is_closed: bool, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        numbers = [db.add("q", b"before")]
        offset = write_unchecked(db._journal, STRANGE[what])
        numbers += [db.add("q", b"after") for _ in range(3)]
        if not is_closed:
            shutil.copytree(tmp_path / "spool", tmp_path / "killed", ignore=UNNAMED)
    spool = tmp_path / ("spool" if is_closed else "killed")

    (found,) = damages(spool)

    assert (found["kind"], found["start"]) == ("damaged", offset)
    told = numbers if is_closed else numbers[:-1]  # nothing vouches for the last one
    assert [row["message"] for row in analysed(spool, report=_ignore)] == told


def test_files_that_clean_up_has_removed_are_not_missing(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        churn(db, 3)
        assert len(db.cleanup().deleted) >= 3
        assert damages(tmp_path) == [], "the newest file does not know the mark by its header yet"
        db.add("q", b"x")
        assert damages(tmp_path) == []
    assert damages(tmp_path) == []


def test_a_hole_among_retained_files_is_told_and_their_trimmed_beginning_is_not(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool", retention_directory=tmp_path / "retained") as db:
        churn(db, 5)
        db.cleanup()
    files = sorted((tmp_path / "retained").glob("*/*.data"))
    files[0].unlink()
    assert damages(tmp_path / "retained") == []
    files[2].unlink()

    assert [(row["kind"], row["file"]) for row in damages(tmp_path / "retained")] == [("missing", files[2].name)]


def test_a_torn_end_is_torn_when_its_writer_is_dead_and_in_flight_when_it_is_not(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with open_small(spool, max_data_file_size="1M") as db:
        for turn in range(5):
            db.add("q", bytes([turn]))
        whole = analysed(spool)
        [path] = [path for path in spool.glob("*.data") if path.read_bytes().strip(b"\0")]
        data = path.read_bytes()
        end = len(data.rstrip(b"\0"))
        half = data[: end - 20] + bytes(len(data) - end + 20)
        path.write_bytes(half)

        assert damages(spool) == [], "its writer may be about to finish it"
        left = analysed(spool, report=refuse)
        assert left == whole[: len(left)]
        shutil.copytree(spool, tmp_path / "copy", ignore=UNNAMED)
        path.write_bytes(data)

    [found] = damages(tmp_path / "copy")
    assert (found["kind"], found["end"] >= end - 20) == ("torn", True)
    assert analysed(tmp_path / "copy", report=_ignore) == left
    with pytest.raises(DamageFound, match="torn"):
        analysed(tmp_path / "copy", report=refuse)


def test_a_file_that_the_device_cannot_read_is_unreadable_and_the_others_are_read(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        fill(db, 2)
    [partition, *rest] = planned(tmp_path)
    heard: list[Damage] = []
    disk = _Failing("omsmsg-0000000002.data", errno.EIO)

    found = [
        row
        for part in partition.parts
        for batch in rows.batches(disk, part, ALL, heard.append)
        for row in batch.to_pylist()
    ]

    assert {row["sequence"] for row in found} == {1}
    assert [(one.kind, one.file) for one in heard] == [("unreadable", "omsmsg-0000000002.data")]
    assert "cannot read" in heard[0].reason
    assert [one.kind for one in damage.found_in(disk, partition.parts[1])] == ["unreadable"]
    assert batches_of(rest, report=refuse)
    with pytest.raises(DamageFound, match="unreadable"):
        list(rows.batches(disk, partition.parts[1], ALL, refuse))


def test_a_file_that_may_not_be_read_is_an_error_and_no_damage(tmp_path: Path) -> None:
    """Nobody wants an empty table for having forgotten who may read the spool."""
    with open_small(tmp_path) as db:
        fill(db, 1)
    [part, *_] = [part for one in planned(tmp_path) for part in one.parts]
    disk = _Failing(part.name, errno.EACCES)

    with pytest.raises(DiskError, match=r"cannot read .*Permission denied"):
        list(rows.batches(disk, part, ALL))
    with pytest.raises(DiskError):
        damage.found_in(disk, part)


class _Failing(RealDisk):
    """The real disk, but for one file."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        if path.name == self._name:
            raise OSError(
                self._number, errno.errorcode[self._number] if self._number == errno.EIO else "Permission denied"
            )
        return super().open(path, writable=writable)


def test_a_footer_with_a_flag_that_its_version_does_not_know_is_a_bad_one_and_the_frames_are_walked(
    tmp_path: Path,
) -> None:
    with open_small(tmp_path) as db:
        fill(db, 1)
    path, before = tmp_path / "omsmsg-0000000001.data", analysed(tmp_path)
    data = bytearray(path.read_bytes())
    start = data.rindex(b"OMSFOOT2")
    [part, *_] = [part for one in planned(tmp_path) for part in one.parts]
    assert part.identity is not None
    data[start + 224] |= 64  # a flag
    checksum = xxh3(bytes(data[start : -TRAILER.size + 8]), part.identity)
    data[-TRAILER.size + 8 : -TRAILER.size + 16] = checksum.to_bytes(8, "little")
    path.write_bytes(data)

    assert analysed(tmp_path) == before
    assert [row["kind"] for row in damages(tmp_path)] == ["damaged"]


def test_failfast_stops_at_what_is_bad_and_not_at_what_a_repair_has_settled() -> None:
    for kind in ("torn", "damaged", "missing", "gone", "unreadable"):
        with pytest.raises(DamageFound, match=rf"omsmsg-0000000001\.data at byte 5: {kind}: why"):
            refuse(_one(kind))
    refuse(_one("gap"))


def test_an_error_of_ours_is_a_journal_error() -> None:
    assert issubclass(DamageFound, JournalError)


def _one(kind: str) -> Damage:
    name = "omsmsg-0000000001.data"
    return Damage(database="d", file=name, sequence=1, start=5, end=9, kind=kind, reason="why", archive="")


@pytest.mark.parametrize(
    "columns", [["kind"], ["archive", "database", "start"], list(schema.default_columns("damage"))]
)
def test_damage_comes_in_the_columns_that_are_wanted(columns: list[str]) -> None:
    batch = damage.batch([_one("torn"), _one("gap")], columns)

    every = {
        **dict(database="d", file="omsmsg-0000000001.data", sequence=1, start=5, end=9),
        "reason": "why",
        "archive": None,
    }
    assert batch.to_pylist() == [{name: {**every, "kind": kind}[name] for name in columns} for kind in ("torn", "gap")]


def test_a_file_that_is_sealed_while_it_is_looked_at_is_no_damage(tmp_path: Path) -> None:
    """The footer is written, then the file is cut to its length: between opening and reading all of that happens."""
    with open_small(tmp_path / "spool", max_data_file_size="1M") as db:
        for turn in range(9):
            db.add("q", bytes([turn]))
        shutil.copytree(tmp_path / "spool", tmp_path / "open", ignore=UNNAMED)
    [sealed] = (tmp_path / "spool").glob("*.data")
    [path] = [path for path in (tmp_path / "open").glob("*.data") if path.read_bytes().strip(b"\0")]
    [part] = [part for one in planned(tmp_path / "open") for part in one.parts if part.identity is not None]
    disk = _Sealing(path, sealed.read_bytes())

    assert damage.found_in(disk, part) == []
    assert disk.opened > 1


class _Sealing(RealDisk):
    """The real disk; a file is sealed when its size has been asked for once."""

    def __init__(self, path: Path, sealed: bytes) -> None:
        self._path = path
        self._sealed = sealed
        self.opened = 0

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        self.opened += 1
        file = super().open(path, writable=writable)
        if path == self._path and self.opened == 1:
            return _SealedMeanwhile(file, lambda: self._path.write_bytes(self._sealed))  # type: ignore[return-value]
        return file


class _SealedMeanwhile:
    def __init__(self, file: DiskFile, seal: Callable[[], object]) -> None:
        self._file = file
        self._seal = seal
        self.read = file.read
        self.read_into = file.read_into
        self.close = file.close

    def size(self) -> int:
        size = self._file.size()
        self._seal()
        return size
