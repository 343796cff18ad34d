"""The foreign suites: which projects and versions, what they need, and how their tests are run.

Each is run as its project runs it. What a project lets be configured is configured for this server; no test of it is
changed.
"""

import configparser
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.clients import results
from tests.clients.suite import Run, Suite

_HERE = Path(__file__).parent
_NPM_PACKAGES = ("jasmine@5", "ws@8", "@stomp/tcp-wrapper@1")  # what stompjs runs its tests with, over TCP


class CannotPrepare(Exception):
    """What a suite needs cannot be had: why."""


def _as_it_is(_: Path) -> None:
    """Leave a copy alone."""


# stomp.py.

_IPV6, _ANONYMOUS = "tests/test_ipv6.py", "tests/test_stompserver.py"
_EXPIRED = "tests/test_ssl.py::TestSSL::test_ssl_expired_broker_cert_connection"


def _pytest(name: str, *arguments: str) -> tuple[Sequence[str], str]:
    file = f"results-{name}.xml"
    return (sys.executable, "-m", "pytest", *arguments, "-p", "no:cacheprovider", f"--junitxml={file}"), file


def _stomp_py() -> tuple[Run, ...]:
    def run(name: str, *tests: str) -> Run:
        command, file = _pytest(name or "all", *tests)
        return Run(name=name, command=command, results=file, read=results.of_pytest, has_users=True)

    rest = [option for each in (_IPV6, _ANONYMOUS, _EXPIRED) for option in ("--deselect", each)]
    return (
        run("", "tests", *rest),
        replace(run("IPv6", _IPV6), host="::1"),
        replace(run("anonymous", _ANONYMOUS), has_users=False),
        replace(run("expired", _EXPIRED), is_expired=True),
    )


def _prepare_stomp_py(copy: Path) -> None:
    """Say where IPv6 is: the suite asks Docker where nobody does."""
    settings = configparser.RawConfigParser()
    settings.read(copy / "tests" / "setup.ini", encoding="utf-8")
    settings["ipv6"]["host"] = "::1"
    with (copy / "tests" / "setup.ini").open("w", encoding="utf-8") as file:
        settings.write(file)


