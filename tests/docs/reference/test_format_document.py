"""The pages of docs/reference/format say what the modules say, and the modules what the bytes are."""

import re
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from oms_journal import MessageDatabase
from oms_journal.database import lookup
from oms_journal.index import duplicates
from oms_journal.journal import lock as owner
from oms_journal.journal import names, operations
from oms_journal.journal.format import footer, frames, headers, lockfile, plain, records
from oms_journal.journal.format.contents import COLUMNS
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.invariants import INVARIANTS, appendix
from oms_journal.journal.format.records import VALUE_HEAD_BYTES, decode_set, encode_set
from oms_journal.journal.writing import draft, groups, single
from oms_journal.journal.writing.log import DATA_FILE_BYTES_MAX
from oms_journal.recovery.numbering import NUMBER_JUMP
from tests.support.journals.format_tables import PAGES, Rows, as_markdown, docstring_tables, markdown_tables, widths
from tests.support.project import REPOSITORY

TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
TABLES = markdown_tables(TEXT)
MODULES = (
    *(
        "oms_journal.journal.format.headers",
        "oms_journal.journal.format.frames",
        "oms_journal.journal.format.records",
        "oms_journal.journal.format.contents",
        "oms_journal.journal.format.footer",
        "oms_journal.journal.names",
    ),
    *("oms_journal.journal.operations", "oms_journal.journal.format.manifest", "oms_journal.database.lookup"),
)


@pytest.mark.parametrize(
    ("module", "table", "size"),
    [
        ("oms_journal.journal.format.headers", 0, headers.HEADER_SIZE),
        ("oms_journal.journal.format.frames", 0, frames.FRAME_SIZE),
        ("oms_journal.journal.format.records", 0, records.RECORD.size),
        ("oms_journal.journal.format.footer", 2, footer.SUMMARY.size),
        ("oms_journal.journal.format.footer", 3, footer.TRAILER.size),
        ("oms_journal.journal.format.lockfile", 0, lockfile.WITNESS_SIZE),
    ],
)
def test_the_widths_in_a_table_add_up_to_the_struct(module: str, table: int, size: int) -> None:
    assert sum(width for _, width in widths(docstring_tables(module)[table])) == size


@pytest.mark.parametrize("module", MODULES)
def test_the_document_has_every_table_of_the_modules(module: str) -> None:
    for rows in docstring_tables(module):
        assert rows in TABLES, f"a page of docs/reference/format should have\n\n{as_markdown(rows)}"


def test_the_appendix_has_every_invariant_that_a_reader_checks() -> None:
    assert appendix() in TEXT
    assert len({one.name for one in INVARIANTS}) == len(INVARIANTS)


def test_each_field_of_a_header_stands_where_the_table_says() -> None:
    fields = dict(widths(docstring_tables("oms_journal.journal.format.headers")[0]))
    starts = dict(zip(fields, accumulate(fields.values(), initial=0), strict=False))
    header = headers.FileHeader(
        database=b"d" * 16,
        parent=b"p" * 16,
        parent_sequence=1,
        identity=2,
        sequence=3,
        owner=4,
        next_message=5,
        next_commit=6,
        low_water=7,
        created=-8,
        alignment=64,
        previous=headers.Ending(sequence=9, identity=10, end=11, commit=12, chain=13),
    )
    data = headers.encode_header(header)

    found = {name: data[starts[name] : starts[name] + width] for name, width in fields.items()}

    assert (found.pop("database"), found.pop("parent")) == (b"d" * 16, b"p" * 16)
    assert found.pop("magic") == headers.MAGIC == bytes.fromhex("894F4D53440D0A1A")
    assert int.from_bytes(found.pop("checksum"), "little") == xxh3(data[:248])
    numbers = {name: int.from_bytes(value, "little", signed=True) for name, value in found.items()}
    assert numbers == {
        **{"version": 2, "header size": 256, "parent sequence": 1, "identity": 2, "sequence": 3, "owner": 4},
        **{"next message": 5, "next commit": 6, "low water": 7, "created": -8, "alignment": 64, "flags": 0},
        **{"previous sequence": 9, "previous identity": 10, "previous end": 11, "previous commit": 12},
        **{"previous chain": 13, "zeros": 0},
    }


