"""What `oms demo` is asked for, and what it saw: for its own summary, and as JSON for programs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oms_journal.cli.demo.flights.proof import Findings, ReadBack, UnderWay
from oms_journal.cli.demo.flights.report import Reported
from oms_journal.database.stats import CleanupReport, FileExplanation
from oms_journal.recovery.report import RecoveryReport


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """What the demo is asked for."""

    spool: Path
    retained: Path  # where clean-up puts files aside
    report: Path | None  # where the report goes; None: there is to be none
    flights: int
    rounds: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One writer that was killed, and what was found afterwards."""

    pid: int
    moment: int  # operations acknowledged when the kill was decided
    hesitation: float  # seconds until it was sent
    operations: int  # acknowledged by all writers so far
    under_way: int  # commits begun and not acknowledged
    recovery: RecoveryReport
    outcome: UnderWay

    def as_dict(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "moment": self.moment,
            "hesitation": self.hesitation,
            "operations": self.operations,
            "under_way": self.under_way,
            "found_whole": len(self.outcome.whole),
            "found_absent": len(self.outcome.absent),
            "recovery": self.recovery.as_dict(),
        }


@dataclass(slots=True, kw_only=True)
class DemoOutcome:
    """What was seen. Sizes in bytes, durations in seconds."""

    settings: DemoSettings
    flights: int = 0
    operations: int = 0  # that the table makes
    commits: int = 0
    acknowledged: int = 0  # operations
    write_seconds: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    read_back: ReadBack | None = None
    files: list[FileExplanation] = field(default_factory=list)  # before clean-up
    cleanup: CleanupReport | None = None
    compaction: CleanupReport | None = None
    undelivered: int | None = None  # in the end
    report: Reported | None = None
    seconds: float = 0.0
    findings: Findings = field(default_factory=Findings)

    @property
    def holds(self) -> bool:
        """Whether everything was compared, and all is as it should be."""
        return not self.findings.count and self.undelivered is not None

    @property
    def report_failure(self) -> str:
        """Why there is no report though all is there that it takes; nothing where there is one."""
        return "" if self.report is None else self.report.failed

    @property
    def rate(self) -> float:
        """Acknowledged operations in a second of writing."""
        return self.acknowledged / self.write_seconds if self.write_seconds else 0.0

    @property
    def bytes(self) -> int:
        """The size of all files before clean-up."""
        return sum(file.bytes for file in self.files)

    def as_dict(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "findings": self.findings.texts,
            "finding_count": self.findings.count,
            "spool": str(self.settings.spool),
            "retained": str(self.settings.retained),
            "seed": self.settings.seed,
            "flights": self.flights,
            "operations": self.operations,
            "commits": self.commits,
            "acknowledged": self.acknowledged,
            "write_seconds": round(self.write_seconds, 6),
            "operations_per_second": round(self.rate, 1),
            "bytes": self.bytes,
            "rounds": [each.as_dict() for each in self.rounds],
            "read_back": None if self.read_back is None else self.read_back.as_dict(),
            "files": [file.as_dict() for file in self.files],
            "cleanup": None if self.cleanup is None else self.cleanup.as_dict(),
            "compaction": None if self.compaction is None else self.compaction.as_dict(),
            "undelivered": self.undelivered,
            "report": None if self.report is None else self.report.as_dict(),
            "seconds": round(self.seconds, 6),
        }
