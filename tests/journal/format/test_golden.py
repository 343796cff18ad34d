"""The golden files: what the bytes of each format version are, for ever."""

import json
from pathlib import Path

import pytest

from oms_journal.journal.format.footer import ENTRY, SUMMARY
from oms_journal.journal.format.headers import HEADER_SIZE, VERSION
from oms_journal.journal.names import DataFileName
from tests.journal.format import golden_writer
from tests.support.journals import foreign_reader
from tests.support.journals.annotated import annotated, as_bytes
from tests.support.journals.golden_files import GOLDEN, NAMES, RESTORED_SEQUENCE, make, told

FILES = sorted(GOLDEN.glob("*.hex"))


@pytest.fixture(params=[path.stem for path in FILES])
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a golden file as a data file."""
    return _restored(request.param, tmp_path / "golden")


def _restored(stem: str, directory: Path) -> Path:
    directory.mkdir()
    data = as_bytes((GOLDEN / f"{stem}.hex").read_text(encoding="utf-8"))
    sequence = {"v1-unsealed": 2, "v1-restored": RESTORED_SEQUENCE}.get(stem, 1)
    path = directory / str(DataFileName(sequence))
    path.write_bytes(data)
    return path


def test_every_version_so_far_has_its_golden_files() -> None:
    assert {path.stem for path in FILES} >= {f"v{version}-smallest" for version in range(1, VERSION + 1)}
    assert {path.stem for path in FILES if path.stem.startswith(f"v{VERSION}-")} == {f"v{VERSION}-{n}" for n in NAMES}


def test_our_reader_reads_a_golden_file(golden: Path, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["golden"]
    expected = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))

    assert told(golden) == expected


def test_another_reader_reads_a_golden_file(golden: Path, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["golden"]
    expected = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))

    (file,) = foreign_reader.directory(golden.parent)

    assert [_essence(one) for one in expected if "damage" not in one] == [_essence(one) for one in file["operations"]]
    assert [tuple(one["damage"]) for one in expected if "damage" in one] == file["gaps"]


def _essence(one: dict[str, object]) -> dict[str, object]:
    payload = one.get("payload")
    names = ("offset", "commit", "operation", "message", "queue", "key", "time", "properties", "moved", "first_time")
    found = {name: one[name] for name in names if one.get(name)}
    return found | {"payload": payload.decode("latin-1") if isinstance(payload, bytes) else payload}


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
        begin = data.rfind(b"OMSFOOT1")
        for place in range(17 * (begin > 0)):
            at = begin + SUMMARY.size + HEADER_SIZE + place * ENTRY.size
            _, width, _, step, _ = ENTRY.unpack_from(data, at)
            shown.add("step" if step else str(width))

    assert shown == {"0", "1", "2", "4", "8", "255", "step"}


def test_the_golden_files_show_every_kind_of_operation_and_every_flag(tmp_path: Path) -> None:
    shown: set[str] = set()
    for stem in (path.stem for path in FILES):
        (file,) = foreign_reader.directory(_restored(stem, tmp_path / stem).parent)
        assert file["bad"] == [] and not any(one.get("damaged") for one in file["operations"])
        for frame in file["frames"]:
            shown |= {"vouch"} if not frame["records"] else set()
            for record in frame["records"]:
                kind = record["kind"]
                shown |= {f"{kind} {flag}" for flag in (1, 2, 4, 8) if record["flags"] & flag}
                shown |= {kind, f"{kind} of one"} if record["count"] == 1 else {kind}

    kinds = {"ADD", "DELIVER", "DELETE", "PUT", "DROP", "GAP"}
    flags = {"ADD 1", "ADD 2", "ADD 4", "ADD 8", "PUT 4"}
    assert shown >= kinds | flags | {"vouch", "DELIVER of one", "DELETE of one", "ADD of one"}


def test_the_writer_never_touches_a_golden_file_that_exists() -> None:
    before = {path: path.read_bytes() for path in GOLDEN.glob("*.*")}

    assert golden_writer.main() == 1

    assert {path: path.read_bytes() for path in GOLDEN.glob("*.*")} == before
