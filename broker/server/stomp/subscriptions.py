"""STOMP subscriptions: what is in flight to them, and how it is received, handed out and settled.

An intake receives for all subscriptions of one connection to one source, one unit after the other: a unit of work, or
a publication. No further one is begun while as many messages are in flight as `prefetch-count` allows, or while what
was written has not left: so nothing piles up for a subscriber that does not read.

ack                what an ACK acknowledges
auto               nothing: a unit is committed once its last message was written
client             the message and all before it; every unit that is complete with it is committed
client-individual  the message; that of the last one of a unit commits it

What a STOMP subscription receives from: a service, a topic or a conversation, as calls of the broker.

              of the next          of the rest of it       done          given back
service       RECEIVE ANY          RECEIVE of its CONV-ID  COMMIT        BACKOUT
conversation  RECEIVE of CONV-ID   the same                COMMIT        BACKOUT
topic         RECEIVE_PUBLICATION  RECEIVE_PUBLICATION of  CONTROL_PUBLICATION COMMIT, BACKOUT
              NEW                  its PUBLICATION-ID

A unit is what the broker hands out as one: a unit of work or a publication.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Protocol

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import ANY, BEGINNINGS, NEW, Function, Option, Reception, Reply, Request
from oms_journal.broker.codes import Code
from oms_journal.broker.destinations import InConversation, ToService, ToTopic
from oms_journal.broker.server.stomp.flow import Cancellable, Flow
from oms_journal.broker.server.stomp.frames import Frame
from oms_journal.broker.server.stomp.headers import message_frame
from oms_journal.broker.sessions.requests import RequestFactory, service_fields

WAIT = "YES"  # as long as the participant may be inactive; then it is asked again

# What a RECEIVE is answered that can simply be repeated.
NOTHING_YET = frozenset({Code.WAIT_TIMED_OUT, Code.NO_UOWS, Code.NO_MESSAGE, Code.NO_CONVERSATION})
# The store is away, or a message could not be read: it is tried again later.
LATER = frozenset({Code.UOW_NOT_PERSISTED, Code.STATUS_NOT_PERSISTED, Code.DURABLE_WITHOUT_STORE})


class ServiceSource:
    """Units of work that wait for a server."""

    def __init__(self, speaker: RequestFactory, where: ToService) -> None:
        self._speaker = speaker
        self.where = where
        self._fields = service_fields(where.names)

    def begin(self) -> Request:
        """Return the call that makes its caller one who receives."""
        return self._speaker.request(Function.REGISTER, **self._fields)

    def end(self) -> Request | None:
        """Return the call that makes it so no longer, and gives back what it has; None for nothing to be said."""
        return self._speaker.request(Function.DEREGISTER, Option.IMMED, **self._fields)

    def next(self) -> Request:
        return self._speaker.request(Function.RECEIVE, Option.SYNC, conv_id=ANY, wait=WAIT, **self._fields)

    def rest(self, _: str, conv_id: str) -> Request:
        return self._speaker.request(Function.RECEIVE, Option.SYNC, conv_id=conv_id)

    def settle(self, option: Option, unit_id: str, *, is_untried: bool = False) -> Request:
        return self._speaker.about(option, unit_id, is_untried=is_untried)

    def is_over(self, code: Code) -> bool:
        """Say whether nothing can come any more."""
        return False


class ConversationSource:
    """Units of work of one conversation."""

    def __init__(self, speaker: RequestFactory, where: InConversation) -> None:
        self._speaker = speaker
        self.where = where

    def begin(self) -> Request | None:
        return None

    def end(self) -> Request | None:
        return None

    def next(self) -> Request:
        return self._speaker.request(Function.RECEIVE, Option.SYNC, conv_id=self.where.conv_id, wait=WAIT)

    def rest(self, _: str, conv_id: str) -> Request:
        return self._speaker.request(Function.RECEIVE, Option.SYNC, conv_id=conv_id)

    def settle(self, option: Option, unit_id: str, *, is_untried: bool = False) -> Request:
        return self._speaker.about(option, unit_id, is_untried=is_untried)

    def is_over(self, code: Code) -> bool:
        return code.error_class == Code.NO_CONVERSATION.error_class or code is Code.AFTER_EOC


class TopicSource:
    """Publications of a topic."""

    def __init__(self, speaker: RequestFactory, where: ToTopic, label: str, *, is_durable: bool) -> None:
        self._speaker = speaker
        self.where = where
        self.is_durable = is_durable
        self.label = label  # by which the broker tells it apart (`state/topics.py`)

    def begin(self) -> Request:
        option = Option.DURABLE if self.is_durable else Option.NONE
        return self._speaker.request(Function.SUBSCRIBE, option, topic=self.where.topic, subscription=self.label)

    def end(self) -> Request | None:
        return None if self.is_durable else self.forget()

    def forget(self) -> Request:
        """Return the call that ends the subscription for good."""
        return self._speaker.request(Function.UNSUBSCRIBE, topic=self.where.topic, subscription=self.label)

    def next(self) -> Request:
        where = self.where.topic
        return self._speaker.request(
            Function.RECEIVE_PUBLICATION, topic=where, publication_id=NEW, wait=WAIT, subscription=self.label
        )

    def rest(self, publication_id: str, _: str) -> Request:
        return self._speaker.request(
            Function.RECEIVE_PUBLICATION, publication_id=publication_id, subscription=self.label
        )

    def settle(self, option: Option, unit_id: str, *, is_untried: bool = False) -> Request:
        return self._speaker.about_publication(option, unit_id, subscription=self.label, is_untried=is_untried)

    def is_over(self, code: Code) -> bool:
        return False


FeedSource = ServiceSource | ConversationSource | TopicSource


AUTO, CLIENT, INDIVIDUAL = "auto", "client", "client-individual"
ACK_MODES = (AUTO, CLIENT, INDIVIDUAL)
SHUT_SECONDS = 0.5  # between two looks whether what a service that is to shut down has is done
RETRY_SECONDS = 1.0  # after a message that could not be had
_ENDS = (Reception.RECV_LAST, Reception.RECV_ONLY)
# What a settling call is answered when somebody else has settled the unit: an operator, or the end of the store.
SETTLED = frozenset({Code.WRONG_STATUS, Code.UOW_NOT_FOUND, Code.NOT_THE_CREATOR})


RANGES_MAX = 10_000  # of messages that were acknowledged; what is older is not known any more


class Acknowledged:
    """Numbers of the messages that were acknowledged, as ranges: any number of them side by side takes little room.

    The oldest are dropped. (`broker/kernel/tables/ranges.py` makes ranges anew with each change; here each ACK is one.)
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def size(self) -> int:
        """How many ranges there are."""
        return len(self._starts)

    def add(self, number: int) -> None:
        starts, ends = self._starts, self._ends
        at = bisect_right(starts, number)
        if at and ends[at - 1] >= number:
            return
        joins = at > 0 and ends[at - 1] == number - 1
        meets = at < len(starts) and starts[at] == number + 1
        first = at - 1 if joins else at
        start, end = starts[first] if joins else number, ends[at] if meets else number
        starts[first : at + meets], ends[first : at + meets] = [start], [end]
        if len(starts) > RANGES_MAX:
            del starts[: RANGES_MAX // 2], ends[: RANGES_MAX // 2]

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number)
        return at > 0 and self._ends[at - 1] >= number


