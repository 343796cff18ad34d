"""A unit of work or a publication between its first call and its last, as who sends or receives it knows it."""

from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

from oms_journal.broker.answers import Answered, with_enums
from oms_journal.broker.block import BEGINNINGS, BOTH, NEW, Function, Option, Request
from oms_journal.broker.codes import Code, refuse
from oms_journal.broker.rules import check
from oms_journal.broker.sessions.requests import (
    Message,
    PublicationStatus,
    RequestFactory,
    UnitStatus,
    message,
    publication_status,
    unit_status,
)

_SENT_ANOTHER = "{} is settled; begin another unit of work with unit_of_work"
_RECEIVE_ANOTHER = "{} is settled: it was committed, given back or cancelled with this object; receive another one"
_WAS_LOST = "{} was given back meanwhile; use what it was received with again"
StatusT = TypeVar("StatusT", UnitStatus, PublicationStatus)


class OutgoingUnit:
    """A unit of work that is being sent."""

    def __init__(self, speaker: RequestFactory, to: dict[str, Any], terms: dict[str, Any]) -> None:
        self._speaker = speaker
        self._to = to
        self._terms = terms
        self._is_settled = False  # committed or dropped
        self.is_open = False  # it has a message, and is neither committed nor dropped
        self.uowid = ""  # until the first message was sent
        self.conv_id = ""
        self.status: UnitStatus | None = None  # as it was heard of last

    def _to_send(self, body: bytes, beside: dict[str, Any]) -> Request:
        if self._is_settled:
            raise refuse(Code.WRONG_STATUS, _SENT_ANOTHER.format(self.uowid))
        return self._speaker.send(Option.SYNC, self._to, body, self._terms | beside)

    def _sent(self, answered: Answered) -> None:
        self.status = unit_status(answered)
        self.uowid, self.conv_id = self.status.uowid, self.status.conv_id
        # Said with each message: where this is a repeat, and is over meanwhile, nothing new begins in its place.
        self._to, self._terms = {"conv_id": self.conv_id}, {"producer": self._terms.get("producer", "")}
        self.is_open = True

    def _to_settle(self, option: Option, user_status: str = "") -> Request:
        return self._speaker.about(option, self.uowid, ustatus=user_status)

    def _settled(self, answered: Answered) -> UnitStatus:
        status = self._heard(answered)
        self.is_open, self._is_settled = False, True
        return status

    def _heard(self, answered: Answered) -> UnitStatus:
        self.status = unit_status(answered)
        # Of the first, where it is a repeat; "" where no trace is kept of that one.
        self.uowid, self.conv_id = self.status.uowid, self.status.conv_id
        return self.status


class Publishing:
    """A publication that is being sent."""

    def __init__(self, speaker: RequestFactory, topic: str, user_status: str) -> None:
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
        return self._speaker.request(Function.SEND_PUBLICATION, Option.SYNC, body=body, **fields, **beside)

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

    def __init__(self, speaker: RequestFactory, first: Message) -> None:
        self._speaker = speaker
        self._heard_of = [first]
        self._count = 0  # of these, that were handed out
        self.first = first
        self.user_status = first.user_status
        self.is_open = True  # neither committed nor given back

    @property
    def is_read(self) -> bool:
        """Whether all its messages were handed out."""
        return self._count == len(self._heard_of) and self._heard_of[-1].is_last

    def _at_hand(self) -> Message | None:
        """Return the next message that was heard and not handed out. BrokerError 00780307 when it is settled."""
        self._check_is_open()
        if self._count == len(self._heard_of):
            return None
        self._count += 1  # no handler of a signal comes between this and the caller
        return self._heard_of[self._count - 1]

    def _check_is_open(self) -> None:
        if not self.is_open:
            text = _RECEIVE_ANOTHER.format(self.first.uowid or self.first.publication_id)
            raise refuse(Code.WRONG_STATUS, text)

    def _heard(self, answered: Answered) -> Message:
        found = message(answered)
        self._heard_of = [found]
        self._count = 1
        return found


