"""The program as a whole: its commands, their help, what it imports, how every failure ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from oms_journal.cli.failures import ExitCode, Failure, meaning, tell
from oms_journal.cli.main import app
from oms_journal.journal import errors
from oms_journal.journal.errors import JournalError
from oms_journal.journal.format.records import BadRecord
from tests.support.cli_runner import command_line, environment, oms, oms_process, run_program
from tests.support.project import REPOSITORY
from tests.support.sweeps import a_sample

COMMANDS = [
    *("load", "send", "receive", "list", "show", "dump", "stats", "explain", "delete", "drop", "release", "verify"),
    *("recover", "cleanup", "backup", "restore", "io-test", "demo"),
]


def test_every_command_of_the_manual_is_there() -> None:
    listed = [
        line.split()[0] for line in oms("--help").stdout.split("Commands:")[1].splitlines() if line.startswith("  ")
    ]

    assert listed[: len(COMMANDS)] == COMMANDS


def test_the_one_line_help_of_no_command_is_cut() -> None:
    assert "..." not in oms("--help").stdout.split("Commands:")[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_fits_eighty_columns(name: str) -> None:
    text = oms(name, "--help").stdout

    assert f"Usage: oms {name}" in text
    assert "--json" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_and_argument_is_explained(name: str) -> None:
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    with command.make_context(name, [], resilient_parsing=True) as context:
        for parameter in context.command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"


@a_sample(1)
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["nonsense"]])
def test_help_does_not_wait_for_the_engine(arguments: list[str]) -> None:
    script = (
        "import sys, oms_journal.cli.main\n"
        "try: oms_journal.cli.main.main()\n"
        "except SystemExit: pass\n"
        "never = ('numpy', 'rich', 'oms_journal.database', 'oms_journal.recovery', 'oms_journal.index', 'pyspark',\n"
        "         *(f'oms_journal.cli.{room}' for room in ('messages', 'store', 'history', 'broker', 'demo')))\n"
        "print([name for name in never if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment(),
        capture_output=True,
        check=True,
        text=True,
    )

    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_one_line() -> None:
    assert oms("--version").stdout.startswith("oms ")


def test_without_a_command_the_help_is_printed_and_the_usage_is_wrong() -> None:
    result = oms(code=2)

    assert result.stdout == ""
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["send"],
        ["send", "q", "text", "more"],
        ["send", "q", "--property", "novalue", "text"],
        ["send", "q", "--property", "=v", "text"],
        ["send", "q", "text", "--max-message-size", "lots"],
        ["send", "q", "text", "--max-message-size", "2G"],
        ["send", "q", "text", "--wait", "-1"],
        ["load", "/nonexistent", "--queue", "q"],
        ["load", "-"],
        ["load", "-", "--queue", "q", "--batch", "0"],
        ["load", "-", "--queue", "q", "--format", "xml"],
        ["receive", "q", "--count", "0"],
        ["receive", "q", "--count", "many"],
        ["show", "seven"],
        ["show", "0"],
        ["dump", "--payload", "--redact"],
        ["dump", "--operation", "READ"],
        ["delete"],
        ["delete", "1", "--queue", "q"],
        ["delete", "1", "--older", "1h", "--yes"],
        ["recover", "--policy", "hope"],
        ["stats", "extra"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("as_json", [False, True])
def test_wrong_usage_is_one_line_and_changes_nothing(arguments: list[str], as_json: bool, tmp_path: Path) -> None:
    result = oms(*arguments, *["--json"] * as_json, spool=tmp_path, code=2)

    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    if as_json:
        assert json.loads(result.stderr)["exit"] == 2
    else:
        assert result.stderr.startswith("oms: ")


def test_a_typing_error_gets_a_suggestion() -> None:
    assert "did you mean send?" in oms("sned", code=2).stderr


def every_error() -> list[JournalError]:
    path, refused = Path("/x/omsmsg-0000000001.data"), OSError(5, "Input/output error")
    return [
        errors.DiskError(path, refused),
        errors.DiskFull(path, OSError(28, "No space left on device")),
        errors.FormatError(path, 4, "bad"),
        errors.NewerFormat(path, 8, "version 2"),
        BadRecord("unknown"),
        errors.NotADatabase(path.parent, beside="notes"),
        errors.NotThisDatabase("strangers"),
        errors.IsBackup(path.parent),
        errors.NotThisBackup("another"),
        errors.BehindItsBackup(path.parent, path.parent, 3, 1),
        errors.NotReadBack("lies"),
        errors.NothingToBackUp("empty"),
        errors.RestoreRefused("not empty"),
        errors.RestoreUnfinished(path.parent),
        errors.BackupUnfinished(path.parent),
        errors.ManifestDamaged(path.parent, "bad"),
        errors.RecoveryRefused("damage"),
        errors.DatabaseLocked(path, pid=7, host="h"),
        errors.TakenOver(),
        errors.DirectoryGone(path.parent),
        errors.CannotContinue("changed"),
        errors.DatabaseClosed("closed"),
        errors.OutsideBlock("left"),
        errors.Contention("others"),
        errors.UnreadableCommit("mistake"),
        errors.OutcomeUnknown("unknown"),
        errors.NotAttempted("not"),
        errors.LimitExceeded("long"),
        errors.InvalidName("name"),
        errors.DuplicateConflict("twice"),
        errors.NotUndelivered(3),
        errors.QueueFull("q", limit=1, count=1),
        errors.NoSuchMessage(3),
        errors.LeaseEnded(3),
        errors.NotServed(path, "nobody"),
        errors.SocketRefused(path, "taken"),
        errors.MessageDamaged(3, path, 4, "bad"),
    ]


def leaves(kind: type[JournalError]) -> set[type[JournalError]]:
    below = kind.__subclasses__()
    return {kind} if not below else set().union(*map(leaves, below))


def test_every_error_of_the_engine_has_its_line_and_code() -> None:
    codes = {type(error): meaning(error).code for error in every_error()}
    others = ("oms_journal.analysis.", "oms_journal.broker.")
    of_engine = {kind for kind in leaves(JournalError) if not kind.__module__.startswith(others)}

    assert of_engine <= set(codes)
    assert codes[errors.DatabaseLocked] is ExitCode.LOCKED
    assert {kind for kind, code in codes.items() if code is ExitCode.USAGE} == {
        errors.LimitExceeded,
        errors.InvalidName,
        errors.NotADatabase,
    }
    assert {kind for kind, code in codes.items() if code is ExitCode.NO} == {
        errors.DuplicateConflict,
        errors.NotUndelivered,
        errors.NoSuchMessage,
        errors.MessageDamaged,
    }


@pytest.mark.parametrize("number", [1, 2, 5, 13, 20, 28, 30, 122])
def test_an_error_of_the_system_says_what_to_do_where_that_is_known(number: int) -> None:
    failure = meaning(OSError(number, "refused", "/x"))

    assert failure.code is ExitCode.UNUSABLE
    assert "/x" in str(failure)


def test_a_failure_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    failure = Failure("queue a\nb\x1b[2J", ExitCode.NO, number=7)

    tell(failure, as_json=False)
    tell(failure, as_json=True)

    plain, as_json = capsys.readouterr().err.splitlines()
    assert plain == "oms: queue a\\nb\\x1b[2J"
    assert json.loads(as_json) == {"error": "Failure", "message": "queue a\nb\x1b[2J", "exit": 1, "number": 7}


def test_the_module_runs_as_the_program() -> None:
    assert oms_process("--help").returncode == 0
    assert command_line("list")[1:] == ["-m", "oms_journal.cli", "list"]
    assert (REPOSITORY / "cli" / "__main__.py").exists()


@a_sample(1)
@pytest.mark.parametrize("command", ["send", "list", "show", "stats", "explain", "verify"])
def test_the_help_of_a_command_that_is_typed_often_loads_no_engine(command: str) -> None:
    program = f"""
        import sys
        from oms_journal.cli.main import app
        try:
            app(["{command}", "--help"], prog_name="oms")
        except SystemExit as end:
            assert end.code == 0
        print([name for name in ("numpy", "oms_journal.database.database") if name in sys.modules])
    """

    found = run_program(program)

    assert found.stdout.splitlines()[-1] == "[]", found.stderr
