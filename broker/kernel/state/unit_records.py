"""What of a unit of work is written to the store, and when.

    when                          persistent UOW                 persistent status
    the sender adds a message     nothing                        PUT of the record
    the sender commits            ADD of the messages, and PUT   PUT
    the receiver begins           nothing                        PUT
    the receiver backs out        PUT (delivery count)           PUT
    it is complete                its messages are removed       PUT; without it DROP
    the user status changes       PUT where there is a record    PUT
    the status lifetime is over                                  DROP

The receiver's first commit in a conversation also writes the records of what waits there, with the
binding to the server instance.
"""

from collections.abc import Iterable, Mapping

from oms_journal.broker.block import ServiceName
from oms_journal.broker.kernel.state.conversation import CLIENT, OPEN, SERVER, Conversation, Side
from oms_journal.broker.kernel.state.unit import Name, Owner, UnitOfWork
from oms_journal.broker.kernel.state.unit_states import ACCEPTED, DELIVERED, POSTPONED
from oms_journal.broker.records import UOW, UOWS, ConversationState, Flag, Status, UowRecord
from oms_journal.broker.store.changes import Put

_FIRST, _CONVERSATION = UOW.offset("first"), UOW.offset("conversation")
AT_THE_FIRST: Mapping[int, int] = {_FIRST: 0, _CONVERSATION: 0}
_FLAGS = [Flag(number) for number in range(64)]  # making one anew costs more than the rest of a record
_PERSISTENT, _STATUS, _FROM_SERVER = int(Flag.PERSISTENT), int(Flag.STATUS_PERSISTENT), int(Flag.FROM_SERVER)
_IS_FIRST, _BOUND, _RELEASED = int(Flag.FIRST), int(Flag.BOUND), int(Flag.RELEASED)
# Of a client's persistent unit of work that begins its conversation: without persistent status, and with it.
FIRST_FLAGS = (_PERSISTENT | _IS_FIRST, _PERSISTENT | _IS_FIRST | _STATUS)


def record_of(unit: UnitOfWork, conversation: Conversation, status: Status) -> UowRecord:
    """Return the unit's record, as it is with this status."""
    flags = unit.is_persistent * _PERSISTENT + unit.has_status * _STATUS + unit.is_first * _IS_FIRST
    owner, service, server = unit.owner, conversation.service.name, conversation.server
    flags += (conversation.is_bound and (not unit.from_server or _is_by(server, owner))) * _BOUND
    if unit.is_released:
        flags += _RELEASED
    is_over = conversation.ender is (SERVER if unit.from_server else CLIENT)
    if unit.from_server:
        parties = (owner.user, owner.token, *service, *conversation.client[:2], "", "", "")
        flags += _FROM_SERVER
    else:
        parties = (owner.user, owner.token, "", "", "", *(server[:2] if server else ("", "")), *service)
    return UowRecord(
        unit.uowid,
        conversation.conv_id,
        status,
        _FLAGS[flags],
        conversation.state if is_over else OPEN,
        unit.uwstatp,
        conversation.reason if is_over else 0,
        unit.adcount,
        unit.postpones,
        unit.count,
        unit.lifetime,
        unit.status_lifetime,
        unit.size,
        unit.created,
        unit.committed,
        conversation.begun,
        unit.changed,
        unit.first,
        conversation.first,
        unit.ends,
        unit.back,
        *parties,
        unit.ustatus,
        unit.producer,
    )


def _is_by(server: Name | None, owner: Owner) -> bool:
    """Say whether the instance that has the conversation is the one that sends."""
    return server is not None and server[:2] == owner.name


def written(unit: UnitOfWork) -> Status:
    """Return the status that is written of a unit that waits: DELIVERED only where the status is persistent."""
    return ACCEPTED if unit.status is DELIVERED and not unit.has_status else unit.status


def put_of_unit(record: UowRecord) -> Put:
    """Return the record to be written."""
    return Put(UOWS + record.uowid, UOW.encode(record))


def put_with_messages(record: UowRecord, place: int, *, is_first: bool) -> Put:
    """Return the record to be written in the commit that adds its messages, from that place among the adds."""
    at: Mapping[int, int] = {_FIRST: place}
    if is_first:
        at = AT_THE_FIRST if not place else {_FIRST: place, _CONVERSATION: place}
    return Put(UOWS + record.uowid, UOW.encode(record), at)


def key(uowid: str) -> str:
    """Return the key of a unit's record."""
    return UOWS + uowid


def bound(record: UowRecord, conversation: Conversation) -> UowRecord:
    """Return a waiting unit's record with the server instance that has the conversation now.

    Of an answer that instance is the sender; one that another instance has sent stays as it is.
    """
    assert conversation.server is not None
    user, token, _ = conversation.server
    if record.flags & _FROM_SERVER:
        is_its = (record.sender_user, record.sender_token) == (user, token)
        return record._replace(flags=_FLAGS[record.flags | _BOUND]) if is_its else record
    return record._replace(receiver_user=user, receiver_token=token, flags=_FLAGS[record.flags | _BOUND])


def ended(record: UowRecord, state: ConversationState, reason: int) -> UowRecord:
    """Return a waiting unit's record with the end of its conversation."""
    return record._replace(state=state, eoc_reason=reason)


def is_waiting_for(record: UowRecord, side: Side) -> bool:
    """The record is of a unit that waits for that side."""
    is_to_client = bool(record.flags & _FROM_SERVER)
    return record.status in (ACCEPTED, POSTPONED) and is_to_client == (side is CLIENT)


def is_persistent(record: UowRecord) -> bool:
    return bool(record.flags & _PERSISTENT)


def service_of_record(record: UowRecord) -> ServiceName:
    """Return the service that the record's conversation is with."""
    if record.flags & _FROM_SERVER:
        return (record.sender_class, record.sender_server, record.sender_service)
    return (record.receiver_class, record.receiver_server, record.receiver_service)


def ordered(records: Iterable[UowRecord]) -> list[UowRecord]:
    """Return records in the order of their commits."""
    return sorted(records, key=lambda record: record.first)
