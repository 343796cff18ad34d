"""What replies show of units of work and conversations."""

from datetime import UTC, datetime
from functools import lru_cache

from oms_journal.broker.block import Reply, Store
from oms_journal.broker.codes import Code, refuse
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.state.conversation import Conversation
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.records import Flag, Status, UowRecord

HELD_TEXT = "held: the store was restored from a backup, and this may have been received since that was taken"
_STORES = (Store.OFF, Store.BROKER)


@lru_cache(256)
def commit_time(microseconds: int) -> str:
    """Return COMMITTIME, YYYYMMDDhhmmssmmm in UTC; "" where nothing is committed yet."""
    if not microseconds:
        return ""
    return f"{_second(microseconds // MICROSECONDS)}{microseconds // 1000 % 1000:03}"


@lru_cache(1024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d%H%M%S")


def reply_of(talk: Conversation, unit: UnitOfWork, status: Status) -> Reply:
    """Return the reply about an active unit of work."""
    reply = Reply.blank()
    reply.server_class, reply.server_name, reply.service = talk.service.name
    reply.conv_id = talk.conv_id
    reply.uowid = unit.uowid
    reply.uow_status = status
    reply.ustatus = unit.ustatus
    reply.store = _STORES[unit.is_persistent]
    reply.adcount = unit.adcount
    if unit.is_withheld:
        reply.text = HELD_TEXT
    if talk.begun:
        reply.commit_time = commit_time(talk.begun)
    return reply


def check_is_released(unit: UnitOfWork) -> None:
    """Raise WRONG_STATUS for what is held: nobody but an operator's RELEASE or DISCARD can say what becomes of it."""
    if unit.is_withheld:
        raise refuse(Code.WRONG_STATUS, f"{unit.uowid} is {HELD_TEXT}")


def reply_of_record(record: UowRecord) -> Reply:
    """Return the reply about a unit of work of which only the record is at hand."""
    if record.flags & Flag.FROM_SERVER:
        names = (record.sender_class, record.sender_server, record.sender_service)
    else:
        names = (record.receiver_class, record.receiver_server, record.receiver_service)
    return Reply(
        server_class=names[0],
        server_name=names[1],
        service=names[2],
        conv_id=record.conv_id,
        uowid=record.uowid,
        uow_status=record.status,
        ustatus=record.ustatus,
        store=Store.BROKER if record.flags & Flag.PERSISTENT else Store.OFF,
        adcount=record.adcount,
        commit_time=commit_time(record.begun),
    )