class StompSubscription:
    """A SUBSCRIBE of the client."""

    __slots__ = ("ack", "id", "inflight", "is_automatic", "label", "prefetch")

    def __init__(self, id_: str, ack: str, prefetch: int) -> None:
        self.id = id_
        self.ack = ack
        self.prefetch = prefetch
        self.label = ""  # of /temp/LABEL
        self.is_automatic = False  # nobody has said SUBSCRIBE
        self.inflight: dict[int, InFlight] = {}  # by the number of the message: handed out and not acknowledged

    @property
    def has_room(self) -> bool:
        return len(self.inflight) < self.prefetch

    def take(self, number: int) -> list[tuple[int, "InFlight"]]:
        """Take the messages out that an ACK or NACK of this one is about."""
        if self.ack != CLIENT:
            unit = self.inflight.pop(number, None)
            return [] if unit is None else [(number, unit)]
        taken = []
        for each in list(self.inflight):
            if each > number:
                break
            taken.append((each, self.inflight.pop(each)))
        return taken

    def put_back(self, taken: Iterable[tuple[int, "InFlight"]]) -> None:
        """Let messages be in flight again, in the order in which they went out."""
        self.inflight = dict(sorted([*self.inflight.items(), *((n, unit) for n, unit in taken if not unit.is_gone)]))


class InFlight:
    """What is received as one: a unit of work or a publication."""

    __slots__ = ("conv_id", "id", "intake", "is_gone", "last", "numbers", "subscription")

    def __init__(self, intake: "Feed", subscription: StompSubscription, reply: Reply) -> None:
        self.intake = intake
        self.subscription = subscription
        self.id = reply.publication_id or reply.uowid
        self.conv_id = reply.conv_id
        self.numbers: list[int] = []  # of its messages that were handed out
        self.last = 0  # the number of its last one, once that was handed out
        self.is_gone = False  # committed or given back, or about to be


class Receiver(Protocol):
    """What an intake needs of its connection."""

    def number(self) -> int: ...
    def hand_out(self, frame: Frame, number: int, unit: InFlight) -> None: ...
    def handed_out_last(self, unit: InFlight) -> None: ...
    def forget(self, unit: InFlight) -> None: ...
    def is_over(self, intake: "Feed") -> None: ...


