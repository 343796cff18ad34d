"""The reader in Java as a process that answers: a directory in, what it says of the directory out.

It is compiled once for all processes, and started once by each: to read a small directory then takes less than a
millisecond.
"""

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.support.journals.descriptions import Document
from tests.support.project import REPOSITORY

SOURCE = REPOSITORY / "tests" / "journal" / "format" / "Reader.java"
CLASSES = REPOSITORY / "build" / "java-reader"  # a folder of it for each source and compiler
HAS_JAVA = shutil.which("javac") is not None
needs_java = pytest.mark.skipif(not HAS_JAVA, reason="the reader in Java needs a Java development kit")

# What bounds the memory of this process, which reserves less than a virtual machine does, must not bound the reader's.
_FREED = ("sh", "-c", 'ulimit -S -v "$(ulimit -H -v)" && exec "$0" "$@"')


def compiled() -> Path:
    """Return the folder of the classes; the first process that needs them compiles, in two seconds or more."""
    compiler = Path(shutil.which("javac") or "javac").resolve()
    folder = CLASSES / hashlib.sha256(f"{compiler}\n{SOURCE.read_text('utf-8')}".encode()).hexdigest()[:16]
    if not folder.is_dir():
        CLASSES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CLASSES) as home:
            made = Path(home) / "classes"
            subprocess.run([*_FREED, "javac", "-d", str(made), str(SOURCE)], check=True)
            with contextlib.suppress(OSError):  # another process was first
                made.rename(folder)
    return folder


class JavaReader:
    """One process. It ends when its input ends, so also with this process."""

    def __init__(self) -> None:
        self._classes = compiled()
        command = [*_FREED, *self.command("--answer")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def command(self, *arguments: str) -> list[str]:
        """Return what runs it."""
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", str(self._classes), "Reader", *arguments]

    def read(self, directory: Path) -> Document:
        """Return what it says of the directory."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{directory}\n")
        self._process.stdin.flush()
        document: Document = json.loads(self._process.stdout.readline())
        assert document["directory"] == str(directory), "the answer to another question"
        for one in document["operations"]:
            one["properties"] = one["properties"] or None  # it tells no properties from none at all
        return document

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


def java_reader() -> JavaReader:
    """Return the reader of this process; a forked child has its own."""
    return _reader_of(os.getpid())


@cache
def _reader_of(_process: int) -> JavaReader:
    reader = JavaReader()
    atexit.register(reader.close)
    return reader
