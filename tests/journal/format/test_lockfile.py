"""The owner's line and the witness of `omsmsg.lock`: each counts as a whole, and not at all otherwise."""

from dataclasses import replace

import pytest

from oms_journal.journal.format.headers import Ending
from oms_journal.journal.format.lockfile import (
    COPY_AT,
    LOCK_FILE_SIZE,
    NUMBER_MAX,
    OWNER_LINE_SIZE,
    WITNESS_AT,
    WITNESS_SIZE,
    Witness,
    encode_owner,
    encode_witness,
    owner_said,
    witness_said,
)

LINE = encode_owner(12)
OLDER = encode_owner(7)
WITNESS = Witness(
    database=b"d" * 16,
    parent=b"p" * 16,
    parent_sequence=4,
    owner=12,
    last=Ending(sequence=5, identity=6, end=7000, commit=8, chain=9),
)


def content(line: bytes, copy: bytes = b"", witness: bytes = b"") -> bytes:
    """Return a lock file."""
    return (line.ljust(COPY_AT, b"\0") + copy).ljust(WITNESS_AT, b"\0") + witness.ljust(LOCK_FILE_SIZE - WITNESS_AT)


@pytest.mark.parametrize("number", [0, 1, 12, NUMBER_MAX])
def test_an_owners_line_gives_its_number(number: int) -> None:
    line = encode_owner(number)
    assert len(line) == OWNER_LINE_SIZE
    assert owner_said(content(line)) == owner_said(content(b"", line)) == number


def test_a_number_that_no_owner_can_have_is_none() -> None:
    assert owner_said(content(encode_owner(NUMBER_MAX + 1))) is None


@pytest.mark.parametrize("rest", [b"", b"\0", b"\xff", OLDER, LINE[::-1]], ids=range(5))
def test_no_part_of_a_line_counts_whatever_stands_behind_it(rest: bytes) -> None:
    for size in range(OWNER_LINE_SIZE):
        stale = (rest * OWNER_LINE_SIZE)[size:OWNER_LINE_SIZE]
        for line in (LINE[:size], LINE[:size] + stale):
            wanted = 12 if line == LINE else 7 if line == OLDER else None
            assert owner_said(line) == owner_said(content(line)) == owner_said(content(b"", line)) == wanted


def test_no_line_with_a_flipped_bit_or_another_byte_counts() -> None:
    for place in range(OWNER_LINE_SIZE):
        for mask in range(1, 256):
            line = bytearray(LINE)
            line[place] ^= mask
            assert owner_said(content(bytes(line))) is None
            assert owner_said(content(bytes(line), OLDER)) == 7


@pytest.mark.parametrize(
    "witness", [WITNESS, replace(WITNESS, last=Ending(sequence=5, identity=6))], ids=["closed", "begun"]
)
def test_a_witness_reads_back(witness: Witness) -> None:
    assert len(encode_witness(witness)) == WITNESS_SIZE
    assert witness_said(content(LINE, witness=encode_witness(witness))) == witness
    assert witness.is_of_closed == (witness == WITNESS)


def test_a_witness_counts_only_as_a_whole_and_beside_an_owners_line() -> None:
    said = encode_witness(WITNESS)
    assert witness_said(content(b"", witness=said)) is None
    assert witness_said(content(b"", LINE, witness=said)) == WITNESS
    assert witness_said(content(LINE)) is None
    for size in range(WITNESS_SIZE):
        assert witness_said(content(LINE, witness=said[:size])) is None
        assert witness_said(content(LINE, witness=said)[: WITNESS_AT + size]) is None
    for bit in range(8 * WITNESS_SIZE):
        flipped = bytearray(said)
        flipped[bit // 8] ^= 1 << bit % 8
        assert witness_said(content(LINE, witness=bytes(flipped))) is None
