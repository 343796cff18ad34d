"""Which files may go: the pure decision, swept over every small directory."""

from collections.abc import Sequence
from itertools import product

import pytest

from oms_journal.database.compaction import (
    KEY_BYTES,
    MESSAGE_OVERHEAD_BYTES,
    PINS_BYTES_MAX,
    SMALL_FILES_MIN,
    FileFacts,
    leading_dead,
    plan_compaction,
    plan_unpinning,
)
from oms_journal.journal.format.headers import FRAMES_AT

FILE_BYTES = FRAMES_AT + 10_000


def _fact(sequence: int, kind: str) -> FileFacts:
    """Return a file that holds: nothing needed, a message, a key, much, or everything."""
    live = {"dead": (0, 0, 0), "message": (1, 100, 0), "key": (0, 0, 1), "half": (20, 2600, 0), "full": (50, 9000, 9)}
    messages, size, keys = live[kind.removesuffix("*")]
    return FileFacts(
        sequence=sequence,
        bytes=FILE_BYTES,
        live_messages=messages,
        live_bytes=size,
        live_keys=keys,
        is_active=kind.endswith("*"),
    )


def _facts(kinds: Sequence[str]) -> list[FileFacts]:
    return [_fact(sequence, kind) for sequence, kind in enumerate(kinds, start=1)]


KINDS = ["dead", "message", "key", "half", "full"]
DIRECTORIES = [
    [*kinds, *active]
    for length in range(5)
    for kinds in product(KINDS, repeat=length)
    for active in ([], ["dead*"], ["full*"])
]


def test_the_leading_run_of_files_that_hold_nothing_needed_may_go() -> None:
    for kinds in DIRECTORIES:
        facts = _facts(kinds)
        count = leading_dead(facts)
        assert all(kind == "dead" for kind in kinds[:count])
        assert count == len(kinds) or kinds[count] != "dead", kinds


@pytest.mark.parametrize("share", [0.0, 0.05, 0.25, 0.5, 1.0])
def test_compaction_takes_the_longest_run_in_which_little_is_needed(share: float) -> None:
    for kinds in DIRECTORIES:
        facts = _facts(kinds)
        sealed = [fact for fact in facts if not fact.is_active]
        possible = [
            count
            for count in range(1, len(sealed) + 1)
            if sum(fact.kept_bytes for fact in sealed[:count]) <= share * 10_000 * count
        ]
        expected = max([leading_dead(facts), *possible])
        assert plan_compaction(facts, share=share, data_file_bytes=FILE_BYTES) == expected, kinds
        assert expected <= len(sealed), "the active file never goes"


def test_a_higher_share_never_lets_fewer_files_go() -> None:
    for kinds in DIRECTORIES:
        counts = [plan_compaction(_facts(kinds), share=share / 10, data_file_bytes=FILE_BYTES) for share in range(11)]
        assert counts == sorted(counts), kinds


@pytest.mark.parametrize("count", range(1, 2 * SMALL_FILES_MIN))
def test_many_small_files_that_fit_into_one_go_together(count: int) -> None:
    small = [
        FileFacts(sequence=at, bytes=1000, live_messages=1, live_bytes=500, live_keys=0, is_active=False)
        for at in range(count)
    ]
    goes = plan_compaction(small, share=0.1, data_file_bytes=25_000)

    assert goes == (count if count >= SMALL_FILES_MIN else 0)


def test_what_is_written_again_counts_with_what_surrounds_it() -> None:
    fact = _fact(1, "full")

    assert fact.is_needed
    assert fact.kept_bytes == 9000 + 50 * MESSAGE_OVERHEAD_BYTES + 9 * KEY_BYTES
    assert not _fact(1, "dead").is_needed
    assert _fact(1, "dead").kept_bytes == 0


def test_an_empty_directory_lets_nothing_go() -> None:
    assert leading_dead([]) == plan_compaction([], share=1, data_file_bytes=1) == 0


@pytest.mark.parametrize("share", [0.0, 0.05, 0.25, 1.0])
def test_unpinning_takes_the_run_that_frees_most_for_what_it_moves(share: float) -> None:
    for kinds in DIRECTORIES:
        facts = _facts(kinds)
        count = plan_unpinning(facts, share=share)
        sealed = [fact for fact in facts if not fact.is_active]
        dead = leading_dead(facts)

        def gain(of: int, facts: Sequence[FileFacts] = facts, share: float = share) -> float:
            return sum(fact.frame_bytes - fact.kept_bytes / share for fact in facts[:of])

        assert dead <= count <= len(sealed), kinds
        if share:
            assert gain(count) == max(map(gain, range(len(sealed) + 1))), kinds
        else:
            assert count == dead


def test_unpinning_never_takes_more_files_than_compaction_with_the_same_share() -> None:
    for kinds in DIRECTORIES:
        facts = _facts(kinds)
        for share in (0.05, 0.25, 0.5):
            for data_file_bytes in (0, FILE_BYTES, 20 * FILE_BYTES):
                assert plan_unpinning(facts, share=share, data_file_bytes=data_file_bytes) <= plan_compaction(
                    facts, share=share, data_file_bytes=data_file_bytes
                ), kinds


def _waiting(count: int, payload: int = 300) -> list[FileFacts]:
    """Return the files of starts that each left a message waiting."""
    small = [
        FileFacts(sequence=one, bytes=3000, live_messages=1, live_bytes=payload, live_keys=1, is_active=False)
        for one in range(1, count + 1)
    ]
    return [*small, FileFacts(sequence=99, bytes=1, live_messages=0, live_bytes=0, live_keys=0, is_active=True)]


@pytest.mark.parametrize("count", [1, SMALL_FILES_MIN - 1, SMALL_FILES_MIN, 40])
def test_small_files_go_in_passing_once_they_are_many_and_fit_into_one(count: int) -> None:
    found = plan_unpinning(_waiting(count), data_file_bytes=1 << 20)

    assert found == (count if count >= SMALL_FILES_MIN else 0)
    assert plan_unpinning(_waiting(count), share=0.0, data_file_bytes=1 << 20) == 0
    assert plan_unpinning(_waiting(count), data_file_bytes=3000 * SMALL_FILES_MIN - 1) == 0
    assert plan_unpinning(_waiting(count, payload=PINS_BYTES_MAX // SMALL_FILES_MIN), data_file_bytes=1 << 20) == 0


def test_what_is_moved_in_passing_has_a_bound() -> None:
    large = FileFacts(
        sequence=1, bytes=1 << 30, live_messages=1, live_bytes=PINS_BYTES_MAX, live_keys=0, is_active=False
    )
    dead = FileFacts(sequence=2, bytes=1 << 30, live_messages=0, live_bytes=0, live_keys=0, is_active=False)

    assert plan_unpinning([large, dead]) == 0
    assert plan_unpinning([dead, large, dead]) == 1