@pytest.mark.parametrize(
    ("module", "first_field", "names"),
    [(frames, "checksum", "FRAME_{}_AT"), (records, "kind", "RECORD_{}_AT"), (footer, "magic", "SUMMARY_{}_AT")],
)
def test_each_offset_that_has_a_name_is_the_documents(module: ModuleType, first_field: str, names: str) -> None:
    fields = dict(widths(next(rows for rows in TABLES if rows[1][0] == first_field and _is_of(module, rows))))
    starts = dict(zip(fields, accumulate(fields.values(), initial=0), strict=False))
    named = {field: getattr(module, names.format(field.upper()), None) for field in fields}

    found = {field: offset for field, offset in named.items() if offset is not None}

    assert found == {field: starts[field] for field in found}
    assert set(found) == ({"size", "rows"} if module is footer else set(fields)), "each field has a name"


def _is_of(module: ModuleType, rows: Rows) -> bool:
    return rows in docstring_tables(module.__name__) and rows[0][0] == "field"


def test_the_frame_of_a_plain_message_has_its_fields_where_frame_and_record_have_them() -> None:
    template, payload = draft.QueueTemplate("größe".encode(), 0), b"payload"
    place = single.WritePosition(
        identity=1, sequence=2, alignment=8, offset=4400, synced=4352, next_message=4, next_commit=5
    )
    (head,) = groups.form(place, [draft.one_add(template, payload)], time=-6).heads

    frame = frames.decode_frame(head, 4400, sequence=2, identity=1, base=4400, limit=4600)
    (record,) = records.decode_records(head[frames.FRAME_SIZE :])
    assert isinstance(frame, frames.FrameHeader)

    assert plain.PLAIN.unpack_from(head) == (
        *(frame.checksum, frame.length, frame.meta, frame.identity, frame.time, plain.PLAIN_MARK, len(record.name)),
        *(record.number, record.checksums[0], record.sizes[0]),
    )
    words = frames.words_of(head, 0)
    assert words[plain.RECORD_WORD] & ~plain.RECORD_NAME_MASK == plain.PLAIN_RECORD
    assert words[frames.COUNTS_WORD] == plain.PLAIN_COUNTS
    assert (words[plain.NUMBER_WORD], words[plain.HASH_WORD]) == (record.number, record.checksums[0])
    assert head[plain.PLAIN_NAME_AT :].rstrip(b"\0") == record.name


def test_nothing_else_in_the_engine_packs_or_unpacks_bytes_of_data_files() -> None:
    others = {  # bytes of their own
        "database/door/client.py",
        "database/door/protocol.py",
        "database/consumers/hand_file.py",
        "database/lookup.py",
        "index/duplicates.py",
        "index/returned.py",
        "recovery/findings.py",
    }
    sources = [
        path for room in ("journal", "index", "recovery", "database") for path in (REPOSITORY / room).rglob("*.py")
    ]
    makers = {str(path.relative_to(REPOSITORY)) for path in sources if "struct.Struct(" in path.read_text("utf-8")}

    assert {path for path in makers if not path.startswith("journal/format/")} == others | {"journal/reading/sweep.py"}


def test_the_columns_of_a_footer_are_those_of_the_table_in_its_order() -> None:
    assert [row[0] for row in docstring_tables("oms_journal.journal.format.contents")[0][1:]] == list(COLUMNS)


def test_the_columns_of_bytes_have_the_ids_of_the_table() -> None:
    ids = [int(row[0]) for row in docstring_tables("oms_journal.journal.format.footer")[1][1:]]

    assert ids == [footer.NAMES, footer.PRODUCERS, footer.SETS, footer.VALUE_HEADS, footer.GROUPS]
    assert f"the first {VALUE_HEAD_BYTES} bytes" in docstring_tables("oms_journal.journal.format.footer")[1][4][1]


def _table(first_field: str) -> Rows:
    """Return the document's table whose first row begins with this field."""
    return next(rows for rows in TABLES if rows[1][0] == first_field)


def test_the_entry_of_a_footers_directory_is_as_long_as_the_table_says() -> None:
    assert sum(width for _, width in widths(_table("id"))) == footer.ENTRY.size