class Feed:
    """Receives from a source for the subscriptions to it."""

    def __init__(self, flow: Flow, receiver: Receiver, source: FeedSource) -> None:
        self._flow = flow
        self.source = source
        self.subscriptions: list[StompSubscription] = []
        self.label = ""  # of /temp/LABEL, whose answers these are
        self.correlation = ""  # what they are marked with
        self.is_answered = False  # one has arrived, and nothing was said in the conversation since then
        self._receiver = receiver
        self.gets_one_at_a_time = False  # it was lost too often in a row, and has acknowledged nothing since
        self._shut: Reply | None = None  # an operator wants no more to be received, and what is in flight to be done
        self._asked: Cancellable | None = None
        self._current: InFlight | None = None  # whose last message was not handed out yet

    def add(self, subscription: StompSubscription) -> None:
        self.subscriptions.append(subscription)
        self.go_on()

    def take_over(self, subscription: StompSubscription) -> None:
        """Receive for this subscription from now on, and for no other."""
        self.subscriptions = [subscription]
        self.go_on()

    def remove(self, subscription: StompSubscription) -> None:
        self.subscriptions.remove(subscription)
        if self._current is not None and self._current.subscription is subscription:
            self._drop_current()
        if not self.subscriptions or (self._current is None and not self._has_room):
            self.stop()  # also what was asked for the one that leaves: the others would get more than they want

    @property
    def _has_room(self) -> bool:
        return any(subscription.has_room for subscription in self.subscriptions)

    def stop(self) -> None:
        """Receive nothing more."""
        if self._asked is not None:
            self._asked.cancel()
            self._asked = None

    # Receiving.

    def go_on(self) -> None:
        """Ask for the next message if there is somebody for it."""
        flow = self._flow
        if self._asked is not None or not self.subscriptions or not (flow.is_open and flow.outlet.is_writable):
            return
        if self._current is not None:
            request = self.source.rest(self._current.id, self._current.conv_id)
        elif self.gets_one_at_a_time and any(subscription.inflight for subscription in self.subscriptions):
            return
        elif self._has_room:
            request = self.source.next()
        else:
            return
        self._asked = flow.outlet.ask(request, self._answered)

    def _answered(self, answered: Answered) -> None:
        self._asked = None
        flow, reply = self._flow, answered.reply
        if not flow.is_open:
            return
        if reply.code is Code.OK:
            self._take(answered)
        elif reply.code is Code.END_OF_UOW:
            return  # the conversation goes on when its unit is settled
        elif self.source.is_over(reply.code):
            self._receiver.is_over(self)
            return
        elif reply.code is Code.SHUTDOWN_QUIESCE:
            self._shut = reply
            flow.outlet.after(SHUT_SECONDS, self.go_on)
            return
        elif reply.code in LATER:
            flow.outlet.after(RETRY_SECONDS, self.go_on)
            self._miss()
            return
        elif reply.code not in NOTHING_YET:
            refused = self._shut or reply
            flow.fail(refused.code, refused.text)  # it can receive nothing
            return
        self.go_on()

    def _take(self, answered: Answered) -> None:
        reply = answered.reply
        unit = self._current
        if unit is None or reply.uow_status in BEGINNINGS:
            unit = self._current = InFlight(self, self._whose(), reply)
        number = self._receiver.number()
        unit.numbers.append(number)
        subscription = unit.subscription
        needs_ack = subscription.ack != AUTO
        ack = f"{unit.id}-{number}"
        frame = message_frame(answered, subscription.id, ack, self._flow.version, needs_ack=needs_ack)
        if self.correlation and "correlation-id" not in frame.headers:
            frame = frame._replace(headers={**frame.headers, "correlation-id": self.correlation})
        subscription.inflight[number] = unit
        self._receiver.hand_out(frame, number, unit)
        if reply.uow_status in _ENDS:
            unit.last = number
            self._current = None
            if not needs_ack:
                self._receiver.handed_out_last(unit)

    def _whose(self) -> StompSubscription:
        """Return the subscription whose turn it is."""
        for at, subscription in enumerate(self.subscriptions):
            if subscription.has_room:
                self.subscriptions.append(self.subscriptions.pop(at))
                return subscription
        return self.subscriptions[0]

    def let_go(self, unit: InFlight) -> None:
        """Know the unit no longer as one that is in flight."""
        unit.is_gone = True
        if self._current is unit:
            self._drop_current()
        for number in unit.numbers:
            unit.subscription.inflight.pop(number, None)

    @property
    def current(self) -> InFlight | None:
        """The unit whose last message was not handed out yet."""
        return self._current

    def _drop_current(self) -> None:
        self._current = None
        self.stop()

    def _miss(self) -> None:
        """Let go of what cannot be received on with: a message of it was not there, and the broker has it again."""
        if self._current is not None:
            self._receiver.forget(self._current)
