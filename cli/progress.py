"""A progress bar on standard error, if that is a terminal and the work takes longer than a moment."""

import sys
import threading
import time
from types import TracebackType
from typing import Self

PATIENCE_SECONDS = 0.6


class ProgressBar:
    """A callable `(stage, done_bytes, total_bytes)`; a new stage starts a new bar. Leaves no trace.

    What counts something else than bytes says so, and shows only the share that is done. What always takes
    longer than a moment is shown from the beginning. Any thread may call it.
    """

    def __init__(self, *, is_bytes: bool = True, is_long: bool = False) -> None:
        self._is_long = is_long
        self._is_bytes = is_bytes
        self._visible = sys.stderr.isatty()
        self._since = time.monotonic()
        self._bar: _Bar | None = None
        self._turn = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, done: int, total: int, *, detail: str = "") -> None:
        """Show how far the stage is; a total of 0 is an unknown one. `detail` stands behind the stage's name."""
        if self._visible:
            with self._turn:
                self._show(stage, done, total, detail)

    def _show(self, stage: str, done: int, total: int, detail: str) -> None:
        if self._bar is None:
            if not self._is_long and time.monotonic() - self._since < PATIENCE_SECONDS:
                return
            self._bar = _Bar(stage, is_bytes=self._is_bytes)
        self._bar.show(stage, done, total, detail)


class _Bar:
    """A bar on the terminal. Rich, which draws it, is imported when it appears, not before."""

    def __init__(self, stage: str, *, is_bytes: bool) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            *([DownloadColumn(binary_units=True)] if is_bytes else []),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._progress.start()
        self._stage = stage
        self._task = self._progress.add_task(stage, total=None)

    def show(self, stage: str, done: int, total: int, detail: str) -> None:
        if stage != self._stage:
            self._progress.remove_task(self._task)
            self._task = self._progress.add_task(stage, total=total or None)
            self._stage = stage
        text = f"{stage} {detail}".rstrip()
        self._progress.update(self._task, description=text, completed=done, total=total or None)

    def stop(self) -> None:
        self._progress.stop()
