"""Heads that are kept in little memory are those that were given, and in their order."""

import gc
import random
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oms_journal.broker.records import UOW, UOWS, Flag, Status, UowRecord
from oms_journal.journal.format import contents, heads
from oms_journal.journal.format.contents import ContentsBuilder
from oms_journal.journal.format.footer import encode_footer
from oms_journal.journal.format.headers import FileHeader, xxh3
from oms_journal.journal.format.heads import ALIKE_BYTES_MAX, ALIKE_MIN, PACK_COUNT, Heads
from oms_journal.journal.format.records import VALUE_HEAD_BYTES, Added
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import CommitBuilder, Draft, QueueTemplate
from oms_journal.journal.writing.groups import form
from oms_journal.journal.writing.single import WritePosition
from tests.journal.format.test_rows import heads_of, records

HEADER = FileHeader(
    database=bytes(16), identity=5, sequence=1, owner=3, next_message=10, next_commit=20, low_water=1, created=1
)
QUEUE = QueueTemplate(b"CLASS/SERVER/SERVICE", 0)
SIZES = st.sampled_from([0, 1, 7, 56, 104, ALIKE_BYTES_MAX, ALIKE_BYTES_MAX + 1])


def like(size: int, differing: int, chance: random.Random) -> bytes:
    """Return one of the heads of this size, which differ in so many places at most."""
    head = bytearray(b"h" * size)
    for place in range(0, size, max(1, size // max(1, differing))):
        head[place] = chance.randrange(256)
    return bytes(head)


@given(
    kinds=st.lists(st.tuples(SIZES, st.integers(0, 600)), min_size=1, max_size=4),
    count=st.integers(0, 70),
    at_once=st.integers(1, 40),
    seed=st.integers(0, 1 << 32),
)
def test_what_was_kept_comes_back(kinds: list[tuple[int, int]], count: int, at_once: int, seed: int) -> None:
    chance = random.Random(seed)
    expected = [like(*chance.choice(kinds), chance) for _ in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "ALIKE_MIN", 3)
        kept = Heads()
        for start in range(0, count, at_once):
            kept.loose += expected[start : start + at_once]
            if len(kept.loose) >= 16:
                kept.pack(chance.choice((16, len(kept.loose))))

        assert kept.all() == expected
        assert kept.all() == expected, "and stays"


def test_a_part_of_those_that_differ_in_nothing_comes_back_too() -> None:
    kept = Heads()
    kept.loose += [b"the same"] * (PACK_COUNT + 1)
    kept.pack(PACK_COUNT)

    assert kept.all() == [b"the same"] * (PACK_COUNT + 1)


def test_long_ones_and_those_of_rare_lengths_are_left_as_they_are() -> None:
    chance = random.Random(1)
    long = [chance.randbytes(ALIKE_BYTES_MAX + 8) for _ in range(PACK_COUNT // 2)]
    rare = [chance.randbytes(8 * size) for size in range(1, 9) for _ in range(ALIKE_MIN - 1)]
    kept = Heads()
    kept.loose += [*long, *rare, *[b""] * PACK_COUNT]
    kept.pack(len(kept.loose))

    assert all(one is other for one, other in zip(kept.all(), long + rare, strict=False))


@pytest.mark.whole
@given(st.lists(st.lists(records(), min_size=1, max_size=3), max_size=12), st.integers(1, 4), st.integers(1, 8))
@settings(deadline=None)
def test_a_footer_is_the_same_however_many_heads_were_packed_together(
    commits: list[list[tuple[Any, ...]]], repeats: int, packed_count: int
) -> None:
    given, offsets = heads_of(commits * repeats)
    values = [
        [rest[0][:VALUE_HEAD_BYTES] for kind, _, *rest in commit if kind == Operation.PUT]
        for commit in commits * repeats
    ]
    hashes = [
        [xxh3(payload) for kind, _, *rest in commit if kind == Operation.ADD and rest[2] for payload in rest[0]]
        for commit in commits * repeats
    ]

    def footer(pack_count: int) -> bytes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(contents, "PACK_COUNT", pack_count)
            patch.setattr(heads, "ALIKE_MIN", 2)
            builder = ContentsBuilder()
            for offset, head, *mine in zip(offsets, given, values, hashes, strict=True):
                builder.add(offset, head, *mine)
            assert len(builder) == len(given)
            return encode_footer(builder.build_checked(1 << 20, HEADER), HEADER, 0, (0, 0))

    assert footer(packed_count) == footer(1 << 20)


def _units(first: int, count: int) -> list[Draft]:
    """Return the drafts of units of work as a broker sends them, each of one message."""
    found = []
    for number in range(first, first + count):
        at = 1_700_000_000_000_000 + 7_919 * number
        record = UowRecord(
            conv_id=f"{2 * number:016X}",
            uowid=f"{2 * number + 1:016X}",
            status=Status.ACCEPTED,
            flags=Flag.PERSISTENT | Flag.FIRST,
            messages=1,
            lifetime=86_400,
            size=100,
            created=at,
            committed=at + 50,
            begun=at + 50,
            changed=at + 50,
            ends=86_400_000_000 + 7_919 * number,
            sender_user="SOMEBODY",
            sender_token=f"TOKEN{number % 16:03}",
            receiver_class="CLASS",
            receiver_server="SERVER",
            receiver_service="SERVICE",
        )
        key, at_numbers = f"{UOWS}{record.uowid}".encode(), ((UOW.offset("first"), 0),)
        builder = CommitBuilder()
        builder.add(Added(QUEUE.name, [b"%d" % number]))
        builder.put(key, UOW.encode(record), numbers_at=at_numbers)
        found.append(builder.draft())
    return found


@pytest.mark.whole
def test_what_a_footer_wants_of_a_unit_of_work_takes_few_bytes_until_it_is_made() -> None:
    """A unit of work that waits may take 300 bytes in all, wherever it lies."""
    place = WritePosition(identity=5, sequence=1, alignment=8, offset=4352, synced=0, next_message=10, next_commit=20)
    builder = ContentsBuilder()

    def send(numbers: Sequence[int]) -> int:
        for first in numbers:
            drafts = _units(first, 16)
            group = form(place, drafts, time=1_700_000_000_000_000 + 1_000 * first)
            builder.add_many(group.offsets, group.heads)
            for draft in drafts:
                builder.add_value_heads(draft.shape.value_heads)
            place.offset = place.synced = group.end
            place.next_message, place.next_commit = group.next_message, group.next_commit
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = send(range(0, PACK_COUNT, 16))
        taken = (send(range(PACK_COUNT, 9 * PACK_COUNT, 16)) - before) / (8 * PACK_COUNT)
    finally:
        tracemalloc.stop()
    assert taken < 100, taken
