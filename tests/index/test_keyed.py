"""The latest version of each key, against a plain dict."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oms_journal.index.keyed import Keyed, Version
from oms_journal.journal.names import SEQUENCE_MAX
from oms_journal.journal.operations import ENGINE_PREFIX

KEYS = [b"a", b"a/1", b"a/2", b"a0", b"b", "ä".encode(), b"\xff", b"k" * 255, b"\x01", b"\0engine", b"\0low-water"]
OFFSET_MAX = (16 << 30) - 8

keys = st.sampled_from(KEYS)
sequences = st.sampled_from([1, 2, 3, 9_999_999])
offsets = st.one_of(st.sampled_from([0, 8, OFFSET_MAX]), st.integers(0, OFFSET_MAX // 8).map(lambda eighth: eighth * 8))
steps = st.one_of(
    st.tuples(st.just("put"), keys, sequences, offsets),
    st.tuples(st.just("drop"), keys),
    st.tuples(st.just("put_many"), st.dictionaries(keys, st.none() | offsets, min_size=1), sequences),
)


def _is_own(key: bytes) -> bool:
    return not key.startswith(ENGINE_PREFIX.encode())


def _check(keyed: Keyed, model: dict[bytes, Version]) -> None:
    for key in KEYS:
        assert keyed.find(key) == model.get(key)
    for prefix in (b"", b"a", b"a/", b"b", b"\0", b"k", b"zz", "ä".encode()):
        assert list(keyed.keys(prefix)) == sorted(key for key in model if key.startswith(prefix))
    assert len(keyed) == sum(map(_is_own, model))
    for sequence in (1, 2, 3, 9_999_999):
        inside = [key for key, version in sorted(model.items()) if version.sequence == sequence and _is_own(key)]
        assert keyed.in_files([sequence]) == {sequence: inside}
        assert keyed.files.get(sequence, 0) == len(inside), "the engine's own keys keep no file"
    two = {sequence: keyed.in_files([sequence])[sequence] for sequence in (1, 3)}
    assert keyed.in_files({3, 1}) == two


@pytest.mark.whole
@given(st.lists(steps, max_size=30))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_whatever_is_put_and_dropped_the_latest_version_is_found(commits: list[tuple[object, ...]]) -> None:
    keyed, model = Keyed(), dict[bytes, Version]()
    for step in commits:
        match step:
            case ("put", bytes() as key, int() as sequence, int() as offset):
                keyed.put(key, sequence, offset)
                model[key] = Version(sequence, offset)
            case ("drop", bytes() as key):
                assert keyed.drop(key) is (model.pop(key, None) is not None)
            case ("put_many", dict() as latest, int() as sequence):
                keyed.put_many(latest, sequence)
                for key, offset in latest.items():
                    if offset is None:
                        model.pop(key, None)
                    else:
                        model[key] = Version(sequence, offset)
            case _:
                raise AssertionError(step)
        _check(keyed, model)


def test_a_file_is_forgotten_only_when_no_live_key_is_in_it() -> None:
    keyed = Keyed()
    keyed.put(b"moved", 1, 8)
    keyed.put(b"\0engine", 1, 16)
    with pytest.raises(AssertionError, match="without live keys"):
        keyed.forget_file(1)

    keyed = Keyed()
    keyed.put(b"moved", 1, 8)
    keyed.put(b"moved", 2, 8)
    keyed.forget_file(1)
    keyed.forget_file(7)

    assert keyed.files == {2: 1}


def test_keys_are_located_in_files_of_any_sequence() -> None:
    """Who restores a database leaves out millions of sequences."""
    keyed = Keyed()
    keyed.put(b"newest", SEQUENCE_MAX, 1 << 40)
    keyed.put(b"behind", 1 << 24, 16)
    keyed.put(b"before", 1 << 24, 8)
    keys, sequences, offsets = keyed.located(b"")
    assert keys == [b"before", b"behind", b"newest"]
    assert sequences.tolist() == [1 << 24, 1 << 24, SEQUENCE_MAX]
    assert offsets.tolist() == [8, 16, 1 << 40]
