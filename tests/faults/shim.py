"""Builds the shim with the system's C compiler, and arms it in the process that has loaded it."""

import ctypes
import ctypes.util
import errno
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
PHASE_BYTES = 64
ONCE, SHORTENED, TORN, FULL, GONE = range(5)  # these as in shim.c
_MODES = ("once", "shortened", "torn", "full", "gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The n-th call that is like this fails. 0: none does. What is empty fits every call."""

    phase: str = ""
    call: str = ""
    kind: str = ""
    nth: int = 0
    mode: int = ONCE
    code: int = 0

    def __str__(self) -> str:
        what = "" if self.mode == SHORTENED else f" {errno.errorcode.get(self.code, '')}"
        return f"{_MODES[self.mode]}{what}"


def why_not() -> str:
    """Return why no shim can be built or loaded here, or nothing."""
    if not sys.platform.startswith("linux"):
        return "the shim is for Linux"
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        return "there is no C compiler"
    return ""


def build(directory: Path) -> Path:
    """Return the shim as a library made in the directory."""
    library = directory / "shim.so"
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None
    options = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")
    subprocess.run([compiler, *options, "-o", library, SOURCE, "-ldl"], check=True)
    return library


def phase(name: str) -> None:
    """Say what the process is about to do; without the shim nobody listens."""
    loaded = ctypes.CDLL(None)
    if hasattr(loaded, "fault_phase"):
        loaded.fault_phase(name.encode())


def phase_in(path: Path) -> None:
    """Let the phase be what a file says from now on, which is another process's to write."""
    if ctypes.CDLL(None).fault_phase_in(bytes(path)):
        raise OSError(f"{path} cannot be mapped")


def write_phase(path: Path, name: str) -> None:
    """Say what such a process is about to do."""
    with path.open("r+b" if path.exists() else "w+b", buffering=0) as file:
        file.write(name.encode().ljust(PHASE_BYTES, b"\0"))


def arm(root: Path, trace: Path, fault: Fault) -> None:
    """Watch every call on files under the root from now on, and let one fail."""
    loaded = ctypes.CDLL(None)
    told = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    words = [word.encode() for word in (fault.phase, fault.call, fault.kind)]
    loaded.fault_arm(bytes(root), told, *words, ctypes.c_long(fault.nth), fault.mode, fault.code)


def disarm() -> None:
    """Let every call through again."""
    ctypes.CDLL(None).fault_disarm()
