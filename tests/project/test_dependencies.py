"""What is installed beside us: declared, under a licence that lets everybody use it, and without a hole that is known.

The list of holes is kept by hand, for what a server or a client runs with, so that it can be asked without a network;
`make audit` asks the public databases.
"""

import ast
import re
import sys
from collections.abc import Iterator
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.project import NAME, PYPROJECT, modules, parsed
from tests.support.sweeps import for_each

# Distribution, the first version without the hole, and its name.
HOLES = [
    ("starlette", "0.40.0", "CVE-2024-47874"),
    ("starlette", "0.47.2", "CVE-2025-54121"),
    ("starlette", "0.49.1", "CVE-2025-62727"),
    ("starlette", "1.0.1", "CVE-2026-48710"),
    ("starlette", "1.3.0", "CVE-2026-54282"),
    ("starlette", "1.3.1", "CVE-2026-54283"),
    ("uvicorn", "0.11.7", "CVE-2020-7694"),
    ("h11", "0.16.0", "CVE-2025-43859"),
    ("anyio", "4.14.2", "CVE-2026-63374, CVE-2026-64847"),
    ("idna", "3.7", "CVE-2024-3651"),
    ("idna", "3.15", "CVE-2026-45409"),
    ("certifi", "2024.7.4", "CVE-2024-39689"),
    ("pygments", "2.20.0", "CVE-2026-4539"),
    ("pyarrow", "14.0.1", "CVE-2023-47248"),
]
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
GROUPS = PYPROJECT["dependency-groups"]
RUNS_WITH = [*PROJECT["dependencies"], *EXTRAS["cli"], *EXTRAS["server"]]
OF_USERS = [*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
ALL = [*OF_USERS, *(each for group in GROUPS.values() for each in group if isinstance(each, str))]
PERMISSIVE = re.compile(
    r"\b(MIT|BSD|0BSD|Apache|PSF|Python|ISC|MPL-2\.0|MPL 2\.0|Mozilla|Zlib|CC0|Unlicense)", re.IGNORECASE
)
COPYLEFT = re.compile(r"\b(A?GPL|LGPL|GNU|SSPL|BUSL|proprietary)", re.IGNORECASE)


def closure() -> dict[str, metadata.Distribution]:
    """Return what is installed for the server and the commands, and for these in turn."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [Requirement(text) for text in RUNS_WITH]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[name] = metadata.distribution(requirement.name)
        waiting += [Requirement(text) for text in found[name].requires or ()]
    return found


INSTALLED = closure()


@pytest.mark.parametrize(("name", "fixed", "hole"), HOLES, ids=[f"{name}-{fixed}" for name, fixed, _ in HOLES])
def test_nothing_is_installed_that_has_a_hole_we_know_of(name: str, fixed: str, hole: str) -> None:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")

    assert Version(version) >= Version(fixed), hole


@for_each("text", ALL)
def test_no_version_is_allowed_that_has_a_hole_we_know_of(text: str) -> None:
    requirement = Requirement(text)
    if requirement.name == "oms-journal":
        return
    lowest = [Version(each.version) for each in requirement.specifier if each.operator in (">=", "==", "~=")]
    assert lowest, "a dependency says from which version on"
    for name, fixed, hole in HOLES:
        if name == canonicalize_name(requirement.name):
            assert max(lowest) >= Version(fixed), hole


@for_each("name", sorted(INSTALLED))
def test_what_we_run_with_may_be_used_by_everybody(name: str) -> None:
    said = INSTALLED[name].metadata.json
    classifiers = [each for each in said.get("classifier") or [] if each.startswith("License")]
    licence = str(said.get("license_expression") or " ".join([*classifiers, str(said.get("license") or "")]))

    assert PERMISSIVE.search(licence) and not COPYLEFT.search(licence.splitlines()[0]), licence[:200]


def test_a_program_with_a_queue_in_it_installs_three_libraries() -> None:
    assert {Requirement(text).name for text in PROJECT["dependencies"]} == {"xxhash", "numpy", "sortedcontainers"}


def test_all_brings_every_extra() -> None:
    [text] = EXTRAS["all"]
    brought = Requirement(text).extras
    brought |= {extra for one in brought for each in EXTRAS[one] for extra in Requirement(each).extras}

    assert brought == EXTRAS.keys() - {"all"}


def test_an_extra_is_for_users_and_a_group_for_who_works_on_it() -> None:
    included = {each["include-group"] for each in GROUPS["dev"]}

    assert included == GROUPS.keys() - {"dev", "clients", "fuzz"}  # these two are installed where they are asked for
    assert EXTRAS.keys() & GROUPS.keys() == set()


BROUGHT = {"py4j"}  # by PySpark, which says its exact version


def imported() -> Iterator[tuple[str, str]]:
    """Yield which module of the program imports which top-level name that is neither Python's nor ours."""
    ours = {NAME}
    for module in modules():
        for node in ast.walk(parsed(module)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for name in {name.split(".")[0] for name in names}:
                if name not in ours | BROUGHT and name not in sys.stdlib_module_names:
                    yield str(module), name


def test_everything_that_is_imported_is_declared() -> None:
    declared = {canonicalize_name(Requirement(text).name) for text in OF_USERS}
    of_name = metadata.packages_distributions()
    missing = {
        (module, name)
        for module, name in imported()
        if not {canonicalize_name(each) for each in of_name.get(name, [])} & declared
    }

    assert missing == set()