class Again(Enum):
    """There is nothing to be returned yet."""

    AGAIN = auto()


AGAIN: Final = Again.AGAIN


def check_said(request: Request) -> None:
    """Raise what the broker would refuse the request for by itself, before anything is done for it. BrokerError."""
    refusal = check(with_enums(request), is_server=True, is_logged_on=True)
    if refusal is not None:
        raise refuse(refusal.code, refusal.detail)


class Reading:
    """The units of work that a session is receiving. RECEIVE of any or old conversations goes on with one of them."""

    def __init__(self) -> None:
        self._units: dict[str, ReceivingUnit] = {}

    def begin(self, unit: "ReceivingUnit") -> None:
        self.lose(unit.uowid)  # it was given back, else it would not come again
        self._units[unit.uowid] = unit

    def end(self, unit: "ReceivingUnit") -> None:
        if self._units.get(unit.uowid) is unit:
            del self._units[unit.uowid]

    def lose_all(self) -> None:
        """Note that all of them were given back, as with a lost connection."""
        for uowid in list(self._units):
            self.lose(uowid)

    def lose(self, uowid: str) -> None:
        """Note that a unit of work was given back by somebody else than who has it."""
        unit = self._units.pop(uowid, None)
        if unit is not None:
            unit.is_lost = True

    def takes(self, found: Message) -> bool:
        """Keep the message for its unit of work; False when it begins one."""
        unit = self._units.get(found.uowid)
        return unit is not None and unit._keeps(found)


class ReceivingUnit(Receiving[UnitStatus]):
    """A unit of work that is being received."""

    def __init__(self, speaker: RequestFactory, reading: Reading, first: Message) -> None:
        super().__init__(speaker, first)
        self._reading = reading
        self.uowid = first.uowid
        self.conv_id = first.conv_id
        self.service = first.service
        self.sender = first.sender
        self.delivery_count = first.delivery_count
        self.is_new = first.is_new  # it begins a conversation
        self.is_lost = False  # given back, and not with this object
        reading.begin(self)

    def _keeps(self, found: Message) -> bool:
        """Keep a message that was received in passing, to be handed out in its turn; False when it is not the next."""
        if found.reception in BEGINNINGS or found.delivery_count != self.delivery_count:
            return False
        self._heard_of.append(found)
        return True

    def _check_is_open(self) -> None:
        super()._check_is_open()
        self._check_is_not_lost()

    def _check_is_not_lost(self) -> None:
        if self.is_lost:
            raise refuse(Code.WRONG_STATUS, _WAS_LOST.format(self.uowid))

    def _heard(self, answered: Answered) -> Message:
        """Return the message; 00780307 when the unit of work was given back meanwhile, and begins anew."""
        found = message(answered)
        if found.uowid != self.uowid or found.reception in BEGINNINGS:
            self._reading.lose(self.uowid)
            self._check_is_not_lost()
        return super()._heard(answered)

    def _to_go_on(self) -> Request:
        return self._speaker.receive(None, self.conv_id, None, option=Option.SYNC)

    def _to_settle(self, option: Option, user_status: str, answer: OutgoingUnit | None) -> Request:
        """Return what completes it or gives it back; a commit has an answer committed with it. BrokerError 00780307."""
        self._check_is_open()
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

    def __init__(self, speaker: RequestFactory, first: Message) -> None:
        super().__init__(speaker, first)
        self.publication_id = first.publication_id
        self.topic = first.topic

    def _to_go_on(self) -> Request:
        return self._speaker.receive_publication("", self.publication_id, None)

    def _to_settle(self, option: Option) -> Request:
        self._check_is_open()
        return self._speaker.about_publication(option, self.publication_id)

    def _settled(self, answered: Answered) -> PublicationStatus:
        status = publication_status(answered)
        self.is_open = False
        return status
