"""Real processes: one writes under load and is killed, another one follows with a backup and is killed too.

Whatever moment it was: the backup holds exactly what the writer's own record says after the commit that the backup's
manifest names.

The sample kills in two ways and makes one backup of each kind; the whole, in four other rounds.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from oms_journal import DatabaseView
from oms_journal.database.backup.verification import verify_backup
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format import manifest
from tests.support.cli_runner import command_line, environment
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.project import PYTHONPATH, REPOSITORY
from tests.support.sweeps import split
from tests.support.warm_starts import Process

State = tuple[dict[int, str], dict[str, str]]


@dataclass
class Record:
    """What the writers say: the state after each commit that was acknowledged, and after each start."""

    states: list[tuple[int, State]] = field(default_factory=list)
    begun: list[tuple[int, State]] = field(default_factory=list)  # with the first number that its commit may have
    found: list[tuple[int, State]] = field(default_factory=list)  # by a start: an unanswered commit may be in it

    def enter(self, line: dict[str, Any]) -> None:
        if "messages" in line:
            state = ({int(number): text for number, text in line["messages"].items()}, line["keys"])
            self.found.append((line["commit"], state))
        else:
            messages, keys = self.states[-1][1]
            kept = {number: text for number, text in messages.items() if number not in line["removed"]}
            added = {int(number): text for number, text in line["added"].items()}
            state = (kept | added, keys | {line["put"][0]: line["put"][1]})
            self.begun.append((line["after"] + 1, state))
        self.states.append((line["commit"], state))

    def allowed(self, commit: int) -> list[State]:
        """Return what a backup may hold that ends with this commit."""
        known = [(number, state) for number, state in self.states if number <= commit]
        later = [state for number, state in self.found if number >= commit]
        is_last = len(known) < len(self.states) and self.states[len(known)] in self.found
        in_it = [state for number, state in self.begun if number <= commit]
        return [known[-1][1], *in_it[-1:], *(later[:1] if is_last else [])]


@contextlib.contextmanager
def process(command: list[str], **named: Any) -> Iterator["subprocess.Popen[bytes]"]:
    running: Process[bytes] = Process(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, cwd=REPOSITORY, **named)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def following(spool: Path, target: Path) -> "contextlib.AbstractContextManager[subprocess.Popen[bytes]]":
    command = command_line("backup", str(target), "--follow", "--interval", "0.02", "--json")
    return process(command, env=environment(spool))


def writing(spool: Path, seed: str) -> "contextlib.AbstractContextManager[subprocess.Popen[bytes]]":
    command = [sys.executable, "-m", "tests.support.crashes.backup_writer", str(spool), seed]
    return process(command, env=os.environ | {"PYTHONPATH": PYTHONPATH})


@pytest.mark.whole
@pytest.mark.parametrize("turns", split([(0, 1)], [(2, 3, 4, 5)]))
def test_a_followed_backup_is_what_the_writer_was_promised_whoever_is_killed(
    tmp_path: Path, turns: tuple[int, ...]
) -> None:
    spool, target, record = tmp_path / "spool", tmp_path / "backup", Record()
    shipped: list[tuple[int, State]] = []
    checked = 0
    for turn in turns:
        with writing(spool, str(turn)) as writer:
            _enter(record, writer, 5)
            checked += _check(shipped, record)
            with following(spool, target) as follower:
                _enter(record, writer, 60 + 37 * turn)
                _until(lambda: manifest.read(RealDisk(), target) is not None)
                follower.send_signal(signal.SIGKILL)
                follower.wait()
                _enter(record, writer, 20)
            with following(spool, target) as follower:
                _shipped_behind(target, record.states[-1][0])
                _enter(record, writer, 60)
                writer.send_signal(signal.SIGKILL if turn % 2 else signal.SIGSTOP)
                time.sleep(0.3)
                follower.send_signal(signal.SIGKILL if turn % 3 else signal.SIGTERM)
                follower.wait()
                writer.kill()
                _enter(record, writer)
            shipped.append(_shipped(target))
    with writing(spool, "last") as writer:
        _enter(record, writer, 30)
        checked += _check(shipped, record)
        writer.communicate(b".", TIMEOUT_SECONDS)
    with following(spool, target) as follower:
        _until(lambda: (found := manifest.read(RealDisk(), target)) is not None and found.was_closed)
        follower.send_signal(signal.SIGTERM)
        assert follower.wait(TIMEOUT_SECONDS) == 0
    assert checked == len(turns)
    assert _state_of(target) == _state_of(spool)
    reports = verify_backup(target)
    assert reports is not None and {report.verdict for report in reports} == {"clean"}


def _enter(record: Record, writer: "subprocess.Popen[bytes]", count: int | None = None) -> None:
    """Enter so many lines, or all that are left; a cut line says nothing."""
    assert writer.stdout is not None
    while count is None or count > 0:
        line = writer.stdout.readline()
        if not line.endswith(b"\n"):
            assert count is None, "the writer has ended"
            return
        record.enter(json.loads(line))
        count = None if count is None else count - 1


def _until(is_so: Any) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def _shipped_behind(target: Path, commit: int) -> None:
    _until(lambda: (found := manifest.read(RealDisk(), target)) is not None and found.tail.commit >= commit)


def _shipped(target: Path) -> tuple[int, State]:
    """Return the commit with which a backup ends, and what it holds."""
    found = manifest.read(RealDisk(), target)
    assert found is not None and found.is_complete
    return found.tail.commit, _state_of(target)


def _check(shipped: list[tuple[int, State]], record: Record) -> int:
    """Check what was shipped so far, and forget it; return of how many backups.

    The writer may have been killed before it told of its last commit. What the next start finds has that one too.
    """
    count = len(shipped)
    for commit, state in shipped:
        assert state in record.allowed(commit)
    shipped.clear()
    return count


def _state_of(directory: Path) -> State:
    with DatabaseView.open(directory) as view:
        messages = {message.number: message.payload.decode() for message in view.undelivered()}
        return messages, {key: (view.get(key) or b"").decode() for key in list(view.keys())}


@pytest.mark.whole
@pytest.mark.parametrize("numbers", split([(0, 1)], [(2, 3, 4, 5)]))
def test_a_backup_of_a_database_at_work_is_of_one_commit(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    spool, record = tmp_path / "spool", Record()
    with writing(spool, "1") as writer:
        for number in numbers:
            _enter(record, writer, 40)
            target = tmp_path / f"backup-{number}"
            command = command_line("backup", str(target), *(["--copy"] if number % 2 else []), "--json")
            with process(command, env=environment(spool)) as backing:
                while backing.poll() is None:
                    _enter(record, writer, 1)
                assert backing.returncode == 0, backing.stdout.read() if backing.stdout else None
        writer.kill()
        _enter(record, writer)
    with writing(spool, "last") as writer:
        _enter(record, writer, 1)
    assert _check([_shipped(tmp_path / f"backup-{number}") for number in numbers], record) == len(numbers)
