"""What is distributed: our packages, whole, under names that nothing else takes."""

import tarfile
import zipfile
from email import message_from_bytes
from importlib import import_module, metadata
from pathlib import Path

import pytest

from tests.support.distribution import built_sdist, built_wheel, copy_of_sources, unpacked
from tests.support.project import FOLDERS, NAME, OUTSIDE, PACKAGES, PYPROJECT, REPOSITORY, SOURCES, modules
from tests.support.sweeps import for_each

DISTRIBUTION = "oms-journal"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources."""
    return copy_of_sources(tmp_path_factory.mktemp("sources") / "sources")


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel built from a copy of the sources."""
    return built_wheel(sources, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an sdist built from a copy of the sources."""
    return built_sdist(sources, tmp_path_factory.mktemp("sdist"))


def _files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_has_one_name_and_below_it_our_folders_alone(wheel: Path) -> None:
    names = {name for name in _files(wheel) if not name.partition("/")[0].endswith(".dist-info")}

    assert {name.partition("/")[0] for name in names} == {NAME}
    assert {name.split("/")[1] for name in names} == {"__init__.py", "py.typed", *FOLDERS}


def test_the_wheel_holds_every_module_the_types_and_the_format(wheel: Path) -> None:
    expected = {module.as_posix() for module in modules()}
    expected |= {"__init__.py", "py.typed", "cli/demo/chess/opera_game.pgn"}
    expected |= {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "broker/server/http/page").iterdir()}
    expected |= {
        path.relative_to(REPOSITORY).as_posix()
        for end in ("css", "js")
        for path in (REPOSITORY / "analysis/report").glob(f"*.{end}")
    }

    assert {f"{NAME}/{name}" for name in expected} - _files(wheel) == set()


def test_the_wheel_installs_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        assert "oms = oms_journal.cli.__main__:main" in archive.read(name).decode().splitlines()


def test_the_sdist_carries_what_a_reader_wants_and_no_test(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers()}

    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= members.keys()
    assert [name for name in members if Path(name).name.startswith("test_") or name.split("/")[0] in OUTSIDE] == []
    assert [name for name, member in members.items() if member.issym() or member.islnk()] == []


@pytest.mark.whole
def test_the_wheel_that_the_sdist_builds_has_the_same_files(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    again = built_wheel(unpacked(sdist, tmp_path), tmp_path)

    assert _files(again) == _files(wheel)
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(wheel) as other:
        differing = [name for name in _files(wheel) if one.read(name) != other.read(name)]
    assert differing == []


def test_the_metadata_say_what_it_is_and_name_no_place_and_nobody(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        told = message_from_bytes(archive.read(name))

    assert told["Summary"] and told["Keywords"] and told["License-Expression"] == "Apache-2.0"
    assert {"Operating System :: POSIX", "Typing :: Typed"} <= set(told.get_all("Classifier") or [])
    for absent in ("Author", "Author-email", "Maintainer", "Maintainer-email", "Home-page", "Project-URL"):
        assert told[absent] is None


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


@for_each("package", PACKAGES)
def test_a_package_is_imported_from_here(package: str) -> None:
    assert Path(import_module(f"{NAME}.{package}").__file__ or "").is_relative_to(SOURCES)


def test_packages_are_of_no_other_distribution() -> None:
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
