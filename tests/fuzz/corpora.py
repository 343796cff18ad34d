"""The kept inputs: one text a target, one input a line, as Python writes bytes; a comment says what a crash was."""

import ast
from collections.abc import Iterable
from pathlib import Path

CORPORA = Path(__file__).parent / "corpus"
CORPORA_BYTES_MAX = 1 << 20  # of all of them
_LINE_BEGINS = ("b'", 'b"')


def corpus_file(name: str) -> Path:
    """Return the file of a target's inputs."""
    return CORPORA / f"{name}.txt"


def read_corpus(name: str) -> list[bytes]:
    """Return the kept inputs of a target, in the order of the file; none where it has no file yet."""
    path = corpus_file(name)
    if not path.exists():
        return []
    lines = path.read_text(encoding="ascii").splitlines()
    return [ast.literal_eval(line) for line in lines if line.startswith(_LINE_BEGINS)]


def crashes_in(name: str) -> list[str]:
    """Return the lines of a target's file that tell of crashes: a comment, and the input below it."""
    path = corpus_file(name)
    return path.read_text(encoding="ascii").splitlines() if path.exists() else []


def write_corpus(name: str, inputs: Iterable[bytes]) -> None:
    """Put the inputs into a target's file, the shortest first; crashes that it tells of stay in front of them."""
    kept: list[str] = []
    lines = crashes_in(name)
    for place, line in enumerate(lines):
        if line.startswith("#") or (place and lines[place - 1].startswith("#")):
            kept.append(line)
    crashes = {ast.literal_eval(line) for line in kept if line.startswith(_LINE_BEGINS)}
    others = sorted(set(inputs) - crashes, key=lambda data: (len(data), data))
    corpus_file(name).write_text("\n".join([*kept, *map(repr, others), ""]), encoding="ascii")
