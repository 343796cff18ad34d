"""The page on the analysis, made from the code: python -m tests.docs.reference.analysis

What stands between its marks is made of the data source's columns, and of the questions with their columns. The rest of
the page is written by hand.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from oms_journal.analysis import questions
from oms_journal.analysis.reading.schema import TABLES, Column
from oms_journal.analysis.spark import options
from tests.support.project import REPOSITORY

OPTIONS = tuple(options._NAMES.values())
PAGE = REPOSITORY / "docs" / "reference" / "analysis.md"


def parts() -> dict[str, str]:
    """Return what should stand between the marks of each name."""
    columns = {f"columns-{name}": _table(("column", "type", "means"), _columns(of)) for name, of in TABLES.items()}
    return {
        **columns,
        "overview": _table(("question", "asks"), ((f"[`{name}`](#{name})", asks) for name, asks in asked().items())),
        "questions": "\n\n".join(text for name in asked() for text in _question(name)),
    }


def found(name: str) -> str:
    """Return what stands in the page between two marks."""
    begin, end = _marks(name)
    return PAGE.read_text(encoding="utf-8").split(begin)[1].split(end)[0].strip()


def write() -> None:
    """Put all parts into the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, part in parts().items():
        begin, end = _marks(name)
        before, behind = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n\n{part}\n\n{end}{behind}"
    PAGE.write_text(text, encoding="utf-8")


def asked() -> dict[str, str]:
    """Return what each question asks, in the order of the code's own table."""
    rows = re.findall(r"^ {4}(\w+) {2,}(.+)$", questions.__doc__ or "", re.MULTILINE)
    told = {name: f"{asks[0].upper()}{asks[1:]}" for name, asks in rows if name in questions.QUESTIONS}
    with_producers = {"messages_with_producers": "The same, with its producer's identifier."}
    told["messages"] = told["messages"].split("?")[0] + "?"
    return {
        name: asks for before in questions.QUESTIONS for name, asks in (told | with_producers).items() if name == before
    }


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}:begin -->", f"<!-- {name}:end -->"


def _columns(columns: Iterable[Column]) -> Iterator[Sequence[str]]:
    for column in columns:
        wish = f"with the option `{column.option}`" if column.option in OPTIONS else "if a `schema` names it"
        yield f"`{column.name}`", column.spark_type, f"{column.meaning}{f' (only {wish})' if column.option else ''}"


def _question(name: str) -> Iterator[str]:
    question = questions.QUESTIONS[name]
    text, listed = (inspect.getdoc(question) or "").split("\n\nColumns:\n")
    yield f"### {name}"
    yield f"```text\n{name}({', '.join(_parameters(question))})\n```"
    yield from (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    yield _table(("column", "means"), re.findall(r"^ +(\S+) +(.+)$", listed, re.MULTILINE))


def _parameters(question: object) -> Iterator[str]:
    is_named = False
    for parameter in inspect.signature(question).parameters.values():  # type: ignore[arg-type]
        if parameter.kind is parameter.KEYWORD_ONLY and not is_named:
            is_named = True
            yield "*"
        default = parameter.default
        shown = f"timedelta(minutes={default / timedelta(minutes=1):g})" if isinstance(default, timedelta) else default
        yield parameter.name if default is parameter.empty else f"{parameter.name}={shown}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    named = ([f"`{cell}`" if at == 0 and cell.isidentifier() else cell for at, cell in enumerate(row)] for row in rows)
    lines = [heads, ["---"] * len(heads), *named]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


if __name__ == "__main__":
    write()
