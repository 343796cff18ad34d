"""The broker's records: bytes that stay as they are, read one by one and in bulk, and as broker-records.md says."""

import ast
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oms_journal.broker import records
from oms_journal.broker.queues import ServiceQueue, TopicQueue, parse_queue
from oms_journal.broker.records import (
    CHECKPOINT,
    CLOCK,
    HELD,
    HOLD,
    LAYOUTS,
    MASTER,
    PUBLICATION,
    SUBSCRIPTION,
    UOW,
    CheckpointName,
    CheckpointRecord,
    ClockRecord,
    ConversationState,
    Flag,
    HeldRecord,
    HoldRecord,
    Layout,
    MasterRecord,
    NewerRecord,
    PublicationRecord,
    RecordError,
    RecordKind,
    Status,
    SubscriptionRecord,
    UowRecord,
)
from oms_journal.journal.format.records import VALUE_HEAD_BYTES
from oms_journal.journal.operations import NAME_BYTES_MAX, VALUE_BYTES_MAX
from tests.support.journals.format_tables import Rows, markdown_tables
from tests.support.journals.golden_files import broker_records
from tests.support.project import REPOSITORY
from tests.support.sweeps import for_each

DOCUMENT = (REPOSITORY / "docs" / "reference" / "broker-records.md").read_text(encoding="utf-8")
EXAMPLES: dict[Layout[Any], Any] = {
    UOW: UowRecord(
        uowid="1000000200000003",
        conv_id="1000000200000001",
        status=Status.ACCEPTED,
        flags=Flag.PERSISTENT | Flag.STATUS_PERSISTENT | Flag.BOUND,
        state=ConversationState.EOC,
        uwstatp=4,
        eoc_reason=5,
        adcount=2,
        postpones=1,
        messages=3,
        lifetime=300,
        status_lifetime=60,
        size=59,
        created=1_700_000_000_000_000,
        committed=1_700_000_000_500_000,
        begun=1_699_999_999_000_000,
        changed=1_700_000_001_000_000,
        first=70,
        conversation=41,
        ends=310_000_000,
        back=20_000_000,
        sender_user="WHITE",
        sender_token="T1",
        receiver_user="BLACK",
        receiver_token="T2",
        receiver_class="GAMES",
        receiver_server="CHESS",
        receiver_service="BY-MAIL",
        ustatus="50 %",
        producer="move-7",
    ),
    PUBLICATION: PublicationRecord(
        publication_id="1000000200000004",
        status=Status.ACCEPTED,
        flags=Flag.PERSISTENT,
        messages=2,
        size=10,
        lifetime=86400,
        created=1_700_000_000_000_000,
        committed=1_700_000_000_500_000,
        first=73,
        ends=86_400_000_000,
        user="EXCHANGE",
        token="T3",
        topic="NYSE",
        ustatus="late",
        producer="p1",
    ),
    SUBSCRIPTION: SubscriptionRecord(
        subscription_id="1000000200000005",
        subscribed=1_700_000_000_000_000,
        active=1_700_000_002_000_000,
        position=73,
        last_committed="1000000200000004",
        ends=900_000_000,
        expiration=900,
        user="TRADER",
        token="T4",
        topic="NYSE",
        acknowledged=(75, 80),
    ),
    MASTER: MasterRecord(
        starts=2,
        created=1_600_000_000_000_000,
        started=1_700_000_000_000_000,
        broker_id="ETB001",
        platform="linux",
        version="0.1.0",
    ),
    CHECKPOINT: CheckpointRecord(
        name=CheckpointName.ETBH, starts=2, time=1_700_000_000_000_000, broker_id="ETB001", job="host 4711"
    ),
    CLOCK: ClockRecord(clock=123_456_789, written=1_700_000_000_000_000),
    HOLD: HoldRecord(last=1_048_700, clock=123_456_789, since=1_700_000_000_000_000, source="/backup/orders"),
    HELD: HeldRecord(subscription_id="1000000200000005", low=70, last=1_048_700, released=71, done=1, numbers=(73, 75)),
}
LAYOUT_IDS = [layout.kind.name for layout in LAYOUTS]

