"""STOMP transactions: what has been sent and acknowledged in one, and the one call that commits it.

What is sent becomes one unit of work for each destination, or one publication, begun with its first message. COMMIT
commits all of them, and all that was acknowledged, as one commit of the broker. ABORT backs out what was sent, and what
was acknowledged is in flight again. A connection that ends backs out all of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oms_journal.broker.block import BOTH, NEW, Function, Option, Reply, Request
from oms_journal.broker.server.stomp.subscriptions import InFlight, StompSubscription
from oms_journal.broker.sessions.requests import RequestFactory

Key = tuple[object, ...]  # of what goes into one unit of work


@dataclass(slots=True, kw_only=True)
class TransactionUnit:
    """A unit of work or a publication that is being sent in a transaction."""

    function: Function
    to: Mapping[str, Any]  # the fields that say where it goes
    ends: bool  # its conversation, with it
    label: str = ""  # where the answers are wanted
    correlation: str = ""
    is_expected: bool = False  # a place is kept for the answers
    uowid: str = ""
    conv_id: str = ""
    publication_id: str = ""
    is_asked: bool = False  # its first message is on its way
    waiting: list[Callable[[], None]] = field(default_factory=list)  # for what the first is answered

    @property
    def is_known(self) -> bool:
        return bool(self.uowid or self.publication_id)

    def adding(self, speaker: RequestFactory, body: bytes, beside: Mapping[str, Any]) -> Request:
        """Return the call that adds a message."""
        to = self.to
        if self.publication_id:
            to = {"publication_id": self.publication_id}
        elif self.conv_id:
            to = {"conv_id": self.conv_id}
        return speaker.request(self.function, Option.SYNC, body=body, **to, **beside)

    def learn(self, reply: Reply) -> list[Callable[[], None]]:
        """Take the answer to a message; return what has waited for it."""
        if self.is_known:
            return []
        self.uowid, self.conv_id, self.publication_id = reply.uowid, reply.conv_id, reply.publication_id
        waiting, self.waiting = self.waiting, []
        return waiting

    def settled(self, speaker: RequestFactory, option: Option) -> Request:
        """Return the call that commits it or backs it out."""
        if self.publication_id:
            return speaker.about_publication(option, self.publication_id)
        if option is Option.COMMIT and self.ends:
            option = Option.EOC
        return speaker.about(option, self.uowid)


class TransactionAck:
    """Messages that were acknowledged, or refused, in a transaction."""

    __slots__ = ("is_nack", "messages", "subscription")

    def __init__(self, subscription: StompSubscription, messages: list[tuple[int, InFlight]], *, is_nack: bool) -> None:
        self.subscription = subscription
        self.messages = messages
        self.is_nack = is_nack


class Transaction:
    """What has been said between BEGIN and COMMIT or ABORT."""

    __slots__ = ("is_lost", "name", "outgoing", "size", "speaker", "taken", "unanswered")

    def __init__(self, name: str, speaker: RequestFactory) -> None:
        self.name = name
        self.speaker = speaker
        self.outgoing: dict[Key, TransactionUnit] = {}
        self.taken: list[TransactionAck] = []
        self.is_lost = False  # it has acknowledged what the connection has no more
        self.size = 0  # bytes of bodies
        self.unanswered = 0  # messages that the broker has not taken yet

    def acknowledged(self) -> list[InFlight]:
        """Return the units that are complete with what was acknowledged here, and not refused."""
        refused = set(self.refused())
        return [
            unit
            for taken in self.taken
            if not taken.is_nack
            for number, unit in taken.messages
            if number == unit.last and not unit.is_gone and unit not in refused
        ]

    def gone(self) -> list[int]:
        """Return the numbers of the messages that were acknowledged here, and whose units are settled already."""
        return [number for taken in self.taken if not taken.is_nack for number, unit in taken.messages if unit.is_gone]

    def refused(self) -> list[InFlight]:
        """Return the units that were refused here."""
        units = (unit for taken in self.taken if taken.is_nack for _, unit in taken.messages)
        return [unit for unit in dict.fromkeys(units) if not unit.is_gone]

    def commit(self) -> Request | None:
        """Return the one call that commits all of it; None when there is nothing."""
        parts = self._parts()
        if len(parts) <= 1:
            return parts[0] if parts else None
        return replace(self.speaker.about(Option.COMMIT, BOTH), parts=parts)

    def _parts(self) -> list[Request]:
        """Return the calls that are decided together."""
        sent = {out.conv_id: out for out in self.outgoing.values() if out.conv_id and not out.ends}
        found: list[Request] = []
        for unit in self.acknowledged():
            if unit.conv_id and sent.pop(unit.conv_id, None) is not None:
                found.append(self.speaker.about(Option.COMMIT, BOTH, conv_id=unit.conv_id))
            else:
                found.append(unit.intake.source.settle(Option.COMMIT, unit.id))
        for out in self.outgoing.values():
            if out.ends or not out.conv_id or out.conv_id in sent:
                found.append(out.settled(self.speaker, Option.COMMIT))
        return found

    def back_outs(self) -> list[Request]:
        """Return the calls that take back what was sent."""
        return [out.settled(self.speaker, Option.BACKOUT) for out in self.outgoing.values() if out.is_known]


def unit_key(where: object, to: Mapping[str, Any], label: str) -> Key:
    """Return what tells the units of work of a transaction apart."""
    return (where, to.get("conv_id", NEW), label)
