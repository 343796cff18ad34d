"""Whole files: copied, compared, made beside their place."""

from pathlib import Path

import pytest

from oms_journal.journal import files
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.files import are_same, build, copy, pieces

DISK = RealDisk()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "COPY_BYTES", 4)


@pytest.mark.parametrize("size", range(10))
@pytest.mark.parametrize("end", [0, 3, 4, 9, 20])
def test_a_copy_has_the_bytes_that_are_there(size: int, end: int, tmp_path: Path) -> None:
    data = bytes(range(1, size + 1))
    (tmp_path / "one").write_bytes(data)
    source = DISK.open(tmp_path / "one")

    build(DISK, tmp_path / "other", lambda file: copy(source, file, 0, end))

    assert (tmp_path / "other").read_bytes() == data[:end]
    assert [*pieces(source, 2, end)] == [(at, data[at : min(at + 4, end)]) for at in range(2, min(size, end), 4)]
    source.close()


@pytest.mark.parametrize(
    ("one", "other"),
    [(b"", b""), (b"12345678", b"12345678"), (b"123456789", b"12345678"), (b"12345678", b"12345679"), (b"1", b"")],
)
def test_files_are_the_same_by_their_bytes(one: bytes, other: bytes, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(one)
    (tmp_path / "other").write_bytes(other)
    first, second = DISK.open(tmp_path / "one"), DISK.open(tmp_path / "other")

    assert are_same(first, second) == (one == other)

    first.close()
    second.close()


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_what_cannot_be_made_leaves_what_was_there_and_nothing_beside_it(
    failure: type[BaseException], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"before")

    def fill(_: object) -> None:
        raise failure

    with pytest.raises(failure):
        build(DISK, tmp_path / "file", fill)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"before"}
