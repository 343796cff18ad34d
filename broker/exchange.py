"""A unit of work or a publication between its first call and its last, as who sends or receives it knows it."""

from collections import deque
from typing import Any, Generic, TypeVar

from broker.block import BOTH, NEW, Function, Option, Reception, Request
from broker.codes import BrokerError, Code, detailed
from broker.rules import check
from broker.running import Answered, spelled
from broker.words import (
    Message,
    PublicationStatus,
    Speaker,
    UnitStatus,
    message,
    publication_status,
    unit_status,
)

_BEGINNINGS = (Reception.RECV_FIRST, Reception.RECV_ONLY)
StatusT = TypeVar("StatusT", UnitStatus, PublicationStatus)


class Sending:
    """A unit of work that is being sent."""

    def __init__(self, speaker: Speaker, to: dict[str, Any], terms: dict[str, Any]) -> None:
        self._speaker = speaker
        self._to = to
        self._terms = terms
        self.is_open = False  # it has a message, and is neither committed nor dropped
        self.uowid = ""  # until the first message was sent
        self.conv_id = ""
        self.status: UnitStatus | None = None  # as it was heard of last

    def _to_send(self, body: bytes, beside: dict[str, Any]) -> Request:
        return self._speaker.send(Option.SYNC, self._to, body, self._terms | beside)

    def _sent(self, answered: Answered) -> None:
        self.status = unit_status(answered)
        self.uowid, self.conv_id = self.status.uowid, self.status.conv_id
        self._to, self._terms = {"conv_id": self.conv_id}, {}
        self.is_open = True

    def _to_settle(self, option: Option, user_status: str = "") -> Request:
        return self._speaker.about(option, self.uowid, ustatus=user_status)

    def _settled(self, answered: Answered) -> UnitStatus:
        status = self._heard(answered)
        self.is_open = False
        return status

    def _heard(self, answered: Answered) -> UnitStatus:
        self.status = unit_status(answered)
        # Of the first, where it is a repeat; "" where no trace is kept of that one.
        self.uowid, self.conv_id = self.status.uowid, self.status.conv_id
        return self.status


class Publishing:
    """A publication that is being sent."""

    def __init__(self, speaker: Speaker, topic: str, user_status: str) -> None:
        self._speaker = speaker
        self._user_status = user_status
        self.topic = topic
        self.is_open = False  # it has a message, and is neither committed nor dropped
        self.publication_id = ""  # until the first message was sent
        self.status: PublicationStatus | None = None  # as it was heard of last

    def _to_send(self, body: bytes, beside: dict[str, Any]) -> Request:
        fields = {"publication_id": self.publication_id}
        if not self.publication_id:
            fields = {"publication_id": NEW, "topic": self.topic, "ustatus": self._user_status}
        return self._speaker.say(Function.SEND_PUBLICATION, Option.SYNC, body=body, **fields, **beside)

    def _sent(self, answered: Answered) -> None:
        self.status = publication_status(answered)
        self.publication_id = self.status.publication_id
        self.is_open = True

    def _to_settle(self, option: Option) -> Request:
        return self._speaker.about_publication(option, self.publication_id)

    def _settled(self, answered: Answered) -> PublicationStatus:
        self.status = publication_status(answered)
        self.is_open = False
        return self.status


class Receiving(Generic[StatusT]):
    """What is being received, message by message."""

    def __init__(self, speaker: Speaker, first: Message) -> None:
        self._speaker = speaker
        self._following = deque([first])  # heard, and not handed out yet
        self._last = first
        self.first = first
        self.user_status = first.user_status
        self.is_open = True  # neither committed nor given back

    @property
    def is_read(self) -> bool:
        """Whether all its messages were handed out."""
        return not self._following and self._last.is_last

    def _at_hand(self) -> Message | None:
        """Return the next message that was heard and not handed out."""
        return self._following.popleft() if self._following else None

    def _heard(self, answered: Answered) -> Message:
        self._last = message(answered)
        return self._last


def check_said(request: Request) -> None:
    """Raise what the broker would refuse the request for by itself, before anything is done for it. BrokerError."""
    refusal = check(spelled(request), is_server=True, is_logged_on=True)
    if refusal is not None:
        raise BrokerError(refusal.code, detailed(refusal.code, refusal.detail))


class Reading:
    """The units of work that a session is receiving. RECEIVE of any or old conversations goes on with one of them."""

    def __init__(self) -> None:
        self._units: dict[str, ReceivingUnit] = {}

    def begin(self, unit: "ReceivingUnit") -> None:
        self._units[unit.uowid] = unit

    def end(self, unit: "ReceivingUnit") -> None:
        if self._units.get(unit.uowid) is unit:
            del self._units[unit.uowid]

    def takes(self, found: Message) -> bool:
        """Keep the message for its unit of work; False when it begins one."""
        unit = self._units.get(found.uowid)
        return unit is not None and unit.keeps(found)


class ReceivingUnit(Receiving[UnitStatus]):
    """A unit of work that is being received."""

    def __init__(self, speaker: Speaker, reading: Reading, first: Message) -> None:
        super().__init__(speaker, first)
        self._reading = reading
        self.uowid = first.uowid
        self.conv_id = first.conv_id
        self.service = first.service
        self.sender = first.sender
        self.delivery_count = first.delivery_count
        self.is_new = first.is_new  # it begins a conversation
        reading.begin(self)

    def keeps(self, found: Message) -> bool:
        """Keep a message that was received in passing, to be handed out in its turn; False when it is not the next."""
        if found.reception in _BEGINNINGS or found.delivery_count != self.delivery_count:
            return False
        self._following.append(found)
        self._last = found
        return True

    def _heard(self, answered: Answered) -> Message:
        """Return the message; 00780307 when the unit of work was given back meanwhile, and begins anew."""
        found = super()._heard(answered)
        if found.uowid != self.uowid or found.reception in _BEGINNINGS:
            raise BrokerError(Code.WRONG_STATUS, detailed(Code.WRONG_STATUS, f"{self.uowid} was given back"))
        return found

    def _to_go_on(self) -> Request:
        return self._speaker.receive(None, self.conv_id, None, option=Option.SYNC)

    def _to_settle(self, option: Option, user_status: str, answer: Sending | None) -> Request:
        """Return what completes it or gives it back; a commit has an answer committed with it."""
        if answer is not None and answer.is_open and option is Option.COMMIT:
            return self._speaker.about(option, BOTH, conv_id=self.conv_id, ustatus=user_status)
        return self._speaker.about(option, self.uowid, ustatus=user_status)

    def _settled(self, answered: Answered) -> UnitStatus:
        status = unit_status(answered)
        self.is_open = False
        self._reading.end(self)
        return status


class ReceivingPublication(Receiving[PublicationStatus]):
    """A publication that is being received."""

    def __init__(self, speaker: Speaker, first: Message) -> None:
        super().__init__(speaker, first)
        self.publication_id = first.publication_id
        self.topic = first.topic

    def _to_go_on(self) -> Request:
        return self._speaker.receive_publication("", self.publication_id, None)

    def _to_settle(self, option: Option) -> Request:
        return self._speaker.about_publication(option, self.publication_id)

    def _settled(self, answered: Answered) -> PublicationStatus:
        status = publication_status(answered)
        self.is_open = False
        return status
