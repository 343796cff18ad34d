"""SEND to `/aci` of a STOMP connection: the calls for which STOMP has no frame, as control blocks in JSON.

    function             option
    SYNCPOINT            QUERY, LAST, SETUSTATUS, DELETE, CANCEL
    CONTROL_PUBLICATION  QUERY, LAST, SETUSTATUS
    EOC                  any
    VERSION, KERNELVERS  any

The answer is a MESSAGE of the subscription to `/temp/LABEL`, which `reply-to` names, with the JSON that HTTP would
answer and the SEND's `correlation-id`; a RECEIPT comes behind it. A refusal of the broker is such an answer too, and
the connection goes on. USER-ID and TOKEN are those of the connection.
"""

import json
from collections.abc import Callable, Mapping

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import Function, Option, Request
from oms_journal.broker.block_json import BadBlock, decode_request, encode_answer, parse_json
from oms_journal.broker.codes import Code, refuse
from oms_journal.broker.server.stomp.flow import Flow
from oms_journal.broker.server.stomp.frames import Frame
from oms_journal.broker.server.stomp.headers import TEMPORARY

DESTINATION = "/aci"
_OF_UNITS = frozenset({Option.QUERY, Option.LAST, Option.SETUSTATUS, Option.DELETE, Option.CANCEL})
_OF_PUBLICATIONS = frozenset({Option.QUERY, Option.LAST, Option.SETUSTATUS})
_ANY = frozenset(Option)
CALLS: Mapping[Function, frozenset[Option]] = {
    Function.SYNCPOINT: _OF_UNITS,
    Function.CONTROL_PUBLICATION: _OF_PUBLICATIONS,
    Function.EOC: _ANY,
    Function.VERSION: _ANY,
    Function.KERNELVERS: _ANY,
}


class BlockCalls:
    """The control blocks of one connection."""

    def __init__(self, flow: Flow, subscription_to: Callable[[str], str], number: Callable[[], int]) -> None:
        """`subscription_to` gives the id of the subscription to a label, `number` that of the next MESSAGE."""
        self._flow = flow
        self._subscription_to = subscription_to
        self._number = number

    def take(self, frame: Frame) -> None:
        """Carry out a call, once all that was begun before is answered. BrokerError."""
        headers = frame.headers
        if "transaction" in headers:
            raise refuse(Code.INVALID_OPTION, "a control block is in no transaction")
        reply_to = headers.get("reply-to", "")
        if reply_to and (not reply_to.startswith(TEMPORARY) or reply_to == TEMPORARY):
            raise refuse(Code.INVALID_OPTION, "reply-to names /temp/LABEL")
        try:
            request, as_text = decode_request(parse_json(frame.body))
        except BadBlock as bad:
            raise refuse(Code.INVALID_FUNCTION, str(bad)) from None
        self._flow.speaker.speak_for(request)
        _check(request)

        def answered(found: Answered) -> None:
            if reply_to:
                self._answer(frame, found, reply_to, as_text=as_text)
            self._flow.receipt(frame)
            self._flow.go_on()

        self._flow.when_settled(lambda: self._flow.call(request, answered))

    def _answer(self, frame: Frame, found: Answered, reply_to: str, *, as_text: bool) -> None:
        headers = {
            "subscription": self._subscription_to(reply_to.removeprefix(TEMPORARY)),
            "message-id": str(self._number()),
            "destination": DESTINATION,
            "content-type": "application/json",
        }
        if "correlation-id" in frame.headers:
            headers["correlation-id"] = frame.headers["correlation-id"]
        body = json.dumps(encode_answer(found, as_text=as_text)).encode()
        self._flow.outlet.say(Frame("MESSAGE", headers, body))


def _check(request: Request) -> None:
    """Refuse what the connection's own frames are for. BrokerError."""
    function, option = Function(request.function), Option(request.option)
    if function not in CALLS:
        raise refuse(Code.INVALID_FUNCTION, f"{function.name} is no call for {DESTINATION}: STOMP has frames for it")
    if option not in CALLS[function]:
        text = f"{function.name} with OPTION={option.name} is no call for {DESTINATION}: STOMP has frames for it"
        raise refuse(Code.INVALID_OPTION, text)
