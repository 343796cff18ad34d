"""Whatever is wrong is refused with words for people: the argument, what was expected, and what came."""

from pathlib import Path

import pytest

from tests.cli_runner import invoked
from tests.small_files import open_small
from tests.wrong_inputs import CALLS, COMMANDS, Call, Command, faults_of

PLACES = ("none", "empty", "file", "binary", "other", "spool", "out")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the paths that a row may name; the working directory is another one."""
    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")
    for name in ("OMS_BROKER", "OMS_USER", "OMS_PASSWORD", "ETB_ATTR"):
        monkeypatch.delenv(name, raising=False)
    found = {name: tmp_path / name for name in PLACES}
    found["empty"].mkdir()
    found["other"].mkdir()
    (found["other"] / "notes.txt").write_text("not ours")
    found["file"].write_text("one,two\nthree\nfour five six\n")
    found["binary"].write_bytes(b"\xff\xfe\x00\x80")
    return {name: str(path) for name, path in found.items()}


@pytest.mark.parametrize("row", COMMANDS, ids=str)
def test_a_wrong_command_line_is_refused_in_words_for_people(row: Command, places: dict[str, str]) -> None:
    if any("{spool}" in word for word in row.line):
        with open_small(Path(places["spool"])):
            pass
    before = _below(places)
    words = [word.format(**places) for word in row.line]

    result = invoked(*words, stdin=row.stdin, variables={"COLUMNS": "80", **row.variables})

    named = tuple(text.format(**places) for text in row.named)
    assert result.exit_code == row.code, f"{result.stdout}\n{result.stderr}"
    assert result.stdout == ""
    assert all(line.startswith("oms: ") for line in result.stderr.splitlines()), result.stderr
    assert faults_of(result.stderr, named) == [], result.stderr
    assert _below(places) == before, "what is refused has changed nothing"


def _below(places: dict[str, str]) -> set[Path]:
    """Return every path that there is, but for those of a database, which an opening may change."""
    above = Path(places["none"]).parent
    return {path for path in above.rglob("*") if not path.is_relative_to(above / "spool")}


@pytest.mark.parametrize("row", CALLS, ids=str)
def test_a_wrong_call_is_refused_in_words_for_people(row: Call, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        with pytest.raises(row.raises) as refused:
            row.call(db, tmp_path / "more")

        assert faults_of(str(refused.value), row.named) == [], str(refused.value)
        assert db.add("q", b"goes on") == 1
        assert db.undelivered_count() == 1


def test_the_table_has_a_row_for_every_command() -> None:
    from cli.main import app

    described = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    groups = {group.name for group in app.registered_groups}
    assert described | groups - {None} <= {word for row in COMMANDS for word in row.line[:1]} | {"oms"}
    assert len(COMMANDS) + len(CALLS) >= 80
