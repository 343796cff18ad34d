"""Names that would command a terminal, forge a line, or hide what they are: who prints them makes them harmless."""

import itertools
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from tests.support.cli_runner import oms
from tests.support.disks.small_files import MODEST
from tests.support.sweeps import a_sample

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31m\r\nforged line\x9b1A\x7f\u202eesrever\u2066\u200f\ud7ff\U000e0041"
COMMANDS: dict[str, tuple[list[str], int | None]] = {
    "list": (["list"], 0),
    "list of a queue": (["list", EVIL], 0),
    "list of none": (["list", EVIL + "x"], 0),
    "show": (["show", "1"], 0),
    "stats": (["stats"], 0),
    "explain": (["explain"], 0),
    "dump": (["dump"], 0),
    "dump with payloads": (["dump", "--payload"], 0),
    "dump of a queue": (["dump", "--queue", EVIL], 0),
    "verify": (["verify"], 0),
    "receive from none": (["receive", EVIL + "x"], None),
    "send": (["send", EVIL, "text", "--property", f"{EVIL}={EVIL}"], 0),
    "send with a wrong property": (["send", "q", "text", "--property", EVIL], 2),
    "delete": (["delete", EVIL, "--dry-run"], None),
    "drop": (["drop", EVIL, "--dry-run"], None),
    "an unknown command": ([EVIL], 2),
    "an unknown option": (["list", "--" + EVIL], 2),
    "a wrong number": (["show", EVIL], 2),
    "a spool that is not there": (["list", "--spool", "/nowhere/" + EVIL], None),
    "a file that is not there": (["load", "/nowhere/" + EVIL, "--queue", "q"], None),
    "attributes that are not there": (["attributes", "/nowhere/" + EVIL], None),
    "cleanup": (["cleanup"], 0),
    "recover": (["recover"], 0),
    "estimate": (["estimate"], None),
    "unhold": (["unhold", "--all"], None),
}


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    directory = tmp_path / "spool"
    with MessageDatabase.open(directory, max_data_file_size=MODEST) as db:
        db.add(EVIL, EVIL.encode(), properties={EVIL: EVIL}, producer_id=EVIL)
        db.add_many("plain", [b"x", b"\x1b[31m" + b"y" * 100])
        db.put(EVIL, EVIL.encode())
        with db.commit() as commit:
            commit.deliver(2)
            commit.drop("never there")
    (directory / f"{EVIL.replace('/', '')[:40]}.data").write_bytes(b"a stranger")
    return directory


def harmless(text: str) -> bool:
    """Say whether a terminal shows the text as it is, line by line; a table is drawn in styles of its own."""
    plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "")
    is_shown = all(line.isprintable() for line in plain.split("\n"))
    return is_shown and "\nforged" not in plain and "this is a bug" not in plain and "Traceback" not in plain


@a_sample(9)
@pytest.mark.parametrize("what", COMMANDS)
def test_no_name_reaches_a_terminal_as_it_is(spool: Path, what: str) -> None:
    arguments, code = COMMANDS[what]
    try:
        result = oms(*arguments, spool=spool, code=0 if code is None else code)
    except AssertionError as failure:
        if code is not None:
            raise
        assert harmless(str(failure)), failure
        return

    assert harmless(result.stdout), result.stdout
    assert harmless(result.stderr), result.stderr


@pytest.mark.parametrize("what", ["list", "show", "stats", "explain", "dump", "verify"])
def test_json_has_every_name_and_nothing_that_a_terminal_acts_upon(spool: Path, what: str) -> None:
    result = oms(*COMMANDS[what][0], "--json", spool=spool)

    assert result.stdout.isascii() and harmless(result.stdout)
    if what in ("list", "show", "stats", "dump"):
        assert "forged line" in result.stdout


def test_a_damaged_file_is_told_of_without_what_stands_in_it(spool: Path) -> None:
    path = min(spool.glob("omsmsg-*.data"))
    data = bytearray(path.read_bytes())
    at = data.index(b"forged line")
    for place in itertools.chain(range(at - 40, at - 36), range(at, at + 4)):
        data[place] ^= 0x55
    path.write_bytes(data)

    for arguments in (["verify"], ["dump"], ["recover"], ["list"], ["stats"]):
        try:
            result = oms(*arguments, spool=spool)
            printed = result.stdout + result.stderr
        except AssertionError as failure:
            printed = str(failure)
        assert harmless(printed), printed
