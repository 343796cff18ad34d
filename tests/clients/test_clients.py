"""The foreign suites' runner: what it says of a test, what is missing, and that its list is the one of the page."""

import os
import re
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clients import __main__ as clients
from tests.clients import network, results
from tests.clients.differences import DIFFERENCES, Difference
from tests.clients.suite import BrokenOff, Outcome, Run, run
from tests.clients.suites import PECL, STOMPJS, SUITES
from tests.clients.verdict import problems
from tests.support.project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "stomp-clients.md").read_text(encoding="utf-8")
PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def _table(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading of the page."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [re.split(r" \| ", line.strip("| ")) for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


# The page.


def test_the_page_lists_what_the_target_lists() -> None:
    listed = [
        [f"`{suite}`", f"`{test}`", f"{'*Unsteady.* ' if each.is_unsteady else ''}{each.why}"]
        for suite, tests in DIFFERENCES.items()
        for test, each in tests.items()
    ]

    assert _table("What differs on purpose") == listed


def test_the_page_says_which_suites_there_are_in_which_versions() -> None:
    told = [(folder, version, commit) for folder, _, version, commit, _ in _table("The suites")]

    assert told == [(f"`{suite.name}`", suite.version, f"`{suite.commit}`") for suite in SUITES]
    assert DIFFERENCES.keys() == {suite.name for suite in SUITES}
    for suite in SUITES:
        assert f"/{suite.project} && git -C {suite.name} checkout {suite.commit}\n" in PAGE


# The verdict.


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("difference", [None, Difference("why"), Difference("why", is_unsteady=True)])
def test_every_outcome_is_right_or_told(outcome: Outcome, difference: Difference | None) -> None:
    listed = {} if difference is None else {"a test": difference}

    found = problems({"1.2": {"a test": outcome}}, listed)

    if difference is None:
        assert bool(found) is (outcome is FAILED)
    else:
        assert bool(found) is (outcome is not FAILED and not difference.is_unsteady)
    assert all(text.startswith("1.2: a test ") for text in found)


def test_a_listed_test_that_no_run_has_is_told_and_one_that_a_single_run_has_is_right() -> None:
    listed = {"here": Difference("why"), "nowhere": Difference("why")}

    assert problems({"1.0": {"here": FAILED}, "1.1": {}}, listed) == [
        "nowhere is listed, and the suite has no such test."
    ]


# The results.

_RUBY = """<stream><ready-test-suite><n-tests>{count}</n-tests></ready-test-suite>
<start-test-case><test-case><name>TestA</name></test-case></start-test-case>
<start-test><test><name>test_1</name></test></start-test>
<test-result><test><name>test_1</name></test><result><status>success</status></result></test-result>
<start-test><test><name>test_2</name></test></start-test>
"""


@pytest.mark.parametrize(
    ("read", "text", "found"),
    [
        (
            results.of_pytest,
            '<testsuites><testsuite><testcase classname="tests.test_a.TestA" name="test_1"/>'
            '<testcase classname="tests.test_a.TestA" name="test_2"><failure/></testcase>'
            '<testcase classname="tests.test_a.TestA" name="test_3"><error/></testcase>'
            '<testcase classname="tests.test_a.TestA" name="test_4"><skipped/></testcase></testsuite></testsuites>',
            {
                "test_a.TestA.test_1": PASSED,
                "test_a.TestA.test_2": FAILED,
                "test_a.TestA.test_3": FAILED,
                "test_a.TestA.test_4": SKIPPED,
            },
        ),
        (results.of_test_unit, _RUBY.format(count=2), {"TestA#test_1": PASSED, "TestA#test_2": FAILED}),
        (
            results.of_jasmine,
            '{"name": "one", "status": "passed"}\n{"name": "two", "status": "failed"}\n'
            '{"name": "three", "status": "pending"}\n{"status": "complete"}\n',
            {"one": PASSED, "two": FAILED, "three": SKIPPED},
        ),
        (
            results.of_run_tests,
            "PASSED\t/s/tests/001.phpt\nFAILED\t/s/tests/002-b/001.phpt\nSKIPPED\t/s/tests/003.phpt\n",
            {"001": PASSED, "002-b/001": FAILED, "003": SKIPPED},
        ),
    ],
)
def test_the_results_of_every_suite_are_read(read: object, text: str, found: dict[str, Outcome]) -> None:
    assert callable(read)
    assert read(text) == found
    with pytest.raises(ValueError):
        read("")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (results.of_test_unit, _RUBY.format(count=126)),
        (results.of_jasmine, '{"name": "one", "status": "passed"}\n'),
        (results.of_pytest, '<testsuites><testcase classname="tests.a" name="b"/>'),
    ],
)
def test_results_that_break_off_are_no_results(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(ValueError):
        read(text)


# What a run takes.


def _run(script: str) -> Run:
    return Run(command=("sh", "-c", script), results="results.txt", read=results.of_run_tests)


def test_a_run_gives_what_became_of_each_test_and_keeps_what_it_said(tmp_path: Path) -> None:
    script = 'echo said; printf "PASSED\\t/s/tests/001.phpt\\nFAILED\\t/s/tests/002.phpt\\n" > results.txt; exit 1'

    assert run(_run(script), tmp_path, {}, tmp_path / "log") == {"001": PASSED, "002": FAILED}
    assert (tmp_path / "log").read_text() == "said\n"


def test_a_run_without_results_is_told(tmp_path: Path) -> None:
    with pytest.raises(BrokenOff, match="exit code 3"):
        run(_run("exit 3"), tmp_path, {}, tmp_path / "log")


def test_a_run_that_hangs_is_ended_with_all_that_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.clients.suite.SECONDS_MAX", 0.5)
    os.mkfifo(tmp_path / "held")
    reading = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    watching = select.poll()
    watching.register(reading, select.POLLHUP)

    with pytest.raises(BrokenOff, match="not at its end"):
        run(_run("sleep 3600 > held & wait"), tmp_path, {}, tmp_path / "log")

    assert watching.poll(20_000), "nobody writes any more: the sleep has ended too"
    os.close(reading)


# A whole suite, of our own, in a network of its own.

_OWN_TEST = """
import os, socket, sys
said = b"CONNECT\\naccept-version:1.2\\nhost:x\\nlogin:%s\\npasscode:%s\\n\\n\\0"
user, password = os.environ["OMS_USER"], os.environ["OMS_PASSWORD"]
with socket.create_connection((os.environ["STD_HOST"], int(os.environ["STD_PORT"])), 20) as connection:
    connection.sendall(said % (user.encode(), password.encode()))
    answer = connection.recv(4096)
try:
    socket.create_connection(("203.0.113.1", 61613), 20)
except OSError as refused:
    is_alone = refused.errno == 101  # nothing but the loopback can be reached
with open("results.txt", "w") as file:
    for name, good in (("connect", answer.startswith(b"CONNECTED")), ("alone", is_alone), ("wrong", False)):
        file.write(f"{'PASSED' if good else 'FAILED'}\\t/s/tests/{name}.phpt\\n")
"""


def play_own_suite(scratch: Path) -> None:
    """Play a suite of one run and three tests; called in a network of its own."""
    (scratch / PECL.name).mkdir()
    command = (sys.executable, "-c", _OWN_TEST)
    own = Run(command=command, results="results.txt", read=results.of_run_tests, has_users=True)
    clients.play(scratch, [replace(PECL, runs=(own,))])


@pytest.mark.whole
def test_a_suite_meets_a_server_with_its_users_in_a_network_of_its_own(tmp_path: Path) -> None:
    if why := network.missing():
        pytest.skip(why)
    script = "import sys; from pathlib import Path; from tests.clients.test_clients import play_own_suite as play; "
    command = network.command([sys.executable, "-c", f"{script}play(Path(sys.argv[1]))", str(tmp_path)])

    said = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)

    assert said.stdout.splitlines() == [
        "pecl-tools-stomp 2.0.3: 2 passed, 1 failed, 0 as listed, 0 skipped",
        "pecl-tools-stomp: wrong failed. Mend the server, or list the test with the reason why it differs.",
    ], said.stderr


