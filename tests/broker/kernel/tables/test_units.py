"""Records that sleep are those that were put to sleep, however many there are and in whatever order they come."""

import random
import tracemalloc

import numpy as np
import pytest

from oms_journal.broker.kernel.tables.dormant_units import NO_TEXTS, Count, DormantUnits, Parties, split
from oms_journal.broker.kernel.tables.packed_rows import BLOCK_ROWS_MAX, LOOSE_ROWS_MAX
from oms_journal.broker.records import UOW, Flag, Status, UowRecord, identifier
from tests.support.sweeps import a_sample


def record(
    number: int, *, status: Status = Status.ACCEPTED, conversation: int | None = None, **fields: object
) -> UowRecord:
    """Return a record of a client, of one service."""
    made = UowRecord(
        uowid=identifier((1 << 60) + number),
        conv_id=identifier((1 << 61) + (number if conversation is None else conversation)),
        status=status,
        flags=Flag.PERSISTENT | Flag.FIRST,
        messages=2,
        size=100,
        created=1_700_000_000_000_000 + 997 * number,
        first=2 * number + 1,
        sender_user="CLIENT",
        sender_token=f"T{number % 3}",
        receiver_class="CLASS",
        receiver_server="SERVER",
        receiver_service="SERVICE",
    )
    return made._replace(**fields)  # type: ignore[arg-type]


def filled(records: list[UowRecord]) -> DormantUnits:
    """Return units that begin with the records."""
    parts = [split(UOW.encode(one)) for one in sorted(records, key=lambda one: one.uowid)]
    interned: dict[bytes, int] = {}
    places = [interned.setdefault(parties, len(interned)) for _, parties, _ in parts]
    units = DormantUnits()
    heads = np.frombuffer(b"".join(head for head, _, _ in parts), UOW.dtype)
    texts = {at: text for at, (_, _, text) in enumerate(parts) if text != NO_TEXTS}
    units.fill(heads, list(interned), np.array(places, np.uint32), texts)
    return units


class Model:
    """The same as plain objects."""

    def __init__(self) -> None:
        self.records: dict[str, UowRecord] = {}

    def check(self, units: DormantUnits, chance: random.Random) -> None:
        records = self.records
        assert len(units) == len(records)
        for uowid in chance.sample(sorted(records), min(len(records), 20)):
            assert units.find(uowid) == records[uowid]
            assert units.at_number(records[uowid].first) == uowid
            same = [one for one in records.values() if one.conv_id == records[uowid].conv_id]
            expected = [one.uowid for one in sorted(same, key=lambda one: (one.first, one.uowid))]
            assert units.of_conversation(records[uowid].conv_id) == expected
        assert units.find(identifier(5)) is None
        assert units.at_number(1 << 50) is units.at_number(0) is None
        for token in ("T0", "T1", "T2", "other"):
            mine = [one.uowid for one in records.values() if one.sender_token == token]
            assert units.last_of("CLIENT", token) == max(mine, default=None)
        counts = [0, 0, 0]
        for one in records.values():
            if one.status in (Status.ACCEPTED, Status.POSTPONED):
                counts = [counts[0] + 1, counts[1] + one.messages, counts[2] + one.size]
        assert dict(units.counts()) == ({("CLASS", "SERVER", "SERVICE"): Count(*counts)} if counts[0] else {})
        clock = chance.randrange(2000)
        due = {one.uowid: at for one in records.values() if 0 < (at := looked_at(one)) <= clock}
        assert sorted(due, key=lambda uowid: (due[uowid], uowid)) == units.overdue(clock, 1 << 40)
        assert units.overdue(clock, 3) == units.overdue(clock, 1 << 40)[:3]


def looked_at(one: UowRecord) -> int:
    """Return when the first of its lifetime and its delay is over; the lifetime of a POSTPONED one waits."""
    if one.status is Status.POSTPONED:
        return one.back
    ends = [one.ends, one.back if one.status is Status.ACCEPTED else 0]
    return min(filter(None, ends), default=0)


