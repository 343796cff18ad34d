"""Values of the broker's records taken apart in bulk, beside the same one at a time. No Spark here."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

from oms_journal.analysis.broker.columns import (  # noqa: E402
    NEWER,
    NUMBERS,
    READABLE,
    SERVICE,
    VALUE,
    Values,
    batches,
    kinds,
    spark_type,
)
from oms_journal.analysis.broker.records import FIELDS, STARTS  # noqa: E402
from oms_journal.analysis.reading.columns import clamped  # noqa: E402
from oms_journal.broker.kernel.state.unit_records import service_of_record  # noqa: E402
from oms_journal.broker.queues import ServiceQueue  # noqa: E402
from oms_journal.broker.records import (  # noqa: E402
    LAYOUTS,
    PREFIX_FIELDS,
    UOW,
    VERSION,
    Layout,
    RecordError,
    RecordKind,
    identifier,
    kind_of,
)

TEXTS = ("", "a", "WHITE", "Grüße", "x" * 255, "ü" * 127, "a/b~c")
IDENTIFIERS = ("uowid", "conv_id", "publication_id", "subscription_id", "last_committed")
COUNT = 300
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _fields(layout: Layout[Any]) -> list[str]:
    """Return the names of the head's own fields."""
    return list(layout.dtype.names or ())[len(PREFIX_FIELDS) :]


def _record(rng: random.Random, layout: Layout[Any]) -> bytes:
    """Return the value of a record with anything in its fields."""
    fields: list[Any] = []
    for name in _fields(layout):
        if name in layout.known:
            fields.append(rng.choice(layout.known[name]))
        elif name in IDENTIFIERS:
            fields.append(identifier(rng.choice((0, 1, rng.getrandbits(64)))))
        else:
            bits = 8 * layout.widths[name] - 1
            fields.append(rng.choice((0, 1, rng.getrandbits(bits))))
    fields += [rng.choice(TEXTS) for _ in layout.texts]
    if layout.has_numbers:
        fields.append(tuple(rng.getrandbits(63) for _ in range(rng.randrange(4))))
    return layout.encode(layout._make(*fields))


def _spoilt(rng: random.Random, value: bytes) -> bytes | None:
    """Return the value as it is, changed, cut, longer, or not there at all."""
    match rng.randrange(6):
        case 0:
            changed = bytearray(value)
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
            return bytes(changed)
        case 1:
            return value[: rng.randrange(len(value))]
        case 2:
            return value + bytes(rng.randrange(1, 10))
        case 3:
            return None
        case _:
            return value


def _decoded(layout: Layout[Any], value: bytes | None) -> Any:
    try:
        return None if value is None else layout.decode(value)
    except RecordError:
        return None


@pytest.mark.parametrize("arrow_type", [pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.kind.name)
def test_columns_say_what_decoding_one_value_after_the_other_says(layout: Layout[Any], arrow_type: Any) -> None:
    rng = random.Random(layout.kind)
    values = [_spoilt(rng, _record(rng, layout)) for _ in range(COUNT)]
    records = [_decoded(layout, value) for value in values]
    names = [*_fields(layout), *layout.texts]
    names += [name for name in layout._make._fields if name in NUMBERS]  # type: ignore[attr-defined]
    assert 0 < sum(record is None for record in records) < COUNT

    found = Values(layout.kind, pa.array([b"before", *values], arrow_type).slice(1))

    assert found.is_readable.tolist() == [record is not None for record in records]
    for place, name in enumerate(names):
        column = found.column(name)
        column.validate(full=True)
        expected = [None if record is None else record[place] for record in records]
        assert [_plain(value) for value in column.to_pylist()] == [_told(value, column) for value in expected]


def _plain(value: Any) -> Any:
    """Return what a column has; a number is the signed one with the same 64 bits."""
    match value:
        case bool() | str() | None | datetime():
            return value
        case list():
            return tuple(map(_plain, value))
        case _:
            return value % (1 << 64)


def _told(value: Any, column: Any) -> Any:
    """Return a field of a record as its column has it."""
    if value is None:
        return None
    if column.type == pa.string():
        return value.name if hasattr(value, "name") else value
    if pa.types.is_timestamp(column.type):
        shown = clamped(np.array([value], np.int64)).tolist()[0]
        return EPOCH + timedelta(microseconds=shown) if value else None
    if isinstance(value, str):
        return int(value or "0", 16)
    return value


def test_the_service_is_that_of_the_queue() -> None:
    rng = random.Random(3)
    values = [_spoilt(rng, _record(rng, UOW)) for _ in range(COUNT)]
    records = [_decoded(UOW, value) for value in values]

    found = Values(RecordKind.UOW, pa.array(values, pa.binary())).column(SERVICE).to_pylist()

    assert found == [None if record is None else str(ServiceQueue(*service_of_record(record))) for record in records]
    assert any("~1" in name and "~0" in name for name in found if name)


def test_a_record_of_a_newer_version_is_told_from_what_is_none() -> None:
    rng = random.Random(1)
    value = bytearray(_record(rng, LAYOUTS[0]))
    value[0] = VERSION + 1

    found = Values(LAYOUTS[0].kind, pa.array([bytes(value), b"no record", b"", None, _record(rng, LAYOUTS[0])]))

    assert found.column(NEWER).to_pylist() == [True, False, False, False, False]
    assert found.column(READABLE).to_pylist() == [False, False, False, False, True]


def test_there_may_be_no_values_at_all() -> None:
    for layout in LAYOUTS:
        found = Values(layout.kind, pa.array([], pa.binary()))

        for name in (READABLE, NEWER, *FIELDS[layout.kind]):
            assert found.column(name).to_pylist() == []


def test_batches_keep_their_columns_and_have_the_wanted_ones() -> None:
    rng = random.Random(2)
    layout = LAYOUTS[0]
    value = _record(rng, layout)
    batch = pa.RecordBatch.from_pydict({"key": ["a", "b", "c"], "length": [1, 2, 3], VALUE: [value, b"other", None]})

    [found] = batches([batch], kind=layout.kind, kept=("length", "key"), wanted=(READABLE, "status", "sender_user"))

    record = layout.decode(value)
    assert found.schema.names == ["length", "key", READABLE, "status", "sender_user"]
    assert found.to_pylist() == [
        {"length": 1, "key": "a", READABLE: True, "status": record.status.name, "sender_user": record.sender_user},
        {"length": 2, "key": "b", READABLE: False, "status": None, "sender_user": None},
        {"length": 3, "key": "c", READABLE: False, "status": None, "sender_user": None},
    ]


def test_every_key_is_of_the_kind_that_the_broker_says() -> None:
    keys = [f"{start}{end}" for start in STARTS.values() for end in ("", "1", "/x")]
    keys += ["broker/", "broker/other/1", "brokers", "\0broker/uow/1", "Broker/uow/1"]
    batch = pa.RecordBatch.from_pydict({"key": keys, VALUE: pa.nulls(len(keys), pa.binary())})

    rows = [row for each in kinds([batch], starts=STARTS, kept=("key",)) for row in each.to_pylist()]

    assert {row["key"]: row["kind"] for row in rows} == {
        key: kind.name for key in keys if (kind := kind_of(key)) is not None
    }


def test_every_field_that_is_asked_for_is_one_of_its_record() -> None:
    for layout in LAYOUTS:
        known = {*_fields(layout), *layout.texts, *NUMBERS, SERVICE}

        assert set(FIELDS[layout.kind]) <= known
        assert {spark_type(layout.kind, name) for name in FIELDS[layout.kind]} <= {
            *("string", "bigint", "timestamp", "array<bigint>"),
        }
