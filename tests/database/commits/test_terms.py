"""The terms of messages: due time, expiry, attempts and group are kept through everything that happens to a message."""

from pathlib import Path

import numpy as np
import pytest

from oms_journal import DatabaseView, Message, MessageDatabase
from oms_journal.database.bulk.loading import load
from oms_journal.database.options import Options
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import UnreadableCommit
from oms_journal.journal.format.contents import TERM_COLUMNS, Contents
from oms_journal.journal.format.records import ATTEMPTS, DUE, EXPIRY, NO_TERMS, Added, TermColumns, Terms
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.dump import DumpedOperation
from oms_journal.journal.reading.message import MessageOnTerms
from oms_journal.journal.reading.sweep import sweep
from oms_journal.journal.reading.walk import Span, walk
from oms_journal.journal.writing.draft import CommitBuilder
from oms_journal.recovery.dump import dump
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.validation import validate_directory
from tests.support.journals.on_terms import add_on_terms

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
FAR = 1 << 62
SMALL = 7680

GIVEN = [
    TermColumns(due=[LOWEST]),
    TermColumns(expiry=[FAR, HIGHEST]),
    TermColumns(attempts=[0, (1 << 32) - 1]),
    TermColumns(groups=[b"g", b"", "größe".encode()]),
    TermColumns(due=[5, 6], expiry=[FAR, FAR + 1], attempts=[1, 2], groups=[b"g", b"g" * 255]),
]
EXPECTED = [
    Terms(due=LOWEST),
    *(Terms(expiry=FAR), Terms(expiry=HIGHEST)),
    *(Terms(attempts=0), Terms(attempts=(1 << 32) - 1)),
    *(Terms(group=b"g"), NO_TERMS, Terms(group="größe".encode())),
    *(Terms(due=5, expiry=FAR, attempts=1, group=b"g"), Terms(due=6, expiry=FAR + 1, attempts=2, group=b"g" * 255)),
]


def _written(db: MessageDatabase, *, properties: dict[str, str] | None = None) -> list[int]:
    """Add messages with the terms above, between two without any; return their numbers."""
    db.add("q", b"before")
    numbers = []
    for terms in GIVEN:
        count = max(map(len, terms))
        numbers += add_on_terms(db, "q", [b"payload %d" % n for n in range(count)], terms, properties=properties)
    db.add("q", b"behind")
    return numbers


def _terms(message: Message) -> Terms:
    return message._terms if isinstance(message, MessageOnTerms) else NO_TERMS


def _dumped(directory: Path, numbers: list[int], *, is_moved: bool) -> list[Terms]:
    """Return what a dump says of the messages, wherever they were added or moved to."""
    told = [one for one in dump(RealDisk(), [directory]) if isinstance(one, DumpedOperation)]
    found = {one.message: one.terms for one in told if one.operation == "ADD" and one.moved == is_moved}
    return [found[number] for number in numbers]


def _of_columns(contents: Contents) -> list[Terms]:
    """Return the terms that the columns say of all messages but the first and the last."""
    columns, groups = contents.columns, [None, *map(bytes, contents.groups)]
    rows = np.flatnonzero(columns["kind"] == Operation.ADD)[1:-1]
    found = []
    for row in rows.tolist():
        due, expiry, attempts, group = (int(columns[name][row]) for name in TERM_COLUMNS)
        flags = int(columns["flags"][row])
        found.append(
            Terms(
                due=due if flags & DUE else None,
                expiry=expiry if flags & EXPIRY else None,
                attempts=attempts if flags & ATTEMPTS else None,
                group=groups[group],
            )
        )
    return found


@pytest.mark.parametrize("properties", [None, {"colour": "blue"}])
def test_messages_are_read_with_the_terms_they_were_added_with(
    properties: dict[str, str] | None, tmp_path: Path
) -> None:
    with MessageDatabase.open(tmp_path) as db:
        numbers = _written(db, properties=properties)
        found = [db.read(number) for number in numbers]
        assert list(map(_terms, found)) == EXPECTED
        assert [_terms(one) for one in db.undelivered()] == [NO_TERMS, *EXPECTED, NO_TERMS]
        assert [one.properties for one in found] == [properties or {}] * len(found)
        assert found[0] == Message(*found[0]), "for whoever knows nothing of terms it is a message as any other"
    assert _dumped(tmp_path, numbers, is_moved=False) == EXPECTED
    with MessageDatabase.open(tmp_path) as db:
        assert [_terms(db.read(number)) for number in numbers] == EXPECTED


def test_a_footer_and_a_walk_have_the_terms_as_columns(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        _written(db, properties={"colour": "blue"})
    with DataFile(RealDisk(), tmp_path / "omsmsg-0000000001.data") as file:
        footer = file.footer(identity=None)
        assert isinstance(footer, Footer)
        header, contents, end = footer.summary.header, footer.contents(), footer.summary.end
        assert sweep(file.file, footer.summary, contents) == []
        data = file.bytes(end)
    span = Span(sequence=1, identity=header.identity, limit=end, alignment=8)

    assert _of_columns(contents) == EXPECTED
    assert _of_columns(walk(data, span).builder.build_checked(end, header)) == EXPECTED


def test_a_start_without_footer_and_a_repair_keep_the_terms(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        numbers = _written(db)
    path = tmp_path / "omsmsg-0000000001.data"
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"OMSFOOT2")].replace(b"before", b"rotted"))

    with MessageDatabase.open(tmp_path) as db:
        assert [_terms(db.read(number)) for number in numbers] == EXPECTED
    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=None)
        assert isinstance(footer, Footer) and _of_columns(footer.contents()) == EXPECTED
    with MessageDatabase.open(tmp_path) as db:
        assert [_terms(db.read(number)) for number in numbers] == EXPECTED


