"""What keeps each data file: with the answers written out, and as the databases themselves explain it."""

from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from oms_journal.analysis.fold.asked import RETENTION, Asked
from oms_journal.analysis.fold.local import answers
from oms_journal.analysis.fold.retention import KEY_BYTES, MESSAGE_OVERHEAD_BYTES, Needed, retention
from oms_journal.database.stats import FileExplanation, Pin
from oms_journal.journal.format.frames import FRAME_SIZE
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.writing.draft import CommitBuilder
from tests.analysis.by_hand import S, T, add, by_database, deliver, named, of, put, written
from tests.support.journals.plain_rows import Answer, File, database_of, plain_rows
from tests.support.journals.random_journal import SMALL, RandomWriter

SEEDS = range(4)
SHARE = 0.6  # of a run of files, needed at the most, so that compaction takes it
TOLD = ("active", "bytes", "live_bytes", "live_messages", "live_keys", "needed", "pins_files", "freed_by_compact")


def answer(*paths: Path | str, now: int, **asked: Any) -> Answer:
    """Return what the fold answers."""
    found = answers([str(path) for path in paths], Asked(questions=frozenset((RETENTION,)), **asked), now=now)
    return plain_rows(found[RETENTION])


def test_retention_names_what_keeps_each_file(tmp_path: Path) -> None:
    rows = of(
        "pinned",
        *[add(1, 0, sequence=1, queue="dead letters", length=50), add(2, 1, sequence=1)],
        *[deliver(2, 2), add(3, 2, sequence=2), deliver(3, 3, sequence=3), add(4, 4, sequence=3)],
        *[put("b", 1, sequence=2), put("a", 5, sequence=4), put("b", 5, sequence=4), put("b", 6, None, sequence=4)],
        *[put("c", 6, sequence=4), put("c", 7, None, sequence=4), put("c", 8, sequence=4)],
        *[put("b", 9, sequence=4), put("\0engine", 7, sequence=5)],
    )

    found = named(answer(*written(tmp_path, rows), now=T + 60 * S))

    assert by_database(found, "sequence", "live_bytes", "live_messages", "live_keys") == {
        "pinned": [(1, 50, 1, 0), (2, 0, 0, 0), (3, 10, 1, 0), (4, 0, 0, 3), (5, 0, 0, 0)]
    }
    assert all(row["live_bytes"] + row["dead_bytes"] == row["bytes"] for row in found)
    pins = ("sequence", "needed", "pinned_by", "pin_message", "pin_queue", "pin_key", "pin_age_seconds", "pins_files")
    assert by_database(found, *pins)["pinned"] == [
        (1, True, "message", 1, "dead letters", None, 60.0, 2),
        (2, False, None, None, None, None, None, 0),
        (3, True, "message", 4, "q", None, 56.0, 1),
        (4, True, "key", None, None, "a", 55.0, 1),
        (5, False, None, None, None, None, None, 0),
    ]
    kept = (50 + MESSAGE_OVERHEAD_BYTES, 0, 10 + MESSAGE_OVERHEAD_BYTES, 3 * KEY_BYTES, 0)
    assert [row["bytes"] - row["freed_by_compact"] for row in found] == list(kept)


def _files(*sizes: int, active: bool = False, retained: int = 0) -> list[File]:
    return [
        File(
            sequence=sequence,
            file=f"omsmsg-{sequence:010}.data",
            bytes=FRAMES_AT + size,  # headers, and what stands behind them
            sealed=not active or sequence < len(sizes),
            retained=sequence <= retained,
        )
        for sequence, size in enumerate(sizes, start=1)
    ]


@pytest.mark.parametrize(
    ("files", "live", "freed"),
    [
        (_files(1000, 1000, active=True), {1: 800}, [0, 0]),
        (_files(1000, 1000, active=True), {1: 380}, [FRAMES_AT + 1000 - 380 - MESSAGE_OVERHEAD_BYTES, 0]),
        (_files(1000, 1000, active=True), {1: 381}, [0, 0]),  # more than half of it is needed
        (_files(*[1000] * 8), dict.fromkeys(range(1, 9), 700), [FRAMES_AT + 180] * 8),
        (_files(*[1000] * 7), dict.fromkeys(range(1, 8), 700), [0] * 7),
        (_files(1000, 1000, 500, retained=2), {}, [FRAMES_AT + 500]),  # two are not on the disk any more
    ],
    ids=["full", "half", "over", "many", "few", "moved away"],
)
def test_retention_plans_as_compaction_does(files: list[File], live: dict[int, int], freed: list[int]) -> None:
    needed = {sequence: Needed(messages=1, size=size, pin=(sequence, "q", T)) for sequence, size in live.items()}

    found = retention([asdict(file) for file in files], needed, T)

    assert [row["freed_by_compact"] for row in found] == freed


def _as_vouched(each: FileExplanation) -> FileExplanation:
    """Return what a reader beside the database sees: all but the frame that vouches for the others.

    Where it is the first of its file, the lock file vouches for it.
    """
    is_first = each.bytes == FRAMES_AT + FRAME_SIZE
    return replace(each, bytes=each.bytes - FRAME_SIZE) if each.active and not is_first else each


@pytest.mark.whole
def test_retention_agrees_with_what_the_databases_say(tmp_path: Path) -> None:
    told: dict[tuple[str, int], FileExplanation] = {}
    now: dict[str, int] = {}
    with ExitStack() as are_open:
        for seed in SEEDS:
            spool = tmp_path / str(seed)
            writer = RandomWriter(spool, seed)
            writer.write(openings=2, steps=200)
            db = are_open.enter_context(writer.open(compact_share=SHARE))
            while db.stats().files < 12:
                db.deliver(db.add("q", bytes(1500)))
            db._write(CommitBuilder().draft())  # vouches for what was committed last
            db._journal.seal_all()  # cuts what is full to its length
            told |= {(database_of(spool), each.sequence): _as_vouched(each) for each in db.explain()}
            now[database_of(spool)] = writer.clock.now
        latest = max(now.values())

        found = answer(tmp_path / "*", now=latest, compact_share=SHARE, data_file_bytes=SMALL)
        asked = {(row["database"], row["sequence"]): row for row in found}

    assert asked.keys() == told.keys()
    assert {each.pinned_by and each.pinned_by.kind for each in told.values()} == {None, "message", "key"}
    for at, each in told.items():
        row, pin = asked[at], each.pinned_by or Pin(sequence=0, kind="")
        assert [row[name] for name in TOLD] == [getattr(each, name) for name in TOLD]
        assert (row["file"], row["pinned_by"] or "") == (each.name, pin.kind)
        assert (row["pin_message"], row["pin_queue"], row["pin_key"]) == (pin.number, pin.queue, pin.key)
        if pin.age is not None:
            assert row["pin_age_seconds"] == pytest.approx(pin.age + (latest - now[at[0]]) / 1e6)