# What is missing.


def _checkout(directory: Path, name: str, version_line: str, file: str) -> None:
    path = directory / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(version_line)


@pytest.mark.whole
def test_without_a_folder_it_asks_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert clients.main([]) == 2
    assert "make clients SUITES=DIR (docs/reference/stomp-clients.md)" in capsys.readouterr().out


def test_every_suite_that_is_missing_is_named_with_what_to_do(tmp_path: Path) -> None:
    _checkout(tmp_path, "stompjs", '"version": "7.1.1"', "package.json")
    _checkout(tmp_path, "stomp", "nothing", "stomp.gemspec")

    found = "\n".join(clients.what_is_missing(tmp_path, SUITES))

    assert f"stomp.py is not in {tmp_path}. Check out jasonrbriggs/stomp.py there ({clients.PAGE})." in found
    assert f"{tmp_path / 'stomp'} is no checkout of stompgem/stomp: stomp.gemspec says no version" in found
    assert "pecl-tools-stomp is not in" in found
    assert "stompjs is not in" not in found


def test_what_the_machine_has_not_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _checkout(tmp_path, "stompjs", '"version": "7.1.1"', "package.json")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert clients.what_is_missing(tmp_path, [STOMPJS]) == ["stompjs: node is missing: apt-get install nodejs npm"]


def test_pecl_alone_is_left_out_where_the_distribution_has_no_such_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert PECL.left_out() == "this distribution has no PHP extension stomp"
    assert [suite.name for suite in SUITES if suite.left_out()] == ["pecl-tools-stomp"]
    assert clients.main([str(tmp_path)]) == 2
    said = capsys.readouterr().out
    assert "pecl-tools-stomp is left out: this distribution has no PHP extension stomp\n" in said
    assert "Check out php/pecl-tools-stomp" not in said


def test_the_version_of_a_checkout_is_what_it_says(tmp_path: Path) -> None:
    _checkout(tmp_path, "stompjs", '{"name": "x",\n  "version": "7.2.0"}', "package.json")

    assert clients.version_of(STOMPJS, tmp_path / "stompjs") == "7.2.0"
    assert clients.version_of(PECL, tmp_path / "stompjs") == ""
