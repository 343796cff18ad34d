"""The golden files: what the bytes of each format version are, for ever."""

import json
from pathlib import Path

import pytest

from oms_journal.journal.format.footer import ENTRY, SUMMARY
from oms_journal.journal.format.headers import HEADER_SIZE, VERSION
from oms_journal.journal.format.records import decode_records, is_gap
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import Operation
from tests.fuzz.file_targets import frames_in
from tests.journal.format import golden_writer
from tests.support.journals.annotated import annotated, as_bytes
from tests.support.journals.descriptions import describe, difference
from tests.support.journals.golden_files import GOLDEN, NAMES, RESTORED_SEQUENCE, make, told
from tests.support.journals.java_reader import java_reader, needs_java

FLAGS = [1 << bit for bit in range(8)]
FILES = sorted(GOLDEN.glob("*.hex"))


@pytest.fixture(params=[path.stem for path in FILES])
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a golden file as a data file."""
    return _restored(request.param, tmp_path / "golden")


def _restored(stem: str, directory: Path) -> Path:
    directory.mkdir()
    data = as_bytes((GOLDEN / f"{stem}.hex").read_text(encoding="utf-8"))
    sequence = {"v2-unsealed": 2, "v2-restored": RESTORED_SEQUENCE}.get(stem, 1)
    path = directory / str(DataFileName(sequence))
    path.write_bytes(data)
    return path


def test_every_version_so_far_has_its_golden_files() -> None:
    assert {path.stem for path in FILES} >= {f"v{version}-smallest" for version in range(2, VERSION + 1)}
    assert {path.stem for path in FILES if path.stem.startswith(f"v{VERSION}-")} == {f"v{VERSION}-{n}" for n in NAMES}


def test_our_reader_reads_a_golden_file(golden: Path, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["golden"]
    expected = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))

    assert told(golden) == expected


@needs_java
def test_the_reader_in_java_reads_a_golden_file_as_we_do(golden: Path) -> None:
    read = java_reader().read(golden.parent)

    assert read["operations"] and not difference(describe(golden.parent), read)


@pytest.mark.parametrize("name", NAMES)
def test_our_writer_writes_the_golden_bytes(name: str, tmp_path: Path) -> None:
    expected = (GOLDEN / f"v{VERSION}-{name}.hex").read_text(encoding="utf-8")

    data = make(tmp_path, name).read_bytes()

    assert annotated(data) == expected
    assert as_bytes(expected) == data


def test_the_golden_files_show_every_width_of_a_column() -> None:
    shown: set[str] = set()
    for path in FILES:
        data = as_bytes(path.read_text(encoding="utf-8"))
        begin = data.rfind(b"OMSFOOT2")
        for place in range(22 * (begin > 0)):
            at = begin + SUMMARY.size + HEADER_SIZE + place * ENTRY.size
            _, width, _, step, _ = ENTRY.unpack_from(data, at)
            shown.add("step" if step else str(width))

    assert shown == {"0", "1", "2", "4", "8", "255", "step"}


def test_the_golden_files_show_every_kind_of_operation_and_every_flag(tmp_path: Path) -> None:
    shown: set[str] = set()
    for stem in (path.stem for path in FILES):
        data = _restored(stem, tmp_path / stem).read_bytes()
        for frame in frames_in(data):
            listed = [*decode_records(data[frame.records])]
            shown |= {"vouch"} if not listed else set()
            for record in listed:
                kind = "GAP" if is_gap(record) else Operation(record.kind).name
                shown |= {f"{kind} {flag}" for flag in FLAGS if record.flags & flag}
                shown |= {kind, f"{kind} of one"} if record.count == 1 else {kind}

    kinds = {"ADD", "DELIVER", "DELETE", "PUT", "DROP", "GAP"}
    flags = {*(f"ADD {flag}" for flag in FLAGS), "PUT 4"}
    assert shown >= kinds | flags | {"vouch", "DELIVER of one", "DELETE of one", "ADD of one"}


def test_the_writer_never_touches_a_golden_file_that_exists() -> None:
    before = {path: path.read_bytes() for path in GOLDEN.rglob("*.*") if path.is_file()}

    assert golden_writer.main() == 1

    assert {path: path.read_bytes() for path in GOLDEN.rglob("*.*") if path.is_file()} == before
