"""Values of the broker's records taken apart in bulk, beside the same one at a time. No Spark here."""

import random
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

from oms_journal.analysis.broker.columns import NUMBERS, SERVICE, VALUE, Values  # noqa: E402
from oms_journal.analysis.broker.records import FIELDS, KEPT, STARTS, Records  # noqa: E402
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
        expected = [None if record is None else record[place] for record in records]
        if name in _fields(layout):
            heads = found.heads[name][found.is_readable].tolist()
            assert heads == [_number(value) for value in expected if value is not None]
        else:
            column = found.column(name)
            column.validate(full=True)
            assert [_plain(value) for value in column.to_pylist()] == expected


def _number(value: Any) -> int:
    """Return what stands in a head for a field of a record."""
    return int(value or "0", 16) if isinstance(value, str) else int(value)


def _plain(value: Any) -> Any:
    """Return what a column has; numbers as they stand there, which have no sign."""
    return tuple(number % (1 << 64) for number in value) if isinstance(value, list) else value


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

    assert found.is_newer.tolist() == [True, False, False, False, False]
    assert found.is_readable.tolist() == [False, False, False, False, True]


def test_there_may_be_no_values_at_all() -> None:
    for layout in LAYOUTS:
        found = Values(layout.kind, pa.array([], pa.binary()))

        assert (found.is_readable.tolist(), found.is_newer.tolist(), found.heads.tolist()) == ([], [], [])
        for name in layout.texts:
            assert found.column(name).to_pylist() == []


def test_every_key_is_of_the_kind_that_the_broker_says() -> None:
    keys = [f"{start}{end}" for start in STARTS.values() for end in ("", "1", "/x")]
    keys += ["broker/", "broker/other/1", "brokers", "\0broker/uow/1", "Broker/uow/1"]
    count = len(keys)
    columns: dict[str, Any] = {name: ["PUT"] * count if name == "operation" else [0] * count for name in KEPT}
    columns |= {"key": keys, "database": ["d"] * count, "moved": [False] * count}
    found = Records()

    found.take(pa.RecordBatch.from_pydict(columns | {VALUE: pa.nulls(count, pa.binary())}))

    [trail] = found.trails.values()
    told = {f"{STARTS[kind]}{end}": kind for kind, records in trail.kinds.items() for end in records.keys.texts}
    assert told == {key: kind for key in keys if (kind := kind_of(key)) is not None}


def test_every_field_that_is_asked_for_is_one_of_its_record() -> None:
    for layout in LAYOUTS:
        known = {*_fields(layout), *layout.texts, *NUMBERS, SERVICE}

        assert set(FIELDS.get(layout.kind, ())) <= known