def test_the_entry_of_the_duplicate_window_is_as_long_as_the_table_says() -> None:
    fixed = [int(row[1]) for row in _table("queue size")[1:] if row[1].isdecimal()]
    seen = duplicates.KnownIdentifier(1, 2, 3, 4, 5)

    (value,) = duplicates.carried({(b"queue", b"producer"): seen})

    assert len(value) == sum(fixed) + len(b"queue") + len(b"producer")


def test_the_entry_of_the_index_file_is_as_long_as_the_table_says() -> None:
    assert f"{lookup.INDEX_ENTRY.size} × count" in {
        row[1] for row in docstring_tables("oms_journal.database.lookup")[0]
    }


def test_the_lines_of_the_lock_file_stand_where_the_table_says(tmp_path: Path) -> None:
    assert docstring_tables("oms_journal.journal.format.lockfile")[0] in TABLES
    *rows, copy, witness = _table("0")
    ends = [int(offset) + int(size) for offset, size, _ in rows[1:]]

    assert [int(row[0]) for row in rows[2:]] == ends[:-1]
    assert ends[0] == lockfile.OWNER_LINE_SIZE
    assert (int(copy[0]), int(copy[1])) == (lockfile.COPY_AT, lockfile.OWNER_LINE_SIZE)
    assert (int(witness[0]), int(witness[1])) == (lockfile.WITNESS_AT, lockfile.WITNESS_SIZE)
    with MessageDatabase.open(tmp_path) as database:
        database.put("key", b"")
        data = (tmp_path / names.LOCK).read_bytes()
    assert [data[end - 1 : end] for end in ends] == [b"\n"] * 3
    assert len(data) == lockfile.LOCK_FILE_SIZE
    assert f"2^{owner.LOCK_BYTE_BASE.bit_length() - 1} + *n*" in TEXT


def test_the_limits_are_those_of_the_program() -> None:
    numbers = {what: [int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", bound)] for what, bound in
               ((row[0], row[1]) for row in _table("queue, key, producer identifier, group")[1:])}  # fmt: skip

    assert numbers["queue, key, producer identifier, group"] == [1, operations.NAME_BYTES_MAX]
    assert numbers["properties of a message"] == [operations.PROPERTIES_BYTES_MAX, 0xFFFF]
    assert numbers["a message, with its properties"] == [2, 30] and operations.MESSAGE_BYTES_MAX == 1 << 30
    assert numbers["value of a key"] == [operations.VALUE_BYTES_MAX]
    assert numbers["frame"] == [2, 30, 2, 20] and frames.FRAME_BYTES_MAX == (1 << 30) + (1 << 20)
    assert numbers["operations of a commit"] == [frames.OPERATIONS_MAX]
    assert numbers["data file"] == [16] and DATA_FILE_BYTES_MAX == 16 << 30
    assert numbers["numbers of a data file"] == [2, 31] and headers.NUMBERS_MAX == NUMBER_JUMP == 1 << 31
    assert numbers["sequence"] == [names.SEQUENCE_MAX]
    assert numbers["archives of one data file"] == [names.VERSION_MAX]
    assert f"{frames.FRAME_BYTES_MAX:,}" in TEXT


def test_the_examples_of_the_checksum_are_right() -> None:
    examples = re.findall(r"\| (.*?) \| `?([0-9a-f]+)`? \| `([0-9a-f]{16})` \|", TEXT)
    inputs = {"none": b"", "`abc`": b"abc", "00 01 02 … 2f (48 bytes)": bytes(range(48))}
    inputs |= {"00 01 02 … 06 (7 bytes)": bytes(range(7)), "00 01 02 … c7 (200 bytes)": bytes(range(200))}
    inputs["00 01 02 … ff (256 bytes)"] = bytes(range(256))

    assert {what: f"{xxh3(inputs[what], int(seed, 16)):016x}" for what, seed, _ in examples} == {
        what: digest for what, _, digest in examples
    }
    assert len(examples) == len(inputs)


def test_the_example_of_a_set_is_right() -> None:
    coded = bytes.fromhex("03 01 01 a4 02 01")
    numbers = [1000, 1001, 1002, 1004, 1297]

    assert "`03 01 01 a4 02 01` are 1000, 1001, 1002, then 1003 left out, 1004" in TEXT
    assert decode_set(1000, len(numbers), coded).tolist() == numbers
    assert encode_set(np.array(numbers, np.uint64)) == coded
