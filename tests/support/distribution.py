"""Builds what is distributed, and tries it as a user would: `python -m tests.support.distribution PYTHON …`.

Sdist and wheel are built from a copy of the sources, by the back end alone, so nothing is left in the checkout but
`dist/`. The wheel is installed into an empty environment for each interpreter that is there: the README's first program
runs, `oms` says what it takes, and with that it shows its help.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.project import REPOSITORY

MADE_HERE = (".*", "__pycache__", "build", "dist", "*.egg-info")  # not part of the sources
BUILD_SECONDS_MAX = 120

# What a package installer calls, without one, and without the network.
_BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def copy_of_sources(to: Path) -> Path:
    """Copy the sources to a folder that is not there yet; links stay links. Return it."""
    return Path(shutil.copytree(REPOSITORY, to, symlinks=True, ignore=shutil.ignore_patterns(*MADE_HERE)))


def built_wheel(sources: Path, into: Path) -> Path:
    """Build a wheel; return its path."""
    _build("build_wheel", sources, into)
    [path] = into.glob("*.whl")
    return path


def built_sdist(sources: Path, into: Path) -> Path:
    """Build an sdist; return its path."""
    _build("build_sdist", sources, into)
    [path] = into.glob("*.tar.gz")
    return path


def unpacked(sdist: Path, into: Path) -> Path:
    """Unpack an sdist; return the folder of its sources."""
    with tarfile.open(sdist) as archive:
        archive.extractall(into, filter="data")
    return into / sdist.name.removesuffix(".tar.gz")


def _build(what: str, sources: Path, into: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, what, str(into)],
        cwd=sources,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def first_program() -> str:
    """Return the README's first program."""
    return (REPOSITORY / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]


def main(interpreters: Sequence[str]) -> int:
    """Build into `dist/`, and try the wheel under each of the interpreters that is there."""
    dist = REPOSITORY / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    with tempfile.TemporaryDirectory(prefix="oms-dist-") as folder:
        sdist = built_sdist(copy_of_sources(Path(folder) / "sources"), dist)
        wheel = built_wheel(unpacked(sdist, Path(folder)), dist)
        print(f"dist/{sdist.name}\ndist/{wheel.name}, built from it", flush=True)
        tried: set[str] = set()
        for interpreter in interpreters:
            version = _version(interpreter)
            if version and version not in tried:
                tried.add(version)
                _try_out(wheel, interpreter, Path(folder) / version)
                print(f"Python {version}: installed, ran the README's first program, and oms", flush=True)
    if not tried:
        print("no interpreter is there to try the wheel", file=sys.stderr)
    return 0 if tried else 1


def _version(interpreter: str) -> str:
    """Return the version of an interpreter; nothing where it is not there or does not run."""
    program = shutil.which(interpreter)
    if program is None:
        return ""
    asked = [program, "-c", "import platform; print(platform.python_version())"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _try_out(wheel: Path, interpreter: str, place: Path) -> None:
    """Install the wheel into an empty environment and use it; CalledProcessError, AssertionError."""
    python, oms = place / "bin" / "python", place / "bin" / "oms"
    work = place / "work"
    _run([interpreter, "-m", "venv", str(place)], Path.cwd())
    work.mkdir()
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*install, str(wheel)], work)
    _run([str(python), "-c", first_program()], work)
    alone = subprocess.run([str(oms), "--help"], cwd=work, env=_bare(), capture_output=True, text=True, check=False)
    assert alone.returncode == 2, alone
    assert alone.stderr.endswith(": pip install 'oms-journal[cli]'\n"), alone.stderr
    _run([*install, f"{wheel}[cli]"], work)
    _run([str(oms), "--help"], work)


def _bare() -> dict[str, str]:
    """Return the environment without what would bring our sources, or another place of libraries."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, env=_bare(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
