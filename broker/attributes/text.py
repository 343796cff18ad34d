"""The text of an attribute file: sections of NAME=value, read into entries with the line each stands on.

    * a comment line; # begins one too
    DEFAULTS=BROKER
      BROKER-ID = ETB001   STORE=BROKER
    DEFAULTS=SERVICE
      CLASS=RPC, SERVER=*, SERVICE="CALL NAT"

Names are in any case, and `_` is `-`. A value ends at a blank or a comma, unless it stands in quotation
marks. What is wrong is gathered: whoever corrects a file wants to hear all of it. A value that is missing is an entry
with an empty one: its attribute says what it takes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from oms_journal.broker.codes import Code

_TOKEN = re.compile(r'\s*(?:(?P<equals>=)|(?P<comma>,)|"(?P<quoted>[^"]*)"|(?P<word>[^\s,="]+)|(?P<odd>"))')
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_LINE_END = re.compile(r"\r\n|\r|\n")  # as an editor counts lines
_QUOTED_MAX = 40  # characters of a value in an error


class Fault(NamedTuple):
    """One thing that is wrong, and where; line 0 where something is missing."""

    file: str
    line: int
    keyword: str
    reason: str
    code: Code

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{place}: {self.keyword}: {self.reason}" if self.keyword else f"{place}: {self.reason}"


class AttributesInvalid(Exception):
    """The attribute file cannot be used; `faults` has at least one."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Entry:
    """One NAME=value; the name in capitals, with hyphens."""

    line: int
    keyword: str
    value: str


def quoted(text: str) -> str:
    """Return a text as an error shows it: as it is where that is plain to see, else in quotation marks, and cut."""
    if len(text) > _QUOTED_MAX:
        return f"{text[:_QUOTED_MAX]!r}…"
    is_plain = text.isprintable() and not any(character.isspace() for character in text)
    return text if text and is_plain else repr(text) if text else "an empty text"


def read_entries(text: str, file: str, faults: list[Fault]) -> list[Entry]:
    """Return the entries of the text in order, and add what is wrong to the faults."""
    found: list[Entry] = []
    for number, line in enumerate(_LINE_END.split(text.removeprefix("\ufeff")), 1):
        if line.lstrip()[:1] not in ("", "*", "#"):
            for item in _read_line(number, line):
                if isinstance(item, Entry):
                    found.append(item)
                else:
                    faults.append(Fault(file, number, *item, Code.VALUE_INVALID))
    return found


class _Token(NamedTuple):
    kind: str
    text: str


def _read_line(number: int, line: str) -> Iterator[Entry | tuple[str, str]]:
    """Yield entries, and (keyword, reason) for what is none."""
    tokens = [_Token(match.lastgroup or "", match[match.lastgroup or 0]) for match in _TOKEN.finditer(line.rstrip())]
    at = 0
    while at < len(tokens):
        kinds = [token.kind for token in tokens[at : at + 4]]
        keyword = tokens[at].text.upper().replace("_", "-")
        if kinds[0] == "comma":
            at += 1
        elif kinds[:2] != ["word", "equals"] or _NAME.fullmatch(tokens[at].text) is None:
            yield quoted(tokens[at].text), "this is not NAME=value, as in STORE=BROKER"
            return
        elif len(kinds) < 3 or kinds[2] == "comma" or kinds[2:] == ["word", "equals"] or tokens[at + 2].text == "":
            yield Entry(number, keyword, "")
            at += 2 if len(kinds) < 3 or kinds[2] != "quoted" else 3
        elif kinds[2] in ("word", "quoted"):
            yield Entry(number, keyword, tokens[at + 2].text)
            at += 3
        else:
            yield keyword, 'its value cannot be read; put it in quotation marks, as in NAME="value"'
            return
