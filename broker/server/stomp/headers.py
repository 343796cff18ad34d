"""Between STOMP frames and the control block: what headers of SEND say, and what a MESSAGE tells in its headers.

header of SEND                         is
persistent                             STORE: `false` keeps it in memory only; what is not said the attributes say
lifetime, status-lifetime              UWTIME and UWSTAT-LIFETIME, as in 5M
status-lifetimes                       UWSTATP, 1 to 254; 0 for none
user-status                            the user status, at most 32 characters
producer-id                            the producer's identifier: a repeat of the unit gets a receipt, and adds nothing
conversation                           NEW: it begins a conversation that stays open. To go on in one, send to
                                       /conversation/ID: the ID of any other one is a property of the message
reply-to                               /temp/LABEL: where this connection wants the answers
receipt, transaction, destination,     as STOMP says; these and the above but reply-to are not properties of the message
content-length

All other headers travel as the message's properties.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import NEW, UWSTATP_MAX, UWSTATP_NO, Reception, Reply, Store
from oms_journal.broker.codes import Code, refuse
from oms_journal.broker.destinations import Destination, InConversation, ToTopic
from oms_journal.broker.server.stomp.frames import V10, V12, Frame, is_sayable
from oms_journal.broker.service_text import destination_of

_TERMS = frozenset(("persistent", "lifetime", "status-lifetime", "status-lifetimes", "user-status", "producer-id"))
_OF_FRAME = frozenset(("destination", "receipt", "transaction", "content-length"))
_CONVERSATION = "conversation"
_NO_PROPERTIES = _TERMS | _OF_FRAME
_STORES = {"true": Store.BROKER, "false": Store.OFF}
TEMPORARY = "/temp/"
# What the broker says of a message itself; a property of that name would be mistaken for it.
_OF_MESSAGE = frozenset(
    ("subscription", "message-id", "ack", "uow-id", "uow-status", "publication-id", "delivery-count", "redelivered")
)


def conversation_header(headers: Mapping[str, str], where: Destination) -> str | None:
    """Return what the header `conversation` says of where the message goes, None for nothing.

    A MESSAGE says its conversation, and may be sent elsewhere with all its headers: the destination is what counts.
    """
    said = headers.get(_CONVERSATION)
    if said is None:
        return None
    own = where.conv_id if isinstance(where, InConversation) else NEW
    return said if said == own and not isinstance(where, ToTopic) else None


def properties_of(headers: Mapping[str, str], *, names_conversation: bool) -> dict[str, str] | None:
    """Return what travels with the message; None for nothing."""
    if _NO_PROPERTIES.issuperset(headers):
        return None
    own = _NO_PROPERTIES | {_CONVERSATION} if names_conversation else _NO_PROPERTIES
    return {name: value for name, value in headers.items() if name not in own} or None


def terms_of(headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of the control block that say how a unit of work is kept. 00200229, 00200312."""
    if _TERMS.isdisjoint(headers):
        return {}
    fields: dict[str, Any] = {}
    persistent = headers.get("persistent")
    if persistent is not None:
        store = _STORES.get(persistent.lower())
        if store is None:
            raise refuse(Code.INVALID_STORE, f"persistent:{persistent[:20]} is neither true nor false")
        fields["store"] = store
    for name, field in _TEXTS.items():
        if name in headers:
            fields[field] = headers[name]
    multiples = headers.get("status-lifetimes")
    if multiples is not None:
        if not (multiples.isascii() and multiples.isdigit() and len(multiples) <= 3 and int(multiples) <= UWSTATP_MAX):
            text = f"status-lifetimes is a number up to {UWSTATP_MAX}"
            raise refuse(Code.OUT_OF_RANGE, text)
        fields["uwstatp"] = int(multiples) or UWSTATP_NO
    return fields


_TEXTS = {
    "lifetime": "uwtime",
    "status-lifetime": "uwstat_lifetime",
    "user-status": "ustatus",
    "producer-id": "producer",
}


def message_frame(answered: Answered, subscription: str, ack: str, version: str, *, needs_ack: bool) -> Frame:
    """Return the MESSAGE that hands out what was received."""
    reply, body, properties = answered
    headers = {"subscription": subscription, "message-id": ack, "destination": _source(reply)}
    if needs_ack and version == V12:
        headers["ack"] = ack
    if reply.publication_id:
        headers["publication-id"] = reply.publication_id
    else:
        headers["uow-id"] = reply.uowid
        headers["conversation"] = reply.conv_id
        headers["delivery-count"] = str(reply.adcount)
        if reply.adcount:
            headers["redelivered"] = "true"
        if reply.client_uid:
            headers["user-id"] = reply.client_uid
    assert isinstance(reply.uow_status, Reception), "a RECEIVE is answered with a message"
    headers["uow-status"] = _RECEPTIONS[reply.uow_status]
    if reply.ustatus:
        headers["user-status"] = reply.ustatus
    if properties:
        for name, value in properties.items():
            if name not in _OF_MESSAGE and name not in headers:
                headers[name] = value
        if properties.get("reply-to", "").startswith(TEMPORARY) and reply.conv_id:
            headers["reply-to"] = str(InConversation(reply.conv_id))
    if version == V10 or "\0" in "".join(chain.from_iterable(headers.items())):
        headers = {name: value for name, value in headers.items() if is_sayable(name, value, version)}
    return Frame("MESSAGE", headers, body or b"")


_RECEPTIONS = {reception: reception.name for reception in Reception}


def _source(reply: Reply) -> str:
    if reply.topic:
        return str(ToTopic(reply.topic))
    return destination_of((reply.server_class, reply.server_name, reply.service))


def receipt_frame(frame: Frame, reply: Reply | None = None) -> Frame | None:
    """Return the RECEIPT that the frame asks for, with what came of it; None where it asks for none."""
    receipt = frame.headers.get("receipt")
    if receipt is None:
        return None
    headers = {"receipt-id": receipt}
    if reply is not None and reply.uowid:
        headers["uow-id"] = reply.uowid
        headers["conversation"] = reply.conv_id
    elif reply is not None and reply.publication_id:
        headers["publication-id"] = reply.publication_id
    return Frame("RECEIPT", headers)


def error_frame(code: Code, text: str, frame: Frame | None = None, **headers: str) -> Frame:
    """Return the ERROR that says why, and of which frame."""
    line = " ".join(text.split()) or code.text
    said = {
        "message": f"{code.value} {line}"[:1000],
        "error-code": str(code.value),
        "content-type": "text/plain",
        **headers,
    }
    body = f"{code.value} {text or code.text}"
    if frame is not None:
        if "receipt" in frame.headers:
            said["receipt-id"] = frame.headers["receipt"]
        destination = frame.headers.get("destination", "")[:200]
        body += f"\nof the frame {frame.command}" + (f" to {destination}" if destination else "")
    if code.advice:
        body += f"\n{code.advice[0].upper()}{code.advice[1:]}."
    return Frame("ERROR", said, body.encode())