def odd(chance: random.Random, number: int) -> UowRecord:
    return record(
        number,
        status=chance.choice((Status.ACCEPTED, Status.ACCEPTED, Status.PROCESSED, Status.POSTPONED)),
        conversation=number // 3 if chance.random() < 0.3 else None,
        ends=chance.choice((0, 0, chance.randrange(1, 2000))),
        back=chance.choice((0, chance.randrange(1, 2000))),
        ustatus=chance.choice(("", "", "nearly done", "x" * 32)),
        producer=chance.choice(("", "order-4711")),
        adcount=chance.choice((0, 0, 1, 70_000)),
    )


@a_sample(1)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [0, 1, 700, 3 * BLOCK_ROWS_MAX])
def test_units_of_work_asleep_are_those_of_a_plain_model(seed: int, count: int) -> None:
    chance = random.Random(seed)
    model = Model()
    numbers = sorted(chance.sample(range(1, 20_000), count))
    model.records = {one.uowid: one for one in (odd(chance, number) for number in numbers)}
    units = filled(list(model.records.values()))
    model.check(units, chance)
    for turn in range(5000 if count == 700 else 1500):
        if chance.random() < 0.5 or not model.records:
            one = odd(chance, chance.choice((chance.randrange(1, 20_000), 20_000 + turn)))
            if one.uowid not in model.records:
                model.records[one.uowid] = one
                units.add(one)
        else:
            uowid = chance.choice(list(model.records)) if turn % 50 == 0 else next(iter(model.records))
            assert units.take(uowid) == model.records.pop(uowid)
            assert units.take(uowid) is None
        if turn % 1000 == 0:
            model.check(units, chance)
    model.check(units, chance)
    for uowid in list(model.records):
        assert units.take(uowid) == model.records.pop(uowid)
    model.check(units, chance)


def test_what_is_taken_may_come_again_with_another_status() -> None:
    units = filled([record(number) for number in range(1, 5000)])
    for number in range(1, 5000):
        taken = units.take(record(number).uowid)
        assert taken is not None
        units.add(taken._replace(status=Status.PROCESSED, changed=5))
    assert len(units) == 4999
    assert units.counts() == {}
    assert units.find(record(77).uowid) == record(77)._replace(status=Status.PROCESSED, changed=5)


@pytest.mark.whole
def test_parties_that_nobody_has_any_more_are_forgotten() -> None:
    units = DormantUnits()
    for turn in range(3):
        for number in range(LOOSE_ROWS_MAX):
            units.add(record(turn * LOOSE_ROWS_MAX + number + 1, sender_user=f"USER{number}"))
        assert len(units._shared.used()) == LOOSE_ROWS_MAX
        for number in range(LOOSE_ROWS_MAX):
            assert units.take(record(turn * LOOSE_ROWS_MAX + number + 1).uowid) is not None
        assert units._shared.used() == []
    assert len(units._shared.texts) == LOOSE_ROWS_MAX


def test_the_service_stands_with_the_one_who_offers_it() -> None:
    reply = record(
        1,
        flags=Flag.PERSISTENT | Flag.FROM_SERVER,
        sender_class="A",
        sender_server="B",
        sender_service="C",
        receiver_class="",
        receiver_server="",
        receiver_service="",
    )
    units = filled([reply])
    assert dict(units.counts()) == {("A", "B", "C"): Count(1, 2, 100)}
    assert Parties.of(reply).service(is_reply=True) == ("A", "B", "C")
    units.take(reply.uowid)
    assert units.counts() == {}


@pytest.mark.whole
@pytest.mark.parametrize("is_filled", [False, True])
def test_a_unit_of_work_asleep_takes_less_than_ninety_bytes(is_filled: bool) -> None:
    count = 16_000
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    if is_filled:
        units = filled([record(2 * number, conversation=2 * number - 1) for number in range(1, count)])
    else:
        units = DormantUnits()
        for number in range(1, count):
            units.add(record(2 * number, conversation=2 * number - 1))
        units._rows._pack()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(units) == count - 1
    assert taken / count < 90, taken / count
