"""The names of the journal's files: each is made and parsed in one place, and strangers are none of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oms_journal.journal import names
from oms_journal.journal.names import ArchiveName, DataFileName, OwnName, UnfinishedName, parse, unfinished
from tests.support.sweeps import for_each

SEQUENCES = st.integers(1, names.SEQUENCE_MAX)
STRANGERS = (
    *("", ".", "..", "notes.txt", "omsmsg", "omsmsg-", "omsmsg-.data", "omsmsg-1.data", "omsmsg-000000001.data"),
    *("omsmsg-00000000001.data", "omsmsg-0000000000.data", "omsmsg-0000000001.dat", "omsmsg-0000000001.data~"),
    *("omsmsg-0000000001.data ", " omsmsg-0000000001.data", "omsmsg-0000000001.data\n", "OMSMSG-0000000001.DATA"),
    *("omsmsg-000000000a.data", "omsmsg-+000000001.data", "omsmsg-00000 0001.data", "omsmsg--000000001.data"),
    *("omsmsg-٠٠٠٠٠٠٠٠٠١.data", "omsmsg-0000000001-v001.archive", "omsmsg-0000000001-v0000.archive"),
    *("omsmsg-0000000001-v00001.archive", "omsmsg-0000000000-v0001.archive", "omsmsg-0000000001-0001.archive"),
    *("omsmsg-0000000001.archive", "omsmsg-0000000001-v0001.data", "omsmsg-0000000001.data.new.new"),
    *("omsmsg-1.data.new", "omsmsg.lock.new", "omsmsg.lock2", "omsmsg.index~", "omsmsg.new", "./omsmsg.lock"),
    *("spool/omsmsg-0000000001.data", "omsmsg-0000000001.data.new\n", "\0omsmsg-0000000001.data"),
)


@for_each("name", STRANGERS)
def test_a_strangers_name_names_nothing(name: str) -> None:
    assert parse(name) is None


@given(st.text())
def test_whatever_a_file_is_called_it_is_a_name_we_make_or_none(name: str) -> None:
    parsed = parse(name)

    assert parsed is None or str(parsed) == name


@given(SEQUENCES)
def test_a_data_files_name_comes_back(sequence: int) -> None:
    assert parse(str(DataFileName(sequence))) == DataFileName(sequence)


@given(SEQUENCES, st.integers(1, names.VERSION_MAX))
def test_an_archives_name_comes_back(sequence: int, version: int) -> None:
    assert parse(str(ArchiveName(sequence, version))) == ArchiveName(sequence, version)


@given(st.lists(SEQUENCES, unique=True))
def test_sorted_names_are_in_the_order_of_writing(sequences: list[int]) -> None:
    sorted_names = sorted(str(DataFileName(sequence)) for sequence in sequences)

    assert sorted_names == [str(DataFileName(sequence)) for sequence in sorted(sequences)]


SINGLE = [names.LOCK, names.INDEX, names.RESERVE, names.HOLD, names.FOUND, names.HAND, names.BACKUP, names.RESTORE]


@pytest.mark.parametrize("name", SINGLE)
def test_a_single_files_name_comes_back(name: str) -> None:
    assert parse(name) == OwnName(name)
    assert str(OwnName(name)) == name


@pytest.mark.parametrize(
    "name", [str(DataFileName(7)), str(ArchiveName(7, 2)), names.INDEX, names.BACKUP, names.RESTORE]
)
def test_what_is_being_built_is_known_as_unfinished(name: str) -> None:
    assert parse(unfinished(name)) == UnfinishedName(unfinished(name))


@given(SEQUENCES, st.integers(1, 2**64 - 1))
def test_what_is_being_prepared_is_known_as_unfinished_and_is_each_owners_own(sequence: int, owner: int) -> None:
    assert parse(names.prepared(sequence, owner)) == UnfinishedName(names.prepared(sequence, owner))
    assert names.prepared(sequence, owner) != names.prepared(sequence, owner + 1)


def test_the_names_are_those_of_the_seed() -> None:
    assert str(DataFileName(1)) == "omsmsg-0000000001.data"
    assert str(ArchiveName(1, 1)) == "omsmsg-0000000001-v0001.archive"
    assert (names.LOCK, names.INDEX) == ("omsmsg.lock", "omsmsg.index")
