"""Root at work in the directory of a service: what it leaves there is the service's, which goes on with it."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.cli.failures import ExitCode
from oms_journal.cli.main import main
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DiskError
from tests.support.cli_runner import oms
from tests.support.disks.small_files import MODEST, churn, open_small
from tests.support.forking import forked
from tests.support.wrong_inputs import faults_of

SERVICE = 54_321  # a user that nobody is
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of the service's own, which its user can reach."""
    place = Path(tempfile.mkdtemp(prefix="oms-owners-", dir="/tmp"))
    os.chown(place, SERVICE, SERVICE)
    yield place
    shutil.rmtree(place)


def as_service(work: Callable[[], object]) -> int:
    """Do something as the service's user, in a process of its own; 0 when it came to its end."""

    def do() -> int:
        os.setgroups([])
        os.setgid(SERVICE)
        os.setuid(SERVICE)
        work()
        return 0

    return forked(do)


def refusal(home: Path) -> str:
    """Return what the service's user is told who opens the spool."""
    said = home / "said"

    def opens() -> None:
        try:
            open_small(home / "spool")
        except DiskError as refused:
            said.write_text(str(refused))

    assert as_service(opens) == 0
    return said.read_text()


def strangers(home: Path) -> list[str]:
    """Return what of the directory is not the service's."""
    found = [path for path in home.rglob("*") if (path.lstat().st_uid, path.lstat().st_gid) != (SERVICE, SERVICE)]
    return [str(path.relative_to(home)) for path in found]


@needs_root
def test_every_command_of_root_leaves_files_that_the_service_goes_on_with(home: Path) -> None:
    spool, backup, restored = home / "spool", home / "backup", home / "restored"
    oms("send", "q", "begun by root", spool=spool)
    assert not strangers(home)
    for words in (
        ["send", "q", "one"],
        ["receive", "q"],
        ["cleanup", "--compact"],
        ["verify"],
        ["recover"],
        ["backup", str(backup)],
        ["backup", str(backup), "--copy"],
        ["restore", str(backup), "--spool", str(restored)],
        ["io-test", str(spool), "--seconds", "0.1", "--no-journal"],
    ):
        oms(*words, spool=spool)
        assert not strangers(home), words

    def goes_on() -> None:
        for directory in (spool, restored):
            with MessageDatabase.open(directory, max_data_file_size=MODEST) as db:
                db.add("q", b"two")
                assert db.cleanup(compact=True).freed_bytes >= 0

    assert as_service(goes_on) == 0


@needs_root
def test_what_clean_up_retains_and_a_repair_archives_is_the_services_too(home: Path) -> None:
    spool = home / "spool"
    with open_small(spool, retention_directory=home / "retained" / "deeper") as db:
        churn(db, 3)
        assert db.cleanup().moved
        db.add("q", b"kept")
        name = f"omsmsg-{db._journal.active_sequence:010}.data"
        db.add("q", b"damaged")
    data = bytearray((spool / name).read_bytes())
    data[data.index(b"damaged") - 100] ^= 1
    (spool / name).write_bytes(data)
    with open_small(spool) as db:
        assert not db.recovery.intact
    assert not strangers(home)


@needs_root
def test_a_file_that_was_there_is_given_to_nobody(home: Path) -> None:
    """The directory's owner could have made its name a link to any file of root's."""
    outside = Path(tempfile.mkdtemp(prefix="oms-root-", dir="/tmp"))
    try:
        (outside / "secret").write_bytes(b"")
        (home / "omsmsg.lock").symlink_to(outside / "secret")
        RealDisk().open_lock(home / "omsmsg.lock").close()
        RealDisk().open(home / "omsmsg.lock", writable=True).close()
        (home / "link").symlink_to(outside)
        RealDisk().make_directory(home / "link")
        assert (outside / "secret").stat().st_uid == outside.stat().st_uid == 0
    finally:
        shutil.rmtree(outside)


@needs_root
def test_in_a_directory_of_its_own_root_keeps_what_it_makes(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path / "spool", max_data_file_size=MODEST) as db:
        db.add("q", b"x")
    assert {path.stat().st_uid for path in (tmp_path / "spool").iterdir()} == {0}


@needs_root
@pytest.mark.parametrize("name", ["omsmsg.lock", "omsmsg-0000000001.data"])
def test_whose_file_it_is_that_locks_the_service_out_is_said(home: Path, name: str) -> None:
    spool = home / "spool"
    with open_small(spool) as db:
        db.add("q", b"x")
    os.chown(spool / name, 0, 0)
    text = refusal(home)
    assert f"{spool / name} belongs to root (uid 0) and you are uid {SERVICE}: have it given to you" in text
    assert "chown 54321" in text


@needs_root
def test_the_directory_of_another_user_is_named_as_such(home: Path) -> None:
    spool = home / "spool"
    with open_small(spool) as db:
        db.add("q", b"x")
    os.chown(spool, SERVICE + 1, SERVICE + 1)
    assert f"{spool} belongs to uid {SERVICE + 1} and you are uid {SERVICE}" in refusal(home)


@needs_root
def test_permissions_that_the_owner_took_from_itself_are_named(home: Path) -> None:
    spool = home / "spool"
    with open_small(spool) as db:
        db.add("q", b"x")
    (spool / "omsmsg.lock").chmod(stat.S_IRUSR)
    assert f"{spool / 'omsmsg.lock'} is yours, and its permissions (0400) do not let you" in refusal(home)


@pytest.mark.whole
@needs_root
@pytest.mark.parametrize(
    "words",
    ["list", "verify", "send q x", "receive q", "recover", "cleanup", "backup {other}", "backup --verify {spool}"],
)
def test_a_command_in_another_users_directory_says_whose_it_is(home: Path, words: str) -> None:
    spool = home / "spool"
    oms("send", "q", "x", spool=spool)
    os.chown(spool, 0, 0)
    said = home / "said"
    line = words.format(spool=spool, other=home / "other").split()

    def asks() -> None:
        with said.open("w") as file, redirect_stderr(file), pytest.raises(SystemExit) as ended:
            sys.argv = ["oms", *line, "--spool", str(spool)]
            main()
        assert ended.value.code == ExitCode.UNUSABLE

    assert as_service(asks) == 0
    text = said.read_text()
    assert f"{spool} belongs to root (uid 0) and you are uid {SERVICE}" in text
    assert not faults_of(text, (str(spool),))