u32, u64 = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)
times = st.integers(-(1 << 63), (1 << 63) - 1)
identifiers = u64.map(records.identifier)
texts = st.text(max_size=60)
RANDOM: dict[Layout[Any], st.SearchStrategy[Any]] = {
    UOW: st.builds(
        UowRecord,
        uowid=identifiers,
        conv_id=identifiers,
        flags=st.integers(0, sum(Flag)).map(Flag),
        uwstatp=st.integers(0, 255),
        **dict.fromkeys(("eoc_reason", "adcount", "postpones", "messages", "lifetime", "status_lifetime", "size"), u32),
        **dict.fromkeys(("created", "committed", "begun", "changed"), times),
        **dict.fromkeys(("first", "conversation", "ends", "back"), u64),
        **dict.fromkeys(UOW.texts, texts),
    ),
    PUBLICATION: st.builds(
        PublicationRecord,
        publication_id=identifiers,
        flags=st.integers(0, sum(Flag)).map(Flag),
        **dict.fromkeys(("messages", "size", "lifetime"), u32),
        **dict.fromkeys(("created", "committed"), times),
        **dict.fromkeys(("first", "ends"), u64),
        **dict.fromkeys(PUBLICATION.texts, texts),
    ),
    SUBSCRIPTION: st.builds(
        SubscriptionRecord,
        **dict.fromkeys(("subscription_id", "last_committed"), identifiers),
        **dict.fromkeys(("subscribed", "active"), times),
        **dict.fromkeys(("position", "ends", "expiration"), u64),
        **dict.fromkeys(SUBSCRIPTION.texts, texts),
        acknowledged=st.lists(u64, max_size=5).map(tuple),
    ),
    MASTER: st.builds(MasterRecord, u64, times, times, texts, texts, texts),
    CHECKPOINT: st.builds(CheckpointRecord, starts=u32, time=times, broker_id=texts, job=texts),
    CLOCK: st.builds(ClockRecord, u64, times),
    HOLD: st.builds(HoldRecord, u64, u64, times, texts),
    HELD: st.builds(HeldRecord, identifiers, u64, u64, u64, u64, st.lists(u64, max_size=5).map(tuple)),
}
any_record = st.sampled_from(LAYOUTS).flatmap(lambda layout: st.tuples(st.just(layout), RANDOM[layout]))


@given(any_record)
def test_what_is_read_is_what_was_written(pair: tuple[Layout[Any], Any]) -> None:
    layout, record = pair

    assert layout.decode(layout.encode(record)) == record


@given(any_record)
def test_the_head_in_bulk_says_the_same_as_the_record(pair: tuple[Layout[Any], Any]) -> None:
    layout, record = pair
    value = layout.encode(record)
    (head,) = layout.heads([value])

    for name, said in record._asdict().items():
        if name in list(layout.widths)[len(records.PREFIX_FIELDS) :]:
            found = head[name].item()
            assert (records.identifier(found) if isinstance(said, str) else found) == said
    assert (head["version"], head["kind"], head["reserved"]) == (records.VERSION, layout.kind, 0)


@given(any_record, st.binary(max_size=300))
def test_bytes_that_are_no_record_are_refused_and_never_crash(pair: tuple[Layout[Any], Any], junk: bytes) -> None:
    layout, record = pair
    value = layout.encode(record)
    for odd in (junk, value[:-1], value[: layout.size - 1], value + b"\1", junk + value):
        try:
            assert layout.encode(layout.decode(odd)) == odd
        except RecordError:
            continue


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_a_record_cut_anywhere_is_refused(layout: Layout[Any]) -> None:
    value = layout.encode(EXAMPLES[layout])
    for size in range(len(value)):
        if layout in (SUBSCRIPTION, HELD) and size in (len(value) - 8, len(value) - 16):
            continue  # as if fewer publications had been acknowledged out of turn, or released
        with pytest.raises(RecordError):
            layout.decode(value[:size])


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_a_record_of_a_newer_version_is_refused_by_name(layout: Layout[Any]) -> None:
    value = bytes([records.VERSION + 1]) + layout.encode(EXAMPLES[layout])[1:]
    with pytest.raises(NewerRecord, match=rf"a {layout.kind.name} record of version 2"):
        layout.decode(value)
    with pytest.raises(NewerRecord):
        layout.heads([layout.encode(EXAMPLES[layout]), value])