def _missing_for_stomp_py() -> str:
    for name in ("pytest_mock", "pytest_ordering"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is missing: .venv/bin/python -m pip install --group clients"
    return ""


# The Ruby gem.

_ALL_RUBY = 'Dir["test/test_*.rb"].sort.each { |file| require File.expand_path(file) }'
# The clients of these are told an ERROR, and raise it in the main thread, where other tests may run by then.
_ALONE = (
    "test_asterisk_wildcard_subscribe",
    "test_greater_than_wildcard_subscribe",
    "test_raise_on_multiple_subscriptions_to_same_make_destination",
    "test_raise_on_multiple_subscriptions_to_same_id_mixed",
)
_ALONE_PATTERN = f"/^({'|'.join(_ALONE)})$/"


def _ruby_gem() -> tuple[Run, ...]:
    def run(name: str, choice: str = "", **variables: str) -> Run:
        file = f"results-{name}.xml"
        options = ("--runner=xml", "--output-file-descriptor=3", choice or f"--ignore-name={_ALONE_PATTERN}")
        ruby = ("ruby", "-Ilib", "-Itest", "-e", _ALL_RUBY, "--", *options)
        return Run(
            name=name,
            command=("sh", "-c", f'exec "$@" 3>{file}', "sh", *ruby),
            results=file,
            read=results.of_test_unit,
            variables={"STOMP_TESTSSL": "y", **variables},
        )

    return (
        run("1.0"),
        run("1.1", STOMP_TEST11p="1.1"),
        run("1.2", STOMP_TEST11p="1.2"),
        run("1.2-crlf", STOMP_TEST11p="1.2", STOMP_CRLF="y"),
        run("1.2-stomp", STOMP_TEST11p="1.2", STOMP_CONN="y"),
        *(run(name, f"--name={name}", STOMP_TEST11p="1.2") for name in _ALONE),
    )


def _missing_for_ruby() -> str:
    if shutil.which("ruby") is None:
        return "ruby is missing: apt-get install ruby ruby-test-unit"
    tried = subprocess.run(["ruby", "-e", "gem 'test-unit'"], capture_output=True, check=False)
    return "Ruby's test-unit is missing: apt-get install ruby-test-unit" if tried.returncode else ""


# stompjs.


def _stompjs() -> tuple[Run, ...]:
    file = "results.jsonl"
    jasmine = "oms/node_modules/jasmine/bin/jasmine.js"
    command = ("node", jasmine, "--random=false", "--config=oms/jasmine.json", "--reporter=./oms/results.cjs")
    variables = {"CONN_MODE": "tcp", "NODE_PATH": "oms/node_modules", "JASMINE_RESULTS": file}
    return (Run(command=command, results=file, read=results.of_jasmine, has_users=True, variables=variables),)


def _prepare_stompjs(copy: Path) -> None:
    """Put what it runs its tests with beside them: its own package.json wants browsers too."""
    beside = copy / "oms"
    beside.mkdir()
    (beside / "package.json").write_text('{"private": true}\n')
    settings = {
        "spec_dir": "spec",
        "spec_files": ["**/*[sS]pec.js"],
        "helpers": ["config/node-config.js", "../oms/settings.cjs", "helpers/**/*.js"],
    }
    (beside / "jasmine.json").write_text(json.dumps(settings))
    shutil.copy(_HERE / "jasmine_results.cjs", beside / "results.cjs")
    shutil.copy(_HERE / "jasmine_settings.cjs", beside / "settings.cjs")
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *_NPM_PACKAGES]
    try:
        done = subprocess.run(command, cwd=beside, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        raise CannotPrepare("`npm install` was not at its end after 300 seconds") from None
    if done.returncode:
        raise CannotPrepare(f"`{' '.join(command)}` failed: {done.stderr.strip()[-400:]}")


def _missing_for_node() -> str:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install nodejs npm"
    return ""


# PECL stomp.

_PACKAGE = "php-stomp"
_RUN_TESTS = "run-tests.php"
_REFUSED_LOGIN = "tests/003-connect/003.phpt"  # the only test that wants users


def _pecl() -> tuple[Run, ...]:
    def run(name: str, choice: str, *, has_users: bool) -> Run:
        file = f"results-{name or 'all'}.txt"
        php = f"exec php oms/{_RUN_TESTS} -q -W {file} {choice}"
        return Run(
            name=name,
            command=("sh", "-c", php),
            results=file,
            read=results.of_run_tests,
            has_users=has_users,
            variables={"NO_INTERACTION": "1"},
        )

    others = f"$(find tests -name '*.phpt' ! -path {_REFUSED_LOGIN} | sort)"
    return (run("", others, has_users=False), run("users", _REFUSED_LOGIN, has_users=True))


def _prepare_pecl(copy: Path) -> None:
    """Put PHP's runner of such tests beside them."""
    (copy / "oms").mkdir()
    found = sorted(Path("/usr/lib/php").glob(f"*/build/{_RUN_TESTS}"))
    shutil.copy(found[-1], copy / "oms" / _RUN_TESTS)


def _missing_for_pecl() -> str:
    if not _has_extension():
        return "PHP's extension stomp is missing: apt-get install php-cli php-dev php-stomp"
    if not sorted(Path("/usr/lib/php").glob(f"*/build/{_RUN_TESTS}")):
        return f"PHP's {_RUN_TESTS} is missing: apt-get install php-dev"
    return ""


def _has_extension() -> bool:
    if shutil.which("php") is None:
        return False
    said = subprocess.run(["php", "-m"], capture_output=True, text=True, check=False).stdout
    return "stomp" in said.lower().split()


def _left_out_without_pecl() -> str:
    if _has_extension():
        return ""
    apt = shutil.which("apt-cache")
    if apt and not subprocess.run([apt, "show", _PACKAGE], capture_output=True, check=False).returncode:
        return ""
    return "this distribution has no PHP extension stomp"


STOMP_PY = Suite(
    name="stomp.py",
    project="jasonrbriggs/stomp.py",
    version="8.2.0",
    commit="e2b359094dd3de8411c4c7808c81d65ae98d6c40",
    version_file="stomp/__init__.py",
    version_pattern=r'__version__ = "([^"]+)"',
    missing=_missing_for_stomp_py,
    prepare=_prepare_stomp_py,
    runs=_stomp_py(),
)
RUBY_GEM = Suite(
    name="stomp",
    project="stompgem/stomp",
    version="1.4.10",
    commit="4909b07c0b54320edf78905fbaf3d8f93900a541",
    version_file="stomp.gemspec",
    version_pattern=r's\.version = "([^"]+)"',
    missing=_missing_for_ruby,
    prepare=_as_it_is,
    runs=_ruby_gem(),
)
STOMPJS = Suite(
    name="stompjs",
    project="stomp-js/stompjs",
    version="7.1.1",
    commit="4eaed27648a85e4ac7464de5b06ce75856ce46c3",
    version_file="package.json",
    version_pattern=r'"version": "([^"]+)"',
    missing=_missing_for_node,
    prepare=_prepare_stompjs,
    runs=_stompjs(),
)
PECL = Suite(
    name="pecl-tools-stomp",
    project="php/pecl-tools-stomp",
    version="2.0.3",
    commit="e083b058d4f0faf5817e2148a1d0308922df0089",
    version_file="php_stomp.h",
    version_pattern=r'PHP_STOMP_VERSION\s+"([^"]+)"',
    missing=_missing_for_pecl,
    prepare=_prepare_pecl,
    left_out=_left_out_without_pecl,
    runs=_pecl(),
)
SUITES = (STOMP_PY, RUBY_GEM, STOMPJS, PECL)
