"""What a broker makes only its owner can reach, and what is wider is told."""

import os
from pathlib import Path

import pytest

from oms_journal.journal.disk import RealDisk
from tests.support.servers.guarded_server import Files
from tests.support.servers.stomp_server import Serving, Wire, eventually


@pytest.mark.whole
@pytest.mark.parametrize("driver", ["JOURNAL", "SQLITE"])
def test_whatever_the_umask_directories_are_0700_and_files_0600(tmp_path: Path, driver: str) -> None:
    more = f"PSTORE-TYPE={driver} PSTORE-REPORT=YES"
    (tmp_path / "etc").mkdir()
    files = Files(tmp_path / "etc", users=[], has_tls=False, more=more)
    spool = tmp_path / "a" / "b" / "spool"
    report = tmp_path / "report"
    before = os.umask(0)
    try:
        variables = {"ETB_PSTORE_REPORT": str(report)}
        with Serving(spool, str(files.attributes), variables=variables) as server:
            wire = Wire(server.port)
            wire.say("SEND", b"x" * 1000, destination="/queue/a", receipt="1")
            assert wire.hear().command == "RECEIPT"
            wire.close()
            found = modes(tmp_path / "a")
    finally:
        os.umask(before)

    assert len(found) >= 3
    assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in (found | modes(tmp_path / "a")).items() if path.is_file()} == {0o600}
    assert report.stat().st_mode & 0o777 == 0o600
    assert not any("others can" in text for text in server.texts())


def modes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}


@pytest.mark.whole
def test_what_others_can_reach_is_told_with_every_start_and_stays_as_it_is(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with Serving(spool):
        pass
    spool.chmod(0o755)
    (spool / "omsmsg.lock").chmod(0o644)
    for _ in range(2):
        with Serving(spool) as server:
            pass
        (told,) = [entry for entry in server.log if entry["event"] == "wide"]
        assert (told["path"], told["mode"]) == (str(spool), "0755")
        assert "and 1 more there; chmod 700" in told["text"]
    assert spool.stat().st_mode & 0o777 == 0o755


@pytest.mark.whole
def test_a_folder_where_others_could_put_another_users_file_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    folder.chmod(0o777)
    files = Files(folder, has_tls=False)
    with Serving(tmp_path / "spool", str(files.attributes)) as server:
        eventually(lambda: any("others can replace the users file" in text for text in server.texts()))


def test_a_directory_is_made_with_all_its_parents_for_nobody_else(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        RealDisk().make_directory(tmp_path / "a" / "b" / "c")
        RealDisk().make_directory(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert set(modes(tmp_path / "a").values()) == {0o700}
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        RealDisk().make_directory(tmp_path / "file")
    with pytest.raises(OSError):
        RealDisk().make_directory(tmp_path / "file" / "below")
