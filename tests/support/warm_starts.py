"""Programs of ours as processes whose imports are done: one process has imported all that they need, and forks.

    with Process(command_line("serve"), stdout=subprocess.PIPE, env=environment()) as process: ...

`oms serve` takes a second of the processor until it begins, nearly all of it for imports. A fork takes milliseconds.
Everything else is as of any process: its arguments, variables, folder, descriptors, signals and exit code. It is a
child of the tests. At its end it waits for its threads and does what it has registered for its exit, as the interpreter
does, which only does not take its modules apart. A process starts with its imports, as it does for users, on another
system than Linux, and where something is asked that a fork does not have, such as a terminal. Where the imports
themselves are what a test is about, it starts a process by `subprocess`.

As a program (`python -m tests.support.warm_starts`) it is what forks: a message with a start in, the new process's
number out.
"""

import atexit
import ctypes
import gc
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, AnyStr

from tests.support.project import PYTHONPATH, REPOSITORY

_IMPORTED = (
    "oms_journal.cli.main",
    "oms_journal.cli.broker.serve",
    "oms_journal.cli.broker.command",
    "oms_journal.cli.broker.queries",
    "oms_journal.cli.messages.load",
    "oms_journal.cli.messages.messages",
    "oms_journal.cli.messages.receive",
    "oms_journal.cli.queue.commands",
    "oms_journal.cli.store.backup",
    "oms_journal.cli.store.inspect",
    "oms_journal.cli.store.repair",
    "oms_journal.cli.store.restore",
    "oms_journal.broker.drivers.open",
    "oms_journal.broker.server.http.block_calls",
    "oms_journal.broker.server.http.console",
    "oms_journal.broker.server.http.listener",
    "oms_journal.broker.server.http.login",
    "oms_journal.broker.server.http.metrics",
    "oms_journal.broker.server.http.openapi",
    "oms_journal.broker.server.http.operator_routes",
    "oms_journal.broker.server.standby.peer_routes",
    "oms_journal.broker.server.server",
    "oms_journal.broker.server.stomp.listener",
)
_DECIDING = ("PYTHON", "LC_", "LANG", "LD_")  # how variables begin that an interpreter reads as it starts
_MESSAGE_BYTES_MAX = 128 * 1024
_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>

_IS_USED = sys.platform == "linux"


class Process(subprocess.Popen[AnyStr]):
    """A process as of `subprocess`, of a Python program: `python -m MODULE` or `python -c TEXT`."""

    def _execute_child(self, *given: Any) -> None:
        """Fork it, or start it: called by `Popen`, with what it was asked for and the descriptors that it has opened.

        The arguments are private to `subprocess`. They have been the same since Python 3.11.
        """
        args, executable, before, _closes, passed, folder, variables, _info, _flags, shell, *rest = given
        reads, to_it, from_it, writes, errors, error_writes, restores, gid, gids, uid, umask, is_session, group = rest
        standard = [own if one == -1 else one for own, one in enumerate((reads, writes, error_writes))]
        is_plain = not (executable or before or passed or shell or gid or gids or uid) and umask == group == -1
        is_plain = is_plain and restores and _IS_USED and not any(map(_is_odd, standard))
        start = _start_of(list(args), variables, folder) if is_plain else None
        if start is None:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        self.pid = _nest().fork(start | {"is_session": is_session}, standard)
        self._child_created = True
        self._close_pipe_fds(reads, to_it, from_it, writes, errors, error_writes)  # type: ignore[attr-defined]


def run(
    words: Sequence[Any], *, stdin: int | None = None, given: bytes | None = None, timeout: float, **more: Any
) -> "subprocess.CompletedProcess[bytes]":
    """Run a program to its end and return its output, having given it something, or a descriptor as standard input.

    Raise TimeoutExpired where it takes longer than so many seconds.
    """
    source = subprocess.PIPE if given is not None else stdin
    with Process[bytes](words, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as process:
        try:
            output, errors = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def _is_odd(descriptor: int) -> bool:
    """Say whether a standard stream is a terminal, or is not open: the fork has made its own of neither."""
    try:
        return os.isatty(descriptor) or not os.fstat(descriptor)
    except OSError:
        return True


def _start_of(words: list[Any], variables: Mapping[str, str] | None, folder: Any) -> dict[str, Any] | None:
    """Return what the fork is to become, None where it cannot become that."""
    if len(words) < 3 or words[0] != sys.executable or words[1] not in ("-m", "-c"):
        return None
    known = dict(os.environ if variables is None else variables)
    if _deciding(known) != _AT_START:
        return None
    return {"words": list(map(os.fsdecode, words[1:])), "variables": known, "folder": str(folder or Path.cwd())}


def _deciding(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_DECIDING)}


