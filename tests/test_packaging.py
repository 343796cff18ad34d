"""What is distributed: our packages, whole, under names that nothing else takes."""

import shutil
import subprocess
import sys
import zipfile
from importlib import import_module, metadata
from pathlib import Path

import pytest

from tests.project import FOLDERS, NAME, OUTSIDE, PACKAGES, PYPROJECT, REPOSITORY, SOURCES, modules

DISTRIBUTION = "oms-journal"
MADE_HERE = (".*", "__pycache__", "build", "dist", "*.egg-info")  # not part of the sources

# The back end alone: what a package installer calls, without one, and without the network.
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(REPOSITORY, folder / "sources", symlinks=True, ignore=shutil.ignore_patterns(*MADE_HERE))
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


def test_the_wheel_has_one_name_and_below_it_our_folders_alone(wheel: Path) -> None:
    names = {name for name in _files(wheel) if not name.partition("/")[0].endswith(".dist-info")}

    assert {name.partition("/")[0] for name in names} == {NAME}
    assert {name.split("/")[1] for name in names} == {"__init__.py", "py.typed", *FOLDERS}


def test_the_wheel_holds_every_module_the_types_and_the_format(wheel: Path) -> None:
    expected = {module.as_posix() for module in modules()}
    expected |= {"__init__.py", "py.typed", "journal/FORMAT.md", "broker/RECORDS.md", "cli/opera_game.pgn"}
    expected |= {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "broker/server/page").iterdir()}
    expected |= {
        f"analysis/{path.name}" for end in ("css", "js") for path in (REPOSITORY / "analysis").glob(f"*.{end}")
    }

    assert {f"{NAME}/{name}" for name in expected} - _files(wheel) == set()


def test_the_wheel_installs_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        assert "oms = oms_journal.cli.__main__:main" in archive.read(name).decode().splitlines()


def test_the_package_is_a_link_for_each_folder_and_nothing_else() -> None:
    place = SOURCES / NAME

    assert {path.name for path in place.iterdir()} - {"__pycache__"} == {"__init__.py", "py.typed", *FOLDERS}
    for folder in FOLDERS:
        assert (place / folder).readlink() == Path("../..") / folder  # relative: a checkout may lie anywhere
    assert {path.name for path in SOURCES.iterdir() if not path.name.endswith(".egg-info")} == {NAME}


def test_a_folder_with_modules_is_one_of_the_package_or_outside_of_it() -> None:
    apart = {".git", ".venv", "build", "dist", "src"}
    folders = {path.name for path in REPOSITORY.iterdir() if path.is_dir() and (path / "__init__.py").exists()} - apart

    assert folders == {*FOLDERS, "tests", "bench"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_imported_from_here_and_from_no_other_distribution(package: str) -> None:
    assert Path(import_module(f"{NAME}.{package}").__file__ or "").is_relative_to(SOURCES)
    assert set(metadata.packages_distributions()[NAME]) == {DISTRIBUTION}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_module_has_one_name(folder: str) -> None:
    """Under its plain name it would be there twice: two locks, two classes of one error."""
    with pytest.raises(ModuleNotFoundError, match=f"it is oms_journal.{folder}"):
        import_module(folder)


@pytest.mark.parametrize("folder", [*OUTSIDE, "cli"])
def test_no_file_is_named_like_a_package(folder: str) -> None:
    """A script's folder comes first on the path: such a file would be imported in the package's place."""
    names = {path.stem for path in (REPOSITORY / folder).iterdir()}

    assert names.isdisjoint({NAME, *OUTSIDE})


def test_the_installed_version_is_the_one_of_the_sources() -> None:
    assert metadata.version(DISTRIBUTION) == PYPROJECT["project"]["version"]
