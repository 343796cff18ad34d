"""Messages that no healthy journal has: ends without ADDs, ADDs that come again, ends that come twice, in any order."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from oms_journal.analysis import fold
from oms_journal.analysis.fold.asked import OF_MESSAGES, Asked
from oms_journal.analysis.fold.engine import decoded, encoded
from oms_journal.analysis.fold.matching import NumberSet
from oms_journal.analysis.fold.messages import DEAD_LETTERED, ENDED, NEVER, OPEN, Columns
from oms_journal.analysis.fold.partial import History, Partial
from oms_journal.analysis.fold.tables import finished
from oms_journal.journal.operations import Operation
from tests.support.journals.folded import EVERY, expected
from tests.support.journals.plain_answers import moves_in
from tests.support.journals.plain_rows import Row, assert_same_rows, plain_rows
from tests.support.project import REPOSITORY
from tests.support.sweeps import for_each

DATABASE = "0f" * 16
QUEUES = ("a", "b")
SECOND = 1_000_000


def journal(seed: int) -> list[list[Row]]:
    """Return the rows of some files: most messages live as they should, and some do not."""
    chance = random.Random(seed)
    files: list[list[Row]] = [[] for _ in range(chance.randrange(1, 6))]
    first_file = np.sort([chance.randrange(len(files)) for _ in range(12)]).tolist()
    is_strange = chance.random() < 0.7
    for number, file in enumerate(first_file, start=10):
        queue, time = chance.choice(QUEUES), number * SECOND
        due = chance.choice((None, None, time + 5 * SECOND))
        expiry = chance.choice((None, time + 20 * SECOND))
        add = Row(
            database=DATABASE, operation="ADD", message=number, queue=queue, time=time, first_time=time, length=number,
            hash=number, due=due, expiry=expiry, properties_length=0, commit=number,
            attempts=chance.choice((None, 0, 3)),
        )  # fmt: skip
        rows = [(file, add)] if chance.random() < 0.85 or not is_strange else []
        for _ in range(chance.choice((0, 0, 0, 1, 2))):
            file = chance.randrange(file, len(files))
            if all(place != file for place, _ in rows) or is_strange:
                rows.append((file, replace(add, moved=True, time=time + chance.randrange(50) * SECOND)))
        for _ in range(chance.choice((0, 1, 1, 2) if is_strange else (0, 1, 1))):
            file = chance.randrange(0 if is_strange else file, len(files))
            end = Row(
                database=DATABASE, operation=chance.choice(("DELIVER", "DELETE")), message=number, queue=queue,
                time=chance.randrange(10, 60) * SECOND, commit=chance.randrange(10, 22),
            )  # fmt: skip
            rows.append((file, end))
        for place, row in rows:
            files[place].append(replace(row, sequence=place + 1, offset=len(files[place])))
    return files


def columns_of(rows: Iterable[Row]) -> tuple[Columns, Columns]:
    """Return the ADDs and the ends of one file as the fold takes them."""
    rows = list(rows)
    adds = [row for row in rows if row.operation == "ADD"]
    ends = [row for row in rows if row.operation != "ADD"]
    moves = moves_in(rows)
    is_moved = [(row.database, row.sequence, row.commit) in moves for row in ends]
    made = {
        "number": [row.message for row in adds],
        "queue": [QUEUES.index(row.queue or "") for row in adds],
        "added": [row.first_time for row in adds],
        "ready": [max(row.first_time or 0, row.due or row.first_time or 0) for row in adds],
        "expiry": [NEVER if row.expiry is None else row.expiry for row in adds],
        "length": [row.length for row in adds],
        "properties": [0 for _ in adds],
        "sequence": [row.sequence for row in adds],
        "is_copy": [row.moved for row in adds],
    }
    ended = {
        "number": [row.message for row in ends],
        "queue": [QUEUES.index(row.queue or "") for row in ends],
        "time": [row.time for row in ends],
        "kind": [
            DEAD_LETTERED if is_so and row.operation == "DELETE" else Operation[row.operation]
            for row, is_so in zip(ends, is_moved, strict=True)
        ],
    }
    return (
        {name: np.array(made[name], np.int64 if kind != "?" else np.bool_) for name, kind in OPEN.items()},
        {name: np.array(ended[name], kind) for name, kind in ENDED.items()},
    )


def partial_of(rows: Sequence[Row], asked: Asked, aside: NumberSet) -> Partial:
    found = Partial()
    history = found.histories[DATABASE] = History(asked)
    for queue in QUEUES:
        history.queues.place(queue)
    assert history.messages is not None
    history.messages.take(*columns_of(rows), aside)
    return found


def in_tree(files: Sequence[Sequence[Row]], asked: Asked, aside: NumberSet, chance: random.Random) -> Partial:
    if len(files) == 1:
        return partial_of(files[0], asked, aside)
    middle = chance.randrange(1, len(files))
    found = in_tree(files[:middle], asked, aside, chance)
    found.merge(in_tree(files[middle:], asked, aside, chance))
    return found


def in_parts(files: Sequence[Sequence[Row]], asked: Asked, aside: NumberSet, chance: random.Random) -> Partial:
    """Put what is open together in parts by number, and the parts at the end."""
    parts = [Partial() for _ in range(chance.choice((1, 2, 5)))]
    whole = Partial()
    for rows in files:
        found = partial_of(rows, asked, aside)
        before = found.border_bytes
        handed = found.hand_over(len(parts))
        assert before == sum(one.border_bytes for one in handed)
        assert found.border_bytes == 0
        for part, one in zip(parts, handed, strict=True):
            part.merge(decoded(encoded(one)))
        whole.merge(found)
    for part in parts:
        whole.merge(part)
    return whole


@for_each("seed", range(2000), sample=60, is_long=True)
def test_whatever_a_journal_says_of_its_messages_is_put_together_as_it_is_defined(seed: int) -> None:
    files = journal(seed)
    chance = random.Random(seed)
    asked = Asked(
        questions=frozenset(OF_MESSAGES), every=EVERY, since=chance.choice((None, 25 * SECOND)), bins_a_decade=2
    )
    rows = [row for file in files for row in file]
    plain = expected(rows, [], asked, 100 * SECOND)
    for put_together in (in_tree, in_parts):
        numbers = NumberSet()
        partial = put_together(files, asked, numbers, chance)
        while again := partial.doubtful():
            numbers |= again[DATABASE]
            partial = put_together(files, asked, numbers, chance)

        found = finished(partial, asked, 100 * SECOND)

        for name, table in found.items():
            assert isinstance(table, pa.Table)
            assert_same_rows(plain_rows(table), plain[name])


def test_what_is_open_takes_as_many_bytes_as_the_pages_say() -> None:
    opened, ended = (sum(np.dtype(kind).itemsize for kind in kinds.values()) for kinds in (OPEN, ENDED))
    assert f"{opened} bytes a message that is open" in str(fold.__doc__)
    assert f"{ended} bytes an end whose ADD" in str(fold.__doc__)
    page = (REPOSITORY / "docs" / "reference" / "analysis.md").read_text(encoding="utf-8")
    assert f"Memory grows with what is undelivered: {opened} bytes a message." in page
