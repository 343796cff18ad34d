"""What an operator does from the process that has the broker, and what it means to the model.

PURGE and SET-UOW-STATUS as `broker/kernel/operator_commands.py` has them from EntireX, Command and Information
Services; a durable subscription is made and ended on behalf of a user who need not be there (SUBSCRIBE and UNSUBSCRIBE
there).
"""

from collections.abc import Callable
from typing import Any

from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import SubscribeFor, UnsubscribeFor
from oms_journal.broker.records import Status
from tests.callers.belief import Mind, Way
from tests.support.broker.model import COMPLETE
from tests.support.broker.model_topics import Subscription
from tests.support.broker.words import Answer

VERBS = {  # with the kinds of what they are given
    "purge": ("uowid",),
    "set_uow_status": ("uowid", "status"),
    "forbid_new_uow_messages": (),
    "allow_new_uow_messages": (),
    "subscribe_for": ("topic", "reader"),
    "unsubscribe_for": ("topic", "reader"),
}
SHOWN = ("uow", "talk", "ustatus", "adcount", "store", "service")
_OK: Answer = {"code": Code.OK}


def command(verb: str, topic: str, reader: tuple[str, str]) -> Callable[[int], Any]:
    """Return what makes the command of a verb that has no method of its own."""
    made = SubscribeFor if verb == "subscribe_for" else UnsubscribeFor
    return lambda handle: made(handle, topic, *reader)


def way_of(verb: str, means: dict[str, Any]) -> Way:
    """Return what a verb does to a state of the model."""
    way: Way = {
        "purge": lambda state: _purge(state, means["uowid"]),
        "set_uow_status": lambda state: _set_status(state, means["uowid"], means["status"]),
        "forbid_new_uow_messages": lambda state: _forbid(state, is_forbidden=True),
        "allow_new_uow_messages": lambda state: _forbid(state, is_forbidden=False),
        "subscribe_for": lambda state: _subscribe(state, means["topic"], means["reader"]),
        "unsubscribe_for": lambda state: _unsubscribe(state, means["topic"], means["reader"]),
    }[verb]
    return way


def _purge(state: Mind, uowid: str) -> Answer:
    """Leave no trace of a unit of work: nobody receives it, or is told of its status."""
    model = state.model
    unit = model.uows.get(_number(state, uowid))
    if unit is None:
        return {"code": Code.UOW_NOT_FOUND}
    shown = model._shown(unit) | {"service": unit.service}
    unit.has_status = False
    if unit.status in COMPLETE:
        model._forget(unit)
    else:
        model._complete(unit, Status.CANCELLED)
        model.touched.add(unit.talk)
    model.serve()
    return _OK | shown


def _set_status(state: Mind, uowid: str, status: Status) -> Answer:
    """Move a unit of work that waits, or is put off: to be received at once, or never."""
    model = state.model
    unit = model.uows.get(_number(state, uowid))
    if status not in (Status.ACCEPTED, Status.CANCELLED):
        return {"code": Code.WRONG_STATUS}
    if unit is None:
        return {"code": Code.UOW_NOT_FOUND}
    if unit.status not in (Status.ACCEPTED, Status.POSTPONED):
        return {"code": Code.WRONG_STATUS}
    shown = model._shown(unit) | {"service": unit.service, "status": status}
    if status is Status.CANCELLED:
        model._complete(unit, status)
    else:
        unit.back = 0
        model._available(unit)
    model.serve()
    return _OK | shown


def _number(state: Mind, uowid: str) -> int:
    number = state.uows.number(uowid)
    return number if isinstance(number, int) else -1


def _forbid(state: Mind, *, is_forbidden: bool) -> Answer:
    state.model.forbid(is_forbidden=is_forbidden)
    return _OK


def _durable(state: Mind, topic: str, reader: tuple[str, str]) -> Subscription | None:
    found = [each for each in state.model.topics.subscriptions if each.is_durable and each.topic == topic]
    return next((each for each in found if each.owner[:2] == reader), None)


def _subscribe(state: Mind, topic: str, reader: tuple[str, str]) -> Answer:
    topics = state.model.topics
    if topic not in topics.terms:
        return {"code": Code.SERVICE_UNDEFINED}
    if not topics.terms[topic].is_durable:
        return {"code": Code.SUBSCRIBE_NOT_ALLOWED}
    if _durable(state, topic, reader) is None:
        topics.subscriptions.append(Subscription(topic, (*reader, 0), is_durable=True))
    return _OK


def _unsubscribe(state: Mind, topic: str, reader: tuple[str, str]) -> Answer:
    topics = state.model.topics
    if topic not in topics.terms:
        return {"code": Code.SERVICE_UNDEFINED}
    found = _durable(state, topic, reader)
    if found is None:
        return {"code": Code.UOW_NOT_FOUND}
    topics._remove(found)
    return _OK


__all__ = ["SHOWN", "VERBS", "command", "way_of"]
