"""A plugin of pytest: it makes a deliberate fault before tests are collected, and writes down what came of each test.

    python -m pytest -p tests.planted.plugin --planted no-lock-is-taken --noted FILE tests/journal/test_lock.py

A line of the file is a note as JSON: of a test that began, of one that ended with its seconds, of one that failed.
"""

import json
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import REPOSITORY

_SLIPS = (TypeError, NameError, AttributeError)  # what comes of a fault that does not fit the product any more


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--planted", metavar="FAULT", help="make this deliberate fault")
    parser.addoption("--noted", metavar="FILE", help="write down there what came of each test")


def pytest_configure(config: pytest.Config) -> None:
    stack = ExitStack()
    config.add_cleanup(stack.close)
    if (name := config.getoption("planted")) is not None:
        # Not where no fault is made: they import half the product.
        from tests.planted.faults import ALL
        from tests.planted.toys import TOYS

        stack.enter_context({**ALL, **TOYS}[name].made())
    if (path := config.getoption("noted")) is not None:
        config.pluginmanager.register(_Notes(Path(path), [Path(each).name for each in config.args]))


class _Notes:
    """What came of each test, written down at once: the process may be killed, or end itself."""

    def __init__(self, path: Path, files: list[str]) -> None:
        self._path = path
        self._files = files

    def _write(self, **note: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Have the files in the order in which they were asked for."""
        items.sort(key=lambda item: self._files.index(item.path.name))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(began=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._write(test=report.nodeid, seconds=report.duration)

    def pytest_exception_interact(
        self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any], report: Any
    ) -> None:
        if report.failed:
            assert call.excinfo is not None
            self._write(
                failed=node.nodeid, by=call.excinfo.exconly().partition("\n")[0], slip=_is_slip(call.excinfo.value)
            )


def _is_slip(failure: BaseException | None) -> bool:
    """Say whether the fault itself fails: it is called with other arguments than it takes, or asks for what is gone."""
    if failure is None:
        return False
    last = traceback.extract_tb(failure.__traceback__)[-1:]
    is_fault = any("fault" in Path(frame.filename).relative_to(REPOSITORY).name for frame in last if _is_ours(frame))
    is_call = isinstance(failure, TypeError) and ".<locals>." in str(failure) and "argument" in str(failure)
    if is_call or (is_fault and isinstance(failure, _SLIPS[1:])):
        return True
    return _is_slip(failure.__cause__ or failure.__context__)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return Path(frame.filename).is_relative_to(REPOSITORY / "tests")
