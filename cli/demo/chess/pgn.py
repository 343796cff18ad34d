"""A game of chess in PGN, as the moves that were made: how they are written is checked, not whether they are legal.

    [White "Morphy, Paul"]                  tags
    1. e4 e5 2. Nf3 d6 ; words              moves, move numbers, a comment to the end of the line
    3. d4 Bg4 $6 (3... exd4) {words} 1-0    a comment on a move, a variation, a comment, the result

Of a text with several games the first is taken. What White and Black exchange are the moves and then the result: it is
sent by who would have had to move next. (Portable Game Notation Specification and Implementation Guide, 1994-03-12,
sections 7 and 8.)
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

BYTES_MAX = 1 << 20  # of a file: the longest games have a few kilobytes
RESULTS = ("1-0", "0-1", "1/2-1/2", "*")
OPERA = Path(__file__).with_name("opera_game.pgn")

# How a move is written: castling, a piece's move, a pawn's; check or mate; a judgement that is not kept.
_MOVE = re.compile(
    r"((?:O-O(?:-O)?|0-0(?:-0)?|[KQRBN][a-h]?[1-8]?x?[a-h][1-8]|(?:[a-h]x)?[a-h][1-8](?:=?[QRBN])?)[+#]?)[!?]{0,2}"
)
_PAWN = re.compile(r"(?:[a-h]x)?[a-h]([1-8])(=?[QRBN])?[+#]?")
_ILLEGAL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")  # control characters: the file is something else
_TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<comment>;[^\n]* | \{[^}]*\}) | (?P<escape>^%[^\n]*)
    | (?P<tag>\[\s*(?P<name>\w+)\s+"(?P<value>(?:[^"\\\n]|\\.)*)"\s*\]) | (?P<variation>[()])
    | (?P<nag>\$\d{1,3}) | (?P<result>1-0|0-1|1/2-1/2|\*)(?=[\s;{(\[]|$)
    | (?P<number>(?P<count>\d{1,4})(?![\d/-])\s*(?P<dots>\.*))
    | (?P<word>[^\s;{}()\[\]$.]+)""",
    re.VERBOSE | re.MULTILINE,
)


class PgnError(ValueError):
    """The text is no game."""


class Side(Enum):
    """Who plays: white is the client, black the server."""

    WHITE = "white"
    BLACK = "black"

    @property
    def other(self) -> "Side":
        return Side.BLACK if self is Side.WHITE else Side.WHITE


@dataclass(frozen=True, slots=True)
class Game:
    """A game that is over."""

    moves: tuple[str, ...]  # White's and Black's in turn, and at last the result
    tags: dict[str, str]

    @property
    def result(self) -> str:
        return self.moves[-1]


def side_at(place: int) -> Side:
    """Return who makes the move at a place of the list; the result is the next one's who would have to move."""
    return Side.BLACK if place % 2 else Side.WHITE


def read(path: Path) -> Game:
    """Return the first game of a file. PgnError, OSError."""
    with path.open("rb") as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise PgnError(f"{path} has more than {BYTES_MAX:,} bytes: that is no game of chess")
    try:
        return parse(_decoded(data))
    except PgnError as fault:
        raise PgnError(f"{path}: {fault}") from None


def parse(text: str) -> Game:
    """Return the first game of a text. PgnError names the line."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if illegal := _ILLEGAL.search(text):
        raise PgnError(f"line {_line(text, illegal.start())}: the character {illegal[0]!r} has no place in a game")
    tags: dict[str, str] = {}
    moves: list[str] = []
    for at, token in _tokens(text):
        fault = ""
        match token.lastgroup, token["tag"]:
            case _, str():
                fault = _tag_fault(token["name"], moves)
                tags[token["name"]] = re.sub(r"\\(.)", r"\1", token["value"])
            case "result", _:
                return Game((*moves, token["result"]), tags)
            case _ if token["number"] is not None:
                fault = _number_fault(int(token["count"]), token["dots"], moves)
            case _:
                move = written(token["word"])
                fault = f"{token['word']} is no move" if move is None else move_fault(move, moves)
                moves.append(move or "")
        if fault:
            raise PgnError(f"line {_line(text, at)}: {fault}")
    what = "the game has no result at its end, one of" if moves else "there is no game in it, not even a result:"
    raise PgnError(f"{what} {', '.join(RESULTS)}")


def written(word: str) -> str | None:
    """Return a move or a result as it is sent, without judgement; None for anything else."""
    if word in RESULTS:
        return word
    found = _MOVE.fullmatch(word)
    return None if found is None else found[1].replace("0", "O")


def move_fault(move: str, moves: Sequence[str]) -> str:
    """Say why the move cannot be the next one, as far as its writing tells; "" when nothing speaks against it."""
    if moves and moves[-1] in RESULTS:
        return f"{move} comes after the result"
    if moves and moves[-1].endswith("#") and move not in RESULTS:
        return f"{move} comes after {moves[-1]}, which was mate"
    pawn = _PAWN.fullmatch(move)
    if pawn is None:
        return ""
    ahead = int(pawn[1]) if side_at(len(moves)) is Side.WHITE else 9 - int(pawn[1])
    if ahead < 3:
        return f"{move} is no move of {side_at(len(moves)).value}'s pawns"
    if (ahead == 8) != (pawn[2] is not None):
        return f"{move}: a pawn becomes another piece on its last row, and nowhere else"
    return ""


def _decoded(data: bytes) -> str:
    """Return the text: UTF-8, else the character set of the specification, ISO 8859-1."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _tokens(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield what matters of the text and where it stands: no comments, no variations."""
    at, depth, opened = 0, 0, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise PgnError(f"line {_line(text, at)}: {_unreadable(text[at:])}")
        if token["variation"] == "(":
            depth, opened = depth + 1, at
        elif token["variation"] == ")":
            depth -= 1
            if depth < 0:
                raise PgnError(f"line {_line(text, at)}: a variation ends that has not begun")
        elif not depth and any(token[kind] is not None for kind in ("tag", "result", "number", "word")):
            yield at, token
        at = token.end()
    if depth:
        raise PgnError(f"line {_line(text, opened)}: a variation does not end")


def _unreadable(rest: str) -> str:
    if rest[0] == "{":
        return "a comment does not end"
    if rest[0] == "[":
        return 'a tag is not of the form [Name "value"]'
    return f"the character {rest[0]!r} has no place here"


def _tag_fault(name: str, moves: Sequence[str]) -> str:
    if moves:
        return "a tag before the game has its result"
    return "a game that begins from a position of its own is not played" if name == "FEN" else ""


def _number_fault(count: int, dots: str, moves: Sequence[str]) -> str:
    expected = len(moves) // 2 + 1
    if count != expected:
        return f"move number {count} where {expected} is due"
    if len(dots) > 1 and side_at(len(moves)) is Side.WHITE:
        return f"{count}{dots} announces a move of black, and it is white's turn"
    return ""


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def numbered(moves: Sequence[str]) -> str:
    """Return the moves as a person reads them: 1. e4 e5 2. Nf3."""
    words = []
    for place, move in enumerate(moves):
        if move not in RESULTS and side_at(place) is Side.WHITE:
            words.append(f"{place // 2 + 1}.")
        words.append(move)
    return " ".join(words)
