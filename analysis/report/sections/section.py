"""A section of the page: the question, its answer in words, and what is drawn and listed below it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oms_journal.analysis.report.drawing.markup import Html, tag
from oms_journal.analysis.report.sections.verdicts import Verdict, markup
from oms_journal.analysis.report.tables import Row


@dataclass(frozen=True, slots=True)
class Section:
    """The answer, the parts below it, and the figures that the summary has for programs."""

    verdict: Verdict
    parts: Sequence[Html]
    figures: Mapping[str, Any]

    def html(self) -> Html:
        """Return the section."""
        return framed_section(self.verdict, self.parts)


def summed(rows: Sequence[Row], *names: str) -> int:
    """Return the sum of columns over rows; what is not known counts as 0."""
    return sum(row[name] or 0 for row in rows for name in names)


def framed_section(verdict: Verdict, parts: Sequence[Html]) -> Html:
    """Return a section: the question, the answer, and the parts."""
    question = verdict.question
    title = f"{question.anchor}-title"
    return tag(
        "section",
        tag("h2", question.text, id=title),
        tag("p", markup(verdict.sentence), class_=f"answer {verdict.tone}".rstrip()),
        *parts,
        id=question.anchor,
        aria_labelledby=title,
    )
