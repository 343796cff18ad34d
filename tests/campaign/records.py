"""What the clients have written down, read."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Note:
    """A line of a client's record. Times are of the one clock of the machine that only goes forward."""

    what: str
    who: str
    body: str
    at: float
    began: float  # when the connection began that it is about
    queue: str = ""  # where to, or where from
    delivery: int = 0
    correlation: str = ""  # what an answer says that it is the answer to


@dataclass(slots=True)
class Records:
    """All the notes, by what they are about."""

    sent: dict[str, dict[str, list[Note]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    receipted: dict[str, dict[str, list[Note]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    got: dict[str, dict[str, list[Note]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    asked: dict[str, dict[str, list[Note]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    acknowledged: dict[str, dict[str, list[Note]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    subscribed: dict[str, float] = field(default_factory=dict)  # who -> when it was first promised
    counts: Counter[str] = field(default_factory=Counter)


def read(directory: Path) -> Records:
    """Return what all clients have written down: queue -> body -> notes."""
    records = Records()
    kinds = {
        "send": records.sent,
        "receipt": records.receipted,
        "got": records.got,
        "ack": records.asked,
        "acked": records.acknowledged,
    }
    for note in _notes(directory.glob("*.record")):
        records.counts[note.what] += 1
        if note.what in kinds:
            kinds[note.what][note.queue][note.body].append(note)
        elif note.what == "subscribed" and note.body.startswith("/topic/"):
            records.subscribed[note.who] = min(note.at, records.subscribed.get(note.who, note.at))
    return records


def _notes(paths: Iterable[Path]) -> Iterator[Note]:
    for path in sorted(paths):
        for text in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if not text.endswith("\n"):
                continue  # its writer was killed in it
            line = json.loads(text)
            queue = line.get("to") or line.get("of") or ""
            yield Note(
                what=line["what"],
                who=line["who"],
                body=line["body"],
                at=line["at"],
                began=line["began"],
                queue=queue,
                delivery=line.get("delivery", 0),
                correlation=line.get("correlation", ""),
            )
