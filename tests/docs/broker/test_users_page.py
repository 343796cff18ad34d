"""The how-to on users: its commands give the rights that it says, and what it names is there."""

import re
import shlex
from pathlib import Path

import pytest

from oms_journal.broker.attributes.keywords import CANONICAL
from oms_journal.broker.rights import Right
from oms_journal.broker.server.security.users import read_users
from tests.support.cli_runner import oms
from tests.support.project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "how-to" / "users-and-rights.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^\$ (?:echo .*? \| )?(oms user .*)$", re.MULTILINE)


def test_the_commands_for_users_run_and_mean_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = COMMAND.findall(PAGE)
    assert len(lines) >= 6
    for line in lines:
        oms(*shlex.split(line)[1:], stdin=b"a long password\n")

    users = read_users(tmp_path / "users")
    alice, root = users["ALICE"], users["ROOT"]
    assert alice.may(Right.SEND, "QUEUE/ORDERS/-") and alice.may(Right.RECEIVE, "QUEUE/ORDERS-NEW/-")
    assert alice.may(Right.SEND, "topic/NEWS") and not alice.may(Right.RECEIVE, "topic/NEWS")
    assert not alice.may(Right.SEND, "QUEUE/ORDERS-TEST/-")
    assert root.may(Right.ADMINISTER, "broker") and root.may(Right.LOOK, "broker")
    assert not root.may(Right.SEND, "QUEUE/ORDERS/-")


def test_the_attributes_and_rights_that_it_names_are_there() -> None:
    rights = set(re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE))
    table = PAGE.split("| attribute | says |")[1].split("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| ") and "---" not in row]
    attributes = {name.split("=")[0].strip() for cell in cells for name in cell.split(",")}

    assert attributes and attributes <= set(CANONICAL)
    assert rights == {right.value for right in Right}
