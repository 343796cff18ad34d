"""What a demonstration shows to a person: headings, short paragraphs, tables, and a bar while it works."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from oms_journal.cli import output
from oms_journal.cli.output import counted

WIDTH_MAX = 80


class Screen:
    """Standard output for a person, or nothing at all; the bar goes to standard error when it is a terminal."""

    def __init__(self, *, is_silent: bool) -> None:
        self.is_silent = is_silent
        self._width = min(WIDTH_MAX, shutil.get_terminal_size().columns)

    def heading(self, text: str) -> None:
        """Print a heading."""
        if self.is_silent:
            return
        from rich.console import Console
        from rich.text import Text

        output.print_line()
        Console(file=sys.stdout, highlight=False).print(Text(text, style="bold"))

    def say(self, text: str) -> None:
        """Print a paragraph."""
        if not self.is_silent:
            for line in textwrap.wrap(text, self._width - 4, break_long_words=False, break_on_hyphens=False):
                output.print_line(f"  {line}")
            sys.stdout.flush()

    def explain(self, text: str) -> None:
        """Print a paragraph that stands by itself."""
        if not self.is_silent:
            self.say(text)
            output.print_line()

    def facts(self, facts: Mapping[str, str]) -> None:
        """Print what is called how, a line each."""
        if not self.is_silent:
            width = max(map(len, facts))
            for name, value in facts.items():
                output.print_line(f"  {name:{width}}  {value}")

    def table(self, columns: Sequence[output.Column], rows: Iterable[Sequence[str]]) -> None:
        """Print a table."""
        if not self.is_silent:
            output.print_line()
            output.print_table(columns, rows)
            output.print_line()
            sys.stdout.flush()

    def verdict(self, text: str, findings: Sequence[str], count: int, *, holds: bool) -> None:
        """Print that it holds, in these words, or what does not: so many findings, of which these are the first."""
        if holds:
            self.heading(f"Verdict: it holds. {text}")
            return
        self.heading(f"Verdict: it does NOT hold; {counted(count, 'difference')}.")
        for each in findings:
            self.say(f"- {each}")
        if more := count - len(findings):
            self.say(f"- and {more:,} more")

    @contextmanager
    def bar(self, stage: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show how far the block is: it calls what it is given with the number of operations done."""
        if not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        sys.stdout.flush()
        counts = (TaskProgressColumn(), TextColumn("{task.completed:,.0f} operations")) if total is not None else ()
        columns = (TextColumn("  {task.description}"), BarColumn(bar_width=24), *counts, TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(stage, total=total)
            yield lambda done: progress.update(task, completed=done)
