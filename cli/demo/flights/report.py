"""The last step of `oms demo`: the report of the flights, made by Spark in a process of its own, seen from outside."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from oms_journal.analysis.outdir import PAGE, remove_what_killed_runs_left
from oms_journal.cli.demo.children import Child
from oms_journal.cli.failures import Failure
from oms_journal.cli.progress import ProgressBar

STEPS = 1000  # of the bar
END_SECONDS_MAX = 30.0  # for Java to end, when the report is not wanted any more; it is killed then


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What became of the report: it is there, or what is missing for it, or why it failed."""

    directory: Path
    summary: Mapping[str, Any] = field(default_factory=dict)
    missing: str = ""
    failed: str = ""
    seconds: float = 0.0  # from when it was asked for

    @property
    def page(self) -> Path:
        return self.directory / PAGE

    @property
    def answers(self) -> Sequence[Mapping[str, str]]:
        """The questions of the page, each with its answer."""
        return list(self.summary.get("answers", {}).values())

    def figure(self, anchor: str, name: str) -> Any:
        """Return a figure of an answer; None where there is no report."""
        return self.summary.get("answers", {}).get(anchor, {}).get("figures", {}).get(name)

    def as_dict(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("missing", "failed") if getattr(self, name)}
        if told:
            return told
        answers = {anchor: answer["answer"] for anchor, answer in self.summary["answers"].items()}
        return {"page": str(self.page), "answers": answers, "seconds": round(self.seconds, 6)}


class Analyst(Child):
    """The process that makes the report. It starts Spark at once, beside whatever else is done."""

    def __init__(self, directory: Path) -> None:
        super().__init__("oms_journal.cli.demo.flights.analyst", "the demo's analyst")
        self._directory = directory
        self._asked_at = 0.0

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._child.communicate(timeout=END_SECONDS_MAX)
        super().__exit__(kind, failure, trace)
        with suppress(OSError):  # there is no such place yet
            remove_what_killed_runs_left(self._directory)

    def ask(self, paths: Sequence[Path]) -> None:
        """Begin the report on what lies at the paths."""
        self._asked_at = time.perf_counter()
        self.tell({"paths": [str(path) for path in paths], "out": str(self._directory)})

    def answer(self) -> Reported:
        """Wait for the report, with a bar."""
        with ProgressBar(is_bytes=False, is_long=True) as bar:
            bar("start Spark", 0, 0)
            for said in self.lines():
                if "asks" in said:
                    bar("ask", round(said["share"] * STEPS), STEPS, detail=said["asks"].replace("_", " "))
                elif "missing" in said:
                    return Reported(directory=self._directory, missing=said["missing"])
                elif "summary" in said:
                    seconds = time.perf_counter() - self._asked_at
                    return Reported(directory=self._directory, seconds=seconds, **said)
        return Reported(directory=self._directory, failed=self._why())

    def _why(self) -> str:
        failure: Failure = self.failure()
        return str(failure).removeprefix(f"{self.what} failed: ")
