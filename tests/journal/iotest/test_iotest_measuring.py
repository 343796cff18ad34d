"""`oms io-test`, what writes: by what it leaves and reports, never by how fast it is."""

import errno
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DiskError, DiskFull
from oms_journal.journal.iotest.measurement import Bounds, measure
from oms_journal.journal.iotest.methods import (
    BLOCK,
    LOCK,
    LOCK_BYTE,
    METHODS,
    PREFIX,
    UNSYNCED,
    Method,
    NotHere,
    Space,
    Sync,
    Target,
    journal_method,
    lacking,
    open_target,
    payload,
    read_through,
    scratch,
)
from oms_journal.journal.iotest.place import look_at
from tests.support.cli_runner import command_line, environment, oms, oms_json, oms_process
from tests.support.warm_starts import Process

QUICK = Bounds(seconds=0.2, bytes_max=16 << 20, data_file_size=256 << 10)
HERE = [method for method in (*METHODS, UNSYNCED) if not lacking(method)]


# Methods


@pytest.mark.parametrize("method", HERE, ids=lambda method: method.name)
def test_a_target_holds_what_was_appended_and_begins_anew_when_it_is_full(method: Method, tmp_path: Path) -> None:
    target = open_target(method, tmp_path / "file", 2 * BLOCK)
    if isinstance(target, NotHere):
        pytest.skip(target.reason)
    data = payload(method, 3000)
    target.begin()

    assert all(target.append(data) >= 0 for _ in range(5))
    target.close()

    written = (tmp_path / "file").read_bytes()
    assert written.startswith(bytes(data))
    assert len(written) <= 2 * BLOCK


def test_what_the_system_lacks_is_said_and_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "RWF_DSYNC", raising=False)
    method = Method(Space.ZERO_FILLED, Sync.RWF_DSYNC)

    assert open_target(method, tmp_path / "file", BLOCK) == NotHere(method, "this system has no RWF_DSYNC")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP, errno.EIO])