@for_each("layout", LAYOUTS)
@for_each(("at", "value"), [(0, 0), (1, 9), (4, 1), (7, 1)])
def test_a_prefix_that_says_something_else_is_refused(layout: Layout[Any], at: int, value: int) -> None:
    odd = bytearray(layout.encode(EXAMPLES[layout]))
    odd[at] = value
    with pytest.raises(RecordError):
        layout.decode(bytes(odd))
    with pytest.raises(RecordError):
        layout.heads([bytes(odd)])


@pytest.mark.parametrize(
    ("layout", "field"),
    [
        *((UOW, field) for field in ("status", "flags", "state")),
        *((PUBLICATION, field) for field in ("status", "flags")),
        (CHECKPOINT, "name"),
    ],
)
@pytest.mark.parametrize("number", [9, 64, 255])
def test_an_unknown_status_or_flag_is_refused(layout: Layout[Any], field: str, number: int) -> None:
    if field == "flags" and number == 9:
        number = 64
    odd = bytearray(layout.encode(EXAMPLES[layout]))
    odd[layout.offset(field)] = number
    with pytest.raises(RecordError):
        layout.decode(bytes(odd))
    with pytest.raises(RecordError):
        layout.heads([bytes(odd)])


def test_a_value_of_another_kind_is_refused() -> None:
    with pytest.raises(RecordError, match="kind 2"):
        SUBSCRIPTION.decode(PUBLICATION.encode(EXAMPLES[PUBLICATION]) + bytes(100))


def test_many_heads_are_columns_also_when_the_values_are_cut_as_in_a_footer() -> None:
    made = [EXAMPLES[UOW]._replace(first=number, uowid=records.identifier(number + 1)) for number in range(1000)]
    values = [UOW.encode(record)[:VALUE_HEAD_BYTES] for record in made]

    heads = UOW.heads(values)

    assert heads["first"].tolist() == list(range(1000))
    assert np.flatnonzero(heads["status"] == Status.ACCEPTED).size == 1000
    assert UOW.heads([]).size == 0


def test_every_head_lies_in_what_a_footer_keeps_of_a_value_and_no_record_is_too_long() -> None:
    longest = EXAMPLES[UOW]._replace(**dict.fromkeys(UOW.texts, "x" * 255))

    assert max(layout.size for layout in LAYOUTS) <= VALUE_HEAD_BYTES
    assert len(UOW.encode(longest)) < VALUE_BYTES_MAX // 10


def test_a_commit_can_put_its_messages_numbers_into_the_record() -> None:
    record = EXAMPLES[UOW]._replace(first=0, conversation=0)
    value = bytearray(UOW.encode(record))
    for name in ("first", "conversation"):
        value[UOW.offset(name) : UOW.offset(name) + 8] = (1 << 40).to_bytes(8, "little")

    assert UOW.decode(bytes(value)) == record._replace(first=1 << 40, conversation=1 << 40)


def test_the_texts_that_units_of_work_have_alike_stand_together() -> None:
    one = EXAMPLES[UOW]
    other = one._replace(uowid="1000000200000009", first=99, ustatus="done", producer="move-8")
    values = [UOW.encode(record) for record in (one, other)]
    heads = UOW.heads(values)

    shared = {value[UOW.size : UOW.size + int(extent)] for value, extent in zip(values, heads["extent"], strict=True)}

    assert len(shared) == 1
    assert b"CHESS" in shared.pop()


def test_every_field_that_the_manual_lists_as_stored_has_its_place() -> None:
    """EntireX, Using Persistence and Units of Work: what is written when a unit of work is created and changed."""
    listed = {
        "uowid", "conv_id", "created", "lifetime", "flags", "uwstatp",
        "sender_user", "sender_token", "sender_class", "sender_server", "sender_service",
        "receiver_user", "receiver_token", "receiver_class", "receiver_server", "receiver_service",
        "status", "ustatus", "adcount", "messages", "size", "status_lifetime", "state", "eoc_reason",
    }  # fmt: skip

    assert listed <= set(UowRecord._fields)


# The golden bytes.


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_the_bytes_stay_as_they_are(layout: Layout[Any]) -> None:
    assert layout.encode(EXAMPLES[layout]) == broker_records()[layout.kind.name]
    assert layout.decode(broker_records()[layout.kind.name]) == EXAMPLES[layout]


