"""What is distributed: our packages, whole, under names that nothing else takes."""

import shutil
import subprocess
import sys
import zipfile
from importlib import import_module, metadata
from pathlib import Path

import pytest

from tests.project import OUTSIDE, PACKAGES, PYPROJECT, REPOSITORY, modules

DISTRIBUTION = "oms-journal"
MADE_HERE = (".*", "__pycache__", "build", "dist", "*.egg-info")  # not part of the sources

# The back end alone: what a package installer calls, without one, and without the network.
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(REPOSITORY, folder / "sources", ignore=shutil.ignore_patterns(*MADE_HERE))
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=folder / "sources",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    [path] = folder.glob("*.whl")
    return path


def _files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_our_packages_and_nothing_beside_them(wheel: Path) -> None:
    folders = {name.partition("/")[0] for name in _files(wheel)}

    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {
        package.partition(".")[0] for package in PACKAGES
    }
    assert folders.isdisjoint(OUTSIDE)


def test_the_wheel_holds_every_module_the_types_and_the_format(wheel: Path) -> None:
    expected = {module.as_posix() for module in modules()}
    expected |= {f"{package}/py.typed" for package in PACKAGES if "." not in package}
    expected |= {"journal/FORMAT.md", "cli/opera_game.pgn"}

    assert expected - _files(wheel) == set()


def test_the_wheel_installs_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        assert "oms = cli.main:main" in archive.read(name).decode().splitlines()


def test_every_package_folder_is_distributed() -> None:
    folders = {path.parent.relative_to(REPOSITORY) for path in REPOSITORY.glob("[!.]*/**/__init__.py")}
    packages = {".".join(folder.parts) for folder in folders if folder.parts[0] not in OUTSIDE}

    assert packages == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_imported_from_here_and_from_no_other_distribution(package: str) -> None:
    top_level = package.partition(".")[0]

    assert Path(import_module(package).__file__ or "").is_relative_to(REPOSITORY)
    assert set(metadata.packages_distributions().get(top_level, ())) == {DISTRIBUTION}


@pytest.mark.parametrize("folder", [*OUTSIDE, "cli"])
def test_no_file_is_named_like_a_package(folder: str) -> None:
    """A script's folder comes first on the path: such a file would be imported in the package's place."""
    names = {path.stem for path in (REPOSITORY / folder).iterdir()}

    assert names.isdisjoint({package.partition(".")[0] for package in PACKAGES} | set(OUTSIDE))


def test_the_installed_version_is_the_one_of_the_sources() -> None:
    assert metadata.version(DISTRIBUTION) == PYPROJECT["project"]["version"]