@pytest.mark.parametrize("properties", [None, {"colour": "blue"}])
def test_compaction_carries_the_terms_along(properties: dict[str, str] | None, tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=SMALL, cleanup_interval=0) as db:
        numbers = _written(db, properties=properties)
        for _ in range(3):
            db.deliver_many([db.add("filling", bytes(900)) for _ in range(16)])
            report = db.cleanup(compact=True)
            assert report.moved_messages == len(numbers) + 2 and report.deleted
            assert [_terms(db.read(number)) for number in numbers] == EXPECTED
        assert _dumped(tmp_path, numbers, is_moved=True) == EXPECTED
    assert {one.verdict for one in validate_directory(tmp_path, payloads=True)} == {Verdict.CLEAN}
    with DatabaseView.open(tmp_path) as view:
        assert [_terms(one) for one in view.undelivered()] == [NO_TERMS, *EXPECTED, NO_TERMS]


def test_messages_that_are_loaded_into_another_database_keep_their_terms(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path / "one") as db:
        numbers = _written(db)
        messages = list(db.undelivered())
    with MessageDatabase.open(tmp_path / "other") as db:
        load(db, messages, {})
        assert [_terms(db.read(number)) for number in numbers] == EXPECTED


def test_a_large_commit_with_terms_is_read_message_by_message(tmp_path: Path) -> None:
    count = 3000
    terms = TermColumns(
        due=range(count), attempts=range(count), groups=[b"g%d" % (n % 7) if n % 3 else b"" for n in range(count)]
    )
    with MessageDatabase.open(tmp_path) as db:
        numbers = add_on_terms(db, "q", [b"%d" % n for n in range(count)], terms)
        for place in (0, 1, 2, count // 2, count - 1):
            assert _terms(db.read(numbers[place])) == terms.of(place)


@pytest.mark.parametrize(
    "terms",
    [
        TermColumns(due=[1]),
        TermColumns(due=[1, 2, 3]),
        TermColumns(attempts=[1]),
        TermColumns(groups=[b"g"]),
        TermColumns(groups=[b"g", b"g" * 256]),
    ],
)
def test_terms_that_are_not_those_of_each_message_are_refused(terms: TermColumns) -> None:
    with pytest.raises(UnreadableCommit):
        CommitBuilder().add(Added(queue=b"q", payloads=[b"1", b"2"], terms=terms))


def test_messages_without_terms_cost_nothing_in_the_footer(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add_many("q", [b"payload"] * 1000)
    with DataFile(RealDisk(), tmp_path / "omsmsg-0000000001.data") as file:
        footer = file.footer(identity=None)
        assert isinstance(footer, Footer)
        encoded = footer.columns().encoded

    assert {name: (width, size) for name in TERM_COLUMNS for (_, width, _, _, size), _ in [encoded[name]]} == (
        dict.fromkeys(TERM_COLUMNS, (0, 0))
    )


def _fill(db: MessageDatabase, commits: int) -> int:
    """Write so many commits of many small messages; return the file that the last one came to."""
    number = 0
    for _ in range(commits):
        number = db.add_many("q", [b"x" * (place % 5) for place in range(40)])[-1]
    place = db._state().ledger.index.table.find(number)
    assert place is not None
    return place.sequence


@pytest.mark.parametrize("limit", [1 << 14, 1 << 16])
def test_a_file_is_no_longer_than_it_may_be_though_terms_make_all_its_rows_longer(limit: int, tmp_path: Path) -> None:
    """A message with terms comes to a file that is full but for a little: each row of its footer takes more then."""
    options = Options.of(max_data_file_size=limit, cleanup_interval=0)
    with MessageDatabase.open(tmp_path / "first", options=options) as db:
        fitting = 0
        while _fill(db, 1) == 1:
            fitting += 1
    for commits in range(fitting // 2, fitting + 1):
        directory = tmp_path / str(commits)
        with MessageDatabase.open(directory, options=options) as db:
            assert _fill(db, commits) == 1
            add_on_terms(db, "q", [b""], TermColumns(due=[HIGHEST], expiry=[LOWEST], groups=[b"g"], attempts=[9]))
        assert max(path.stat().st_size for path in directory.glob("*.data")) <= limit


def test_all_that_is_handed_in_is_copied_before_a_clock_is_asked(tmp_path: Path) -> None:
    given: list[dict[str, str] | None] = [{"kind": "order"}, None]

    def clock() -> int:
        given.clear()
        return 1_700_000_000_000_000

    with MessageDatabase.open(tmp_path, clock=clock) as db:
        given[:] = [{"kind": "order"}, None]
        numbers = db.add_many("q", [b"1", b"2"], properties=given, expires=60.0)
        assert [db.read(number).properties for number in numbers] == [{"kind": "order"}, {}]
