"""Units of work that were given back too often: moved to the dead-letter service, never dropped.

A unit of work that was given back MAX-DELIVERY-COUNT times, and was postponed as often as POSTPONE-ATTEMPTS allows, is
not handed out again. The connection that received it sends its messages to /queue/DEAD-LETTER, with their properties
and where they are from, and commits both as one: the unit is in one place or the other, whatever happens meanwhile.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from broker.attributes import Attributes
from broker.block import BOTH, NEW, Function, Option, Reception, Reply
from broker.codes import Code
from broker.running import Answered
from broker.server.destinations import destination_of, queue_service
from broker.server.flow import Flow
from broker.server.transactions import Outgoing
from broker.words import service_fields

_log = logging.getLogger("oms.stomp")
DEAD_LETTERS = queue_service("DEAD-LETTER")
_ENDS = (Reception.RECV_LAST, Reception.RECV_ONLY)


def is_dead(attributes: Attributes, reply: Reply) -> bool:
    """Say whether the unit of work was given back as often as its service allows."""
    names = (reply.server_class, reply.server_name, reply.service)
    if not reply.uowid or names == DEAD_LETTERS:
        return False
    service = attributes.service(*names)
    if service is None or service.max_delivery_count is None:
        return False
    return reply.adcount >= service.max_delivery_count + service.postpone_attempts


class Burial:
    """The move of one unit of work, message by message."""

    def __init__(self, flow: Flow, first: Reply) -> None:
        self._flow = flow
        self._uowid = first.uowid
        self._from = destination_of((first.server_class, first.server_name, first.service))
        to = {"conv_id": NEW, **service_fields(DEAD_LETTERS)}
        self._out = Outgoing(function=Function.SEND, to=to, ends=True)
        self._is_refused = False

    def take(self, answered: Answered, go_on: Callable[[], None], done: Callable[[bool], None]) -> None:
        """Send a message on; then `go_on` with the next, or it is `done`: True when it was moved."""
        reply, body, properties = answered
        beside: dict[str, Any] = {"properties": self._marked(reply, properties), "store": reply.store}
        request = self._out.adding(self._flow.speaker, body or b"", beside)

        def sent(found: Reply) -> None:
            if found.code is not Code.OK:
                self._give_up(found, done)
                return
            self._out.learn(found)
            if reply.uow_status in _ENDS:
                self._commit(done)
            else:
                go_on()

        self._flow.ask(request, sent, None, allowed=frozenset(Code), is_unasked=True)

    def _marked(self, reply: Reply, properties: Mapping[str, str] | None) -> dict[str, str]:
        """Return the message's properties with where it is from."""
        marks = {
            "dead-letter-from": self._from,
            "dead-letter-uow": self._uowid,
            "dead-letter-count": str(reply.adcount),
            "dead-letter-user": reply.client_uid,
        }
        return {**(properties or {}), **marks}

    def _commit(self, done: Callable[[bool], None]) -> None:
        speaker = self._flow.speaker
        parts = [speaker.about(Option.COMMIT, self._uowid), self._out.settled(speaker, Option.COMMIT)]

        def committed(found: Reply) -> None:
            if found.code is not Code.OK:
                self._give_up(found, done)
                return
            _log.warning("%s of %s was given back too often, and is a dead letter now", self._uowid, self._from)
            done(True)

        request = replace(speaker.about(Option.COMMIT, BOTH), parts=parts)
        self._flow.ask(request, committed, None, allowed=frozenset(Code))

    def _give_up(self, found: Reply, done: Callable[[bool], None]) -> None:
        """Leave it where it is: it is tried again later."""
        _log.error("%s of %s cannot be moved to the dead letters: %s", self._uowid, self._from, found.text)
        if self._out.is_known:
            request = self._out.settled(self._flow.speaker, Option.BACKOUT)
            self._flow.ask(request, lambda _: None, None, allowed=frozenset(Code))
        done(False)
