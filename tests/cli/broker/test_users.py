"""`oms user`: a users file made and changed on the command line."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from oms_journal.broker.rights import Right
from oms_journal.broker.server.security.users import read_users
from tests.support.cli_runner import command_line, environment, oms
from tests.support.sweeps import a_sample

SECRET = "correct horse battery"


def added(path: Path, *names: str) -> Path:
    for name in names:
        oms("user", "add", str(path), name, stdin=f"{SECRET}\n".encode())
    return path


def test_a_user_is_added_allowed_denied_listed_and_removed(tmp_path: Path) -> None:
    path = added(tmp_path / "users", "ALICE", "BOB")
    for arguments in (
        ("allow", "ALICE", "send", "/queue/ORDERS", "topic/*"),
        ("allow", "ALICE", "receive", "QUEUE/*"),
        ("deny", "ALICE", "receive", "QUEUE/SECRET*"),
        ("deny", "ALICE", "send", "topic/*"),
        ("allow", "BOB", "administer", "*"),
    ):
        oms("user", arguments[0], str(path), *arguments[1:])

    shown = json.loads(oms("user", "list", str(path), "--json").stdout)
    assert shown == {
        "users": [
            {
                "user": "ALICE",
                "allow": {"send": ["QUEUE/ORDERS/-"], "receive": ["QUEUE/*"]},
                "deny": {"receive": ["QUEUE/SECRET*"], "send": ["topic/*"]},
            },
            {"user": "BOB", "allow": {"administer": ["*"]}, "deny": {}},
        ]
    }
    people = oms("user", "list", str(path)).stdout
    assert "QUEUE/SECRET*" in people and "may not" in people and "scrypt" not in people

    oms("user", "remove", str(path), "BOB")
    assert set(read_users(path)) == {"ALICE"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_was_denied_is_allowed_again_and_the_other_way_round(tmp_path: Path) -> None:
    path = added(tmp_path / "users", "ALICE")
    for verb in ("allow", "deny", "allow", "allow"):
        oms("user", verb, str(path), "ALICE", "look", "broker")

    found = read_users(path)["ALICE"]
    assert (found.allow[Right.LOOK], found.deny.get(Right.LOOK, ())) == (("broker",), ())


def test_a_password_is_changed_and_the_rights_stay(tmp_path: Path) -> None:
    path = added(tmp_path / "users", "ALICE")
    oms("user", "allow", str(path), "ALICE", "send", "*")

    oms("user", "password", str(path), "ALICE", stdin=b"another password\r\n")

    found = read_users(path)["ALICE"]
    assert found.password.fits("another password") and not found.password.fits(SECRET)
    assert found.may(Right.SEND, "A/B/C")


@a_sample(4)
@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "says"),
    [
        (("add", "FILE", "ALICE"), SECRET, 1, "there is a user ALICE already"),
        (("add", "FILE", "BOB"), "short", 2, "at least 8 characters"),
        (("add", "FILE", "BOB"), "", 2, "at least 8 characters"),
        (("add", "FILE", "B:OB"), SECRET, 2, "without a colon"),
        (("password", "FILE", "BOB"), SECRET, 1, "there is no user BOB"),
        (("remove", "FILE", "BOB"), "", 1, "there is no user BOB"),
        (("allow", "FILE", "BOB", "send", "*"), "", 1, "there is no user BOB"),
        (("allow", "FILE", "ALICE", "fly", "*"), "", 2, "'fly'"),
        (("allow", "FILE", "ALICE", "send", "ORDERS"), "", 2, "ORDERS is none of"),
        (("list", "MISSING"), "", 4, "cannot be read"),
        (("remove", "MISSING", "ALICE"), "", 4, "cannot be read"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(
    tmp_path: Path, arguments: tuple[str, ...], stdin: str, code: int, says: str
) -> None:
    path = added(tmp_path / "users", "ALICE")
    before = path.read_bytes()
    names = {"FILE": str(path), "MISSING": str(tmp_path / "missing")}

    done = oms("user", *(names.get(each, each) for each in arguments), stdin=stdin.encode(), code=code)

    assert says in done.stderr and SECRET not in done.output
    assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == ["users"]


def test_a_file_that_others_can_read_is_not_even_listed(tmp_path: Path) -> None:
    path = added(tmp_path / "users", "ALICE")
    path.chmod(0o644)

    for arguments in (("list", str(path)), ("allow", str(path), "ALICE", "send", "*")):
        assert "chmod 600" in oms("user", *arguments, code=4).stderr


def test_while_another_changes_the_file_nobody_else_does(tmp_path: Path) -> None:
    path = added(tmp_path / "users", "ALICE")
    (tmp_path / "users.new").touch()

    assert "another `oms user` is at work" in oms("user", "remove", str(path), "ALICE", code=3).stderr
    assert set(read_users(path)) == {"ALICE"}


@pytest.mark.whole
def test_at_a_terminal_the_password_is_asked_for_twice_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "users"
    for second, code in ((SECRET, 0), ("something else", 1)):
        ours, theirs = pty.openpty()
        try:
            child = subprocess.Popen(
                command_line("user", "add", str(path), f"USER{code}"),
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=environment(),
                start_new_session=True,
            )
            os.close(theirs)
            shown = _heard(ours, "Password of")
            os.write(ours, f"{SECRET}\n".encode())
            shown += _heard(ours, "again")
            os.write(ours, f"{second}\n".encode())
            shown += _heard(ours, "")
            assert child.wait(20) == code
            assert SECRET not in shown
        finally:
            os.close(ours)

    assert set(read_users(path)) == {"USER0"}


def _heard(terminal: int, until: str) -> str:
    """Return what the terminal shows until the text comes, or the end."""
    shown = ""
    while not until or until not in shown:
        try:
            data = os.read(terminal, 4096)
        except OSError:  # the other side is closed
            break
        if not data:
            break
        shown += data.decode()
    return shown
