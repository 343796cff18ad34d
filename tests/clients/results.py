"""The results of each kind of suite, as what became of each test. ValueError for what is no such file."""

import json
import re
import xml.etree.ElementTree as ET

from tests.clients.suite import Outcome

_OF_RUBY = {"success": Outcome.PASSED, "failure": Outcome.FAILED, "error": Outcome.FAILED}
_OF_TEST_UNIT = re.compile(
    r"<start-test-case>\s*<test-case>\s*<name>(.*?)</name>"
    r"|<start-test>\s*<test>\s*<name>(.*?)</name>"
    r"|<status>(.*?)</status>"
)
_OF_PHP = {"PASSED": Outcome.PASSED, "SKIPPED": Outcome.SKIPPED}
_OF_JASMINE = {"passed": Outcome.PASSED, "failed": Outcome.FAILED}


def of_pytest(text: str) -> dict[str, Outcome]:
    """Read JUnit's XML, as pytest writes it: `test_basic.TestBasic.test_commit`."""
    found: dict[str, Outcome] = {}
    for case in _tree(text).iter("testcase"):
        name = f"{case.attrib['classname'].removeprefix('tests.')}.{case.attrib['name']}"
        bad = [child for child in case if child.tag in ("failure", "error")]
        is_skipped = any(child.tag == "skipped" for child in case)
        found[name] = Outcome.FAILED if bad else Outcome.SKIPPED if is_skipped else Outcome.PASSED
    return _some(found)


def of_test_unit(text: str) -> dict[str, Outcome]:
    """Read what Ruby's test-unit says with `--runner=xml`: `TestClient#test_ack_api_works`.

    A client of the gem can raise in the main thread once more when its test has failed, so that the file has no end.
    Then a test that has begun and has no result has failed.
    """
    found: dict[str, Outcome] = {}
    case = ""
    for begun, test, status in _OF_TEST_UNIT.findall(text):
        if begun:
            case = begun
        elif test:
            name = f"{case}#{test}"
            found[name] = Outcome.FAILED
        elif found:
            found[name] = _OF_RUBY.get(status, Outcome.SKIPPED)
    wanted = re.search(r"<n-tests>(\d+)</n-tests>", text)
    if wanted is None or len(found) != int(wanted[1]):
        raise ValueError(f"the results are of {len(found)} tests, not of {wanted and wanted[1]}")
    return _some(found)


def of_jasmine(text: str) -> dict[str, Outcome]:
    """Read the lines of `jasmine_results.cjs`: `Stomp Connection Connect to a valid Stomp server`."""
    lines = [json.loads(line) for line in text.splitlines()]
    if not lines or lines.pop() != {"status": "complete"}:
        raise ValueError("the results have no end")
    return _some({line["name"]: _OF_JASMINE.get(line["status"], Outcome.SKIPPED) for line in lines})


def of_run_tests(text: str) -> dict[str, Outcome]:
    """Read what PHP's run-tests writes with -W: `003-connect/001`."""
    rows = re.findall(r"^(\w+)\t.*?/tests/(.+)\.phpt$", text, re.MULTILINE)
    return _some({name: _OF_PHP.get(status, Outcome.FAILED) for status, name in rows})


def _tree(text: str) -> ET.Element:
    try:
        return ET.fromstring(text)
    except ET.ParseError as failure:
        raise ValueError(f"the results are no XML: {failure}") from failure


def _some(found: dict[str, Outcome]) -> dict[str, Outcome]:
    if not found:
        raise ValueError("the results are of no test")
    return found