_AT_START = _deciding(os.environ | {"PYTHONPATH": PYTHONPATH})


class _Nest:
    """The process that forks, from here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm_starts", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=os.environ | _AT_START | {"OPENBLAS_NUM_THREADS": "1"},  # one that is forked has a single thread
                cwd=REPOSITORY,
                pass_fds=(theirs.fileno(),),
            )
        atexit.register(self._end)

    def fork(self, start: dict[str, Any], standard: Sequence[int]) -> int:
        """Return the number of the new process, which is a child of this one and has these standard streams."""
        with self._lock:
            _adopt(True)
            try:
                socket.send_fds(self._wire, [json.dumps(start).encode()], standard)
                answer = self._wire.recv(64)
            finally:
                _adopt(False)
        assert answer, "the process that forks has ended"
        return int(answer)

    def _end(self) -> None:
        self._wire.close()
        self._process.wait()


def _adopt(wanted: bool) -> None:
    """Let what loses its parent become a child of this process; or, as it is otherwise, of the first of all."""
    done = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)
    assert done == 0, "prctl"


@cache
def _nest() -> _Nest:
    return _Nest()


def _main(descriptor: int) -> None:
    """Fork for each start that is asked for; return in each fork, as the program, and at the end of all."""
    for name in _IMPORTED:
        import_module(name)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), suppress(SystemExit):  # noqa: PTH123
        import_module("oms_journal.cli.main").app(["verify", "--help"])  # what a command line imports at the latest
    gc.freeze()  # or every fork would copy every page to count what is in it
    with socket.socket(fileno=descriptor) as asked:
        try:
            while True:
                message, standard, _, _ = socket.recv_fds(asked, _MESSAGE_BYTES_MAX, 3)
                if not message:
                    return
                if not (number := _fork_orphan()):
                    break
                for each in standard:
                    os.close(each)
                asked.send(str(number).encode())
        except KeyboardInterrupt:  # a terminal's Ctrl-C is for all of its processes
            return
    _become(json.loads(message), standard)


def _fork_orphan() -> int:
    """Return the number of a fork that has lost its parent already, and 0 in it."""
    reads, writes = os.pipe()
    if not (between := os.fork()):
        if child := os.fork():
            os.write(writes, str(child).encode())
            os._exit(0)
        return 0
    os.waitpid(between, 0)
    number = int(os.read(reads, 64))
    os.close(reads)
    os.close(writes)
    return number


def _become(start: dict[str, Any], standard: Sequence[int]) -> None:
    """Be the program that was asked for, as an interpreter that has just started."""
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if start["is_session"]:
        os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup has the tests ignore
    os.environ.clear()
    os.environ.update(start["variables"])
    time.tzset()
    os.chdir(start["folder"])
    sys.path[0] = start["folder"]
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc]  # noqa: SIM115 - to the end
    sys.stdout = sys.__stdout__ = _written_text(1, sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _written_text(2, sys.stderr)  # type: ignore[misc]
    kind, program, *arguments = start["words"]
    sys.argv = [kind, *arguments]
    code: Any = 0
    try:
        if kind == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.modules["__main__"] = main = types.ModuleType("__main__")
            exec(compile(program, "<string>", "exec"), main.__dict__)
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            raise
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def _written_text(number: int, like: Any) -> io.TextIOWrapper:
    """Return a standard stream that is written, as the interpreter made it for a file that is no terminal."""
    unbuffered = like.write_through
    binary = open(number, "wb", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115 - to the end
    return io.TextIOWrapper(
        binary,
        encoding=like.encoding,
        errors=like.errors,
        line_buffering=like.line_buffering,
        write_through=unbuffered,
    )


if __name__ == "__main__":
    _main(int(sys.argv[1]))
