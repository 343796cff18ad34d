"""An answer in a sentence or two, made from the figures; the page and the summary say the same."""

from collections.abc import Sequence
from dataclasses import dataclass

from oms_journal.analysis.report.drawing.markup import Html, joined, name, tag, unbroken, visible


class Name(str):
    """A name that people gave, in a sentence."""

    __slots__ = ()


class Code(str):
    """A command, in a sentence."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A section of the page: how an operator asks it, and what it is about in a word or two."""

    anchor: str
    text: str
    short: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer. `value` and `detail` say it in a few words; the tone is how it is taken."""

    question: Question
    sentence: Sequence[str]
    value: str
    detail: Sequence[str] = ()
    tone: str = ""  # bad, warn, good, or nothing where that depends

    def as_dict(self) -> dict[str, str]:
        """Return the answer for a program."""
        return {"question": self.question.text, "answer": plain(self.sentence), "tone": self.tone or "neutral"}


def plain(parts: Sequence[str]) -> str:
    """Return a sentence as text."""
    return "".join(f"`{part}`" if isinstance(part, Code) else visible(part) for part in parts).strip()


def markup(parts: Sequence[str]) -> Html:
    """Return a sentence as markup."""
    return joined(*map(_part, parts))


def _part(part: str) -> str:
    return name(part) if isinstance(part, Name) else tag("code", part) if isinstance(part, Code) else unbroken(part)