def test_a_refusal_is_a_value_and_a_failure_is_raised(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    method = Method(Space.FALLOCATED, Sync.FSYNC)

    if number == errno.EIO:
        with pytest.raises(OSError, match=os.strerror(number)):
            open_target(method, tmp_path / "file", BLOCK)
    else:
        assert isinstance(open_target(method, tmp_path / "file", BLOCK), NotHere)


def test_the_journals_method_is_durable_and_works_where_tests_run(tmp_path: Path) -> None:
    assert journal_method().is_durable
    target = open_target(journal_method(), tmp_path / "file", BLOCK)
    assert isinstance(target, Target)
    target.close()


def test_reading_through_does_not_care_how_long_the_file_is(tmp_path: Path) -> None:
    for size in (0, 1, 3 << 20):
        (tmp_path / "file").write_bytes(bytes(size))
        assert read_through(tmp_path / "file", drop_cached=True)[0] >= 0


# The scratch directory


@pytest.mark.parametrize("ending", [None, ValueError, KeyboardInterrupt])
def test_the_scratch_directory_is_gone_however_it_ends(ending: type[BaseException] | None, tmp_path: Path) -> None:
    try:
        with scratch(tmp_path) as room:
            (room.path / "file").write_bytes(b"x")
            assert room.path.name.startswith(PREFIX)
            if ending is not None:
                raise ending
    except (ValueError, KeyboardInterrupt):
        assert ending is not None

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left, empty, strange = (tmp_path / f"{PREFIX}{name}" for name in ("aaaaaaaa", "bbbbbbbb", "cccccccc"))
    others = [tmp_path / "omsmsg-0000000001.data", tmp_path / f"{PREFIX}not-ours"]
    for made in (left, empty, strange, *others):
        made.mkdir()
    for file in (left / LOCK, left / "file", strange / "somebody's"):
        file.touch()

    with scratch(tmp_path) as room:
        assert [note.split()[:2] for note in room.notes] == [
            ["removed", f"{left.name},"],
            ["removed", f"{empty.name},"],
            [strange.name, "was"],
        ]

    assert sorted(tmp_path.iterdir()) == sorted([strange, *others])


def test_a_measurement_that_is_running_is_left_alone(tmp_path: Path) -> None:
    running = tmp_path / f"{PREFIX}aaaaaaaa"
    running.mkdir()
    lock = RealDisk().open_lock(running / LOCK)
    assert lock.try_lock(LOCK_BYTE)

    with scratch(tmp_path) as room:
        assert "is running here" in room.notes[0]
    lock.close()

    assert list(tmp_path.iterdir()) == [running]


# Measuring


@contextmanager
def _fake_journal(directory: Path) -> Iterator[Callable[[bytes], object]]:
    directory.mkdir()
    with (directory / "file").open("wb") as file:
        yield file.write


def test_a_measurement_reports_every_method_at_every_size_and_leaves_nothing(tmp_path: Path) -> None:
    stages: list[str] = []

    report = measure(tmp_path, QUICK, journal=_fake_journal, progress=lambda stage, *_: stages.append(stage))

    measured = {(each.method, each.size) for each in report.appends}
    not_here = {each.method for each in report.not_here}
    wanted = {(method.name, size) for method in METHODS if method not in not_here for size in QUICK.sizes}
    assert measured == wanted or (measured < wanted and "were not all measured" in report.notes[0])
    assert [each.size for each in report.journal] == [256, 1024]
    assert report.rollover is not None
    assert report.read is not None
    assert list(dict.fromkeys(stages)) == ["preparing", "appends", "rollover", "read", "journal"]
    assert json.loads(json.dumps(report.as_dict()))["appends"][0]["method"] == report.appends[0].method
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_into_the_space_is_left_out_and_said(tmp_path: Path) -> None:
    bounds = replace(QUICK, bytes_max=1 << 20, data_file_size=2 << 20)

    report = measure(tmp_path, bounds, journal=_fake_journal)

    assert (report.rollover, report.read, report.journal) == (None, None, ())
    assert max(each.size for each in report.appends) <= 64 << 10
    assert len(report.notes) == 3


def test_too_little_free_space_is_found_before_anything_is_written(tmp_path: Path) -> None:
    free = RealDisk().free_bytes(tmp_path)

    with pytest.raises(DiskFull, match="MiB are free"):
        measure(tmp_path, replace(QUICK, bytes_max=4 * free, data_file_size=2 * free))
    assert list(tmp_path.iterdir()) == []


def test_a_failing_journal_leaves_nothing(tmp_path: Path) -> None:
    def fail(_: Path) -> AbstractContextManager[Callable[[bytes], object]]:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(DiskError, match="cannot measure"):
        measure(tmp_path, QUICK, journal=fail)
    assert list(tmp_path.iterdir()) == []


# The command

BRIEF = ("--seconds", "0.3", "--max-data-file-size", "1M", "--bytes", "16M")


@pytest.mark.whole
def test_the_command_measures_this_journal_and_says_what_follows(tmp_path: Path) -> None:
    done = oms_process("io-test", str(tmp_path), *BRIEF)
    text = done.stdout.decode()

    assert "this journal" in text
    assert "Rollover" in text
    assert "█" in text
    assert ("The device's physical block: " in text) is ("WARNING: this seems not to sync" not in text)
    assert done.returncode == (1 if "WARNING: this seems not to sync" in text else 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.whole
def test_the_command_prints_one_json_document(tmp_path: Path) -> None:
    done = oms_process("io-test", str(tmp_path), *BRIEF, "--json")
    document = json.loads(done.stdout)

    assert done.returncode == (0 if document["sync"]["seems_to_sync"] else 1)
    assert {"p50", "p99", "p999", "max", "rate", "histogram"} <= document["appends"][0].keys()
    assert [each["size"] for each in document["journal"]] == [256, 1024]
    assert document["group_alignment"]["physical_block_size"] == document["place"]["physical_block_size"]
    assert document["group_alignment"]["default"] == 8


def test_memory_that_pretends_to_sync_is_told_from_a_disk() -> None:
    memory = Path("/dev/shm")
    mount = look_at(memory).mount if memory.is_dir() else None
    if mount is None or mount.file_system != "tmpfs" or not os.access(memory, os.W_OK):
        pytest.skip("no tmpfs here")

    document = oms_json("io-test", str(memory), *BRIEF, "--no-journal", spool=memory, code=1)

    assert "tmpfs" in document["sync"]["evidence"][0]
    assert document["journal"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["missing"], 2, "make the directory first"),
        (["file"], 2, "give a directory"),
        ([".", "--bytes", "lots"], 2, "is not a size"),
        ([".", "--bytes", "4K"], 2, "at least"),
        ([".", "--seconds", "0"], 2, "--seconds"),
        ([".", "--max-data-file-size", "1"], 2, "--max-data-file-size"),
        ([], 2, "DIR"),
    ],
)
def test_what_cannot_be_measured_is_one_line(arguments: list[str], code: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    paths = [str(tmp_path / argument) for argument in arguments[:1]]

    result = oms("io-test", *paths, *arguments[1:], code=code)

    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.whole
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_stopped_cleans_up_and_after_a_killed_one_the_next_does(
    number: signal.Signals, tmp_path: Path
) -> None:
    command = command_line("io-test", str(tmp_path), "--seconds", "30")
    with Process[bytes](command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 30
        while not list(tmp_path.glob(f"{PREFIX}*/*fdatasync")) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)

    assert b"Traceback" not in errors
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -number)
    if number == signal.SIGKILL:
        assert len(list(tmp_path.iterdir())) == 1
        report = measure(tmp_path, replace(QUICK, seconds=0.1))
        assert "a killed measurement had left" in report.notes[0]
    assert list(tmp_path.iterdir()) == []
