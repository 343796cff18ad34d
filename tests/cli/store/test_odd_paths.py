"""A directory whose path is not UTF-8 is a directory like any other: every command works in it, and can name it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from tests.support.cli_runner import command_line, environment, oms
from tests.support.warm_starts import Process

ODD = os.fsdecode(b"sp\xff\xe9ol")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    spool = tmp_path / ODD
    with MessageDatabase.open(spool, max_data_file_size=16_384) as db:
        db.add_many("q", [b"a" * 1000, b"b", b"c"])
        db.deliver(1)
    return spool


def run(*arguments: str, spool: Path, variables: dict[str, str] | None = None) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        command_line(*arguments),
        env=environment() | {"SPOOL_DIRECTORY": str(spool)} | (variables or {}),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


COMMANDS: list[tuple[list[str], int]] = [
    (["send", "q", "text"], 0),
    (["list"], 0),
    (["list", "--held"], 0),
    (["show", "2"], 0),
    (["stats"], 0),
    (["explain"], 0),
    (["verify"], 0),
    (["recover"], 0),
    (["recover", "--dry-run"], 0),
    (["cleanup"], 0),
    (["dump"], 0),
    (["backup", "{backup}"], 0),
    (["backup", "{backup}", "--verify"], 0),
    (["backup", "{spool}/in"], 2),
    (["restore", "{backup}", "--spool", "{new}"], 0),
    (["restore", "{backup}", "--spool", "{new}"], 4),
    (["stats", "--spool", "{new}"], 0),
    (["list", "--spool", "{backup}"], 0),
    (["receive", "q", "--spool", "{backup}"], 4),
    (["stats", "--spool", "{missing}"], 2),
    (["backup", "{backup}", "--spool", "{missing}"], 2),
    (["restore", "{missing}", "--spool", "{new}2"], 4),
    (["receive", "q"], 0),
    (["delete", "3", "--yes"], 0),
]


@pytest.mark.parametrize("as_json", [False, True], ids=["for people", "json"])
def test_every_command_works_there_and_can_name_it(spool: Path, as_json: bool) -> None:
    places = {name: str(spool.parent / f"{name}-{ODD}") for name in ("backup", "new", "missing")}
    for words, code in COMMANDS:
        arguments = [word.format(spool=spool, **places) for word in words]
        if as_json and words[0] not in ("cleanup", "send"):
            arguments.append("--json")
        result = oms(*arguments, spool=spool, code=code)
        assert "bug in oms" not in result.stderr, words
        if as_json and result.stdout and words[0] not in ("receive", "dump", "cleanup", "send"):
            json.loads(result.stdout)


@pytest.mark.whole
@pytest.mark.parametrize("encoding", ["ascii:strict", "utf-8:strict", "latin-1:strict"])
def test_what_a_terminal_cannot_show_is_escaped(spool: Path, encoding: str) -> None:
    variables = {"PYTHONIOENCODING": encoding}
    for words in (["stats"], ["backup", str(spool.parent / "żółć"), "--copy"], ["restore", "żółć", "--spool", "ż"]):
        result = run(*words, spool=spool, variables=variables)
        said = result.stdout + result.stderr
        assert b"Traceback" not in said and b"Unicode" not in said, said


@pytest.mark.whole
def test_a_database_there_is_backed_up_followed_and_restored_whole(spool: Path, tmp_path: Path) -> None:
    backup = tmp_path / ("backup" + ODD)
    follower = Process(
        command_line("backup", str(backup), "--follow", "--interval", "0.02", "--json"),
        env=environment() | {"SPOOL_DIRECTORY": str(spool)},
        stdout=subprocess.PIPE,
    )
    assert follower.stdout is not None
    first = json.loads(follower.stdout.readline())
    follower.terminate()
    follower.communicate(timeout=60)
    assert follower.returncode == 0
    assert first["report"]["directory"] == str(backup)
    said = json.loads(run("restore", str(backup), "--json", spool=tmp_path / "new").stdout)
    assert (said["went_on"], said["held"], said["undelivered"]) == (False, 0, 2)
    assert said["source"].partition(":")[2] == str(spool), "so it was looked for where it is"