# The document.


def _section(kind: str) -> list[Rows]:
    text = re.search(rf"^## {kind}\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert text is not None
    return markdown_tables(text[1])


def _table(tables: list[Rows], first_column: str) -> list[tuple[str, ...]]:
    return next((rows[1:] for rows in tables if rows[0][0] == first_column), [])


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_the_document_has_every_field_in_its_place(layout: Layout[Any]) -> None:
    tables = _section(layout.kind.name)
    described = [(row[0], int(row[1])) for row in _table(markdown_tables(DOCUMENT), "field")]
    described += [(row[0], int(row[1])) for row in _table(tables, "field")]

    assert described == list(layout.widths.items())
    assert [row[0] for row in _table(tables, "text")] == list(layout.texts)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_the_document_marks_the_texts_that_do_not_count_in_the_extent(layout: Layout[Any]) -> None:
    own = [row[0] for row in _table(_section(layout.kind.name), "text") if row[1].startswith("*own*")]
    record = EXAMPLES[layout]
    (head,) = layout.heads([layout.encode(record)])

    shared = [getattr(record, name) for name in layout.texts if name not in own]

    assert head["extent"] == sum(len(text.encode()) + 1 for text in shared)


@pytest.mark.parametrize(("column", "enum"), [("status", Status), ("flag", Flag), ("state", ConversationState)])
def test_the_document_has_every_number(column: str, enum: Any) -> None:
    assert {(row[0], int(row[1])) for row in _table(_section("UOW"), column)} == {(one.name, one.value) for one in enum}


def test_the_document_has_every_kind_with_its_key_and_every_checkpoint() -> None:
    rows = _table(markdown_tables(DOCUMENT), "kind")
    names = _table(_section("CHECKPOINT"), "name")

    assert [(row[0], int(row[1])) for row in rows] == [(kind.name, kind.value) for kind in RecordKind]
    for row in rows:
        assert records.kind_of(row[2].strip("`")) is RecordKind[row[0]]
    assert {(row[0], int(row[1])) for row in names} == {(name.name, name.value) for name in CheckpointName}


def test_a_key_of_somebody_else_is_no_record() -> None:
    assert records.kind_of("orders") is None
    assert records.kind_of("broker/other") is None


def test_the_records_need_nothing_else_of_the_broker_and_of_us() -> None:
    tree = ast.parse((REPOSITORY / "broker" / "records.py").read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    package = ast.parse((REPOSITORY / "broker" / "__init__.py").read_text(encoding="utf-8"))

    known = {"struct", "collections", "enum", "functools", "typing", "numpy"}
    assert {name.partition(".")[0] for name in imported} <= known
    assert not [node for node in ast.walk(package) if isinstance(node, ast.Import | ast.ImportFrom)]


# The names of queues.

names = st.text(st.characters(codec="utf-8"), max_size=32)


@given(names, names, names, st.booleans())
def test_the_name_of_a_services_queue_says_which_it_is(
    server_class: str, server: str, service: str, is_reply: bool
) -> None:
    queue = ServiceQueue(server_class, server, service, is_reply)

    assert parse_queue(str(queue)) == queue


@given(st.text(max_size=96))
def test_the_name_of_a_topics_queue_says_which_it_is(topic: str) -> None:
    assert parse_queue(str(TopicQueue(topic))) == TopicQueue(topic)


def test_queues_are_named_for_people_and_the_longest_name_fits_the_journal() -> None:
    longest = ServiceQueue("/" * 32, "~" * 32, "/" * 32, is_reply=True)

    assert str(ServiceQueue("GAMES", "CHESS", "BY-MAIL")) == "GAMES/CHESS/BY-MAIL"
    assert str(ServiceQueue("GAMES", "CHESS", "BY-MAIL", is_reply=True)) == "GAMES/CHESS/BY-MAIL/reply"
    assert str(TopicQueue("NYSE")) == "topic/NYSE"
    assert max(len(str(longest)), len(str(TopicQueue("/" * 96)))) <= NAME_BYTES_MAX


@pytest.mark.parametrize("name", ["orders", "a/b/c/d", "a/b/c/d/e", "other/b"])
def test_a_queue_of_somebody_else_is_none_of_the_brokers(name: str) -> None:
    assert parse_queue(name) is None
