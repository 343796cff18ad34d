"""Which directories hold a database, and where a new one may be begun."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oms_journal import AsyncMessageDatabase, DatabaseView, MessageDatabase, NotADatabase
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.store.start import StartRefused
from tests.support.disks.small_files import SMALL

STRANGERS = ("notes.txt", "src", "data.omsmsg", "lost+found2")
NOBODYS = ("lost+found", ".git", ".profile")
OURS = ("omsmsg.lock", "omsmsg-0000000001.data", "omsmsg-1.data.bak", "omsmsgs")


def put(directory: Path, name: str) -> None:
    """Put a name into a directory: a directory where it looks like one."""
    if name in ("src", "lost+found", ".git"):
        (directory / name).mkdir()
    else:
        (directory / name).touch()


async def _entered(directory: Path, **named: Any) -> None:
    async with AsyncMessageDatabase.open(directory, **named):
        pass


@pytest.mark.parametrize("name", STRANGERS)
def test_a_new_database_is_not_begun_among_files_of_somebody_else(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)

    with pytest.raises(NotADatabase, match="but other files") as refused:
        MessageDatabase.open(tmp_path)
    with pytest.raises(NotADatabase, match="but other files"):
        asyncio.run(_entered(tmp_path))
    with pytest.raises(StartRefused, match="but other files"):
        Broker.open(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (refused.value.directory, refused.value.beside) == (tmp_path, name)
    assert repr(name) in str(refused.value)


@pytest.mark.parametrize("name", STRANGERS)
def test_it_is_begun_there_where_create_says_so(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)

    with MessageDatabase.open(tmp_path, create=True, max_data_file_size=SMALL) as db:
        number = db.add("q", b"first")
    with MessageDatabase.open(tmp_path, max_data_file_size=SMALL) as db:  # it is a database from then on
        assert db.read(number).payload == b"first"


@pytest.mark.parametrize("name", NOBODYS)
def test_hidden_names_and_what_the_file_system_keeps_do_not_count(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)

    with MessageDatabase.open(tmp_path, max_data_file_size=SMALL) as db:
        assert db.recovery.notes == ()


@pytest.mark.parametrize("name", OURS[:1] + OURS[2:])
def test_a_directory_with_any_file_of_ours_is_a_database(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    put(tmp_path, "notes.txt")

    with DatabaseView.open(tmp_path) as view:
        assert view.queues() == {}
    with MessageDatabase.open(tmp_path, max_data_file_size=SMALL) as db:
        assert db.add("q", b"x") == 1


@pytest.mark.parametrize("name", [None, *STRANGERS, *NOBODYS])
def test_there_is_nothing_to_look_at_where_no_file_is_ours(tmp_path: Path, name: str | None) -> None:
    if name is not None:
        put(tmp_path, name)

    with pytest.raises(NotADatabase, match=r"holds no message database$"):
        DatabaseView.open(tmp_path)


@pytest.mark.parametrize("below", ["retained", "retained/data", "."])
def test_the_retention_directory_may_be_there_before_the_database(tmp_path: Path, below: str) -> None:
    (tmp_path / "spool" / below).mkdir(parents=True)

    with MessageDatabase.open(
        tmp_path / "spool", retention_directory=tmp_path / "spool" / below, max_data_file_size=SMALL
    ) as db:
        assert db.add("q", b"x") == 1


@pytest.mark.parametrize("directory", ["", b"", b"spool", None, 5, 1.5, [], ["spool"], True, "a\0b"])
def test_what_names_no_directory_is_refused_and_nothing_is_made(
    tmp_path: Path, directory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = ValueError if isinstance(directory, str) else TypeError

    for opening in (MessageDatabase.open, DatabaseView.open):
        with pytest.raises(wrong, match=r"^directory "):
            opening(directory)
    with pytest.raises(wrong, match=r"^directory "):
        asyncio.run(_entered(directory))

    assert list(tmp_path.iterdir()) == []
