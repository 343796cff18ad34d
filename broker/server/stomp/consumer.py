"""SUBSCRIBE, UNSUBSCRIBE, ACK and NACK of a STOMP connection, and the answers to what it has sent with reply-to."""

from collections.abc import Callable, Mapping

from oms_journal.broker.block import FIELDS, Option, Reply, Request
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.destinations import (
    Destination,
    InConversation,
    Temporary,
    ToService,
    ToTopic,
    parse_destination,
)
from oms_journal.broker.server.runtime.limits import StompLimits
from oms_journal.broker.server.stomp.flow import Flow
from oms_journal.broker.server.stomp.foreign import check_is_single
from oms_journal.broker.server.stomp.frames import V10, V12, Frame
from oms_journal.broker.server.stomp.losses import Losses, Subscriber
from oms_journal.broker.server.stomp.subscriptions import (
    ACK_MODES,
    AUTO,
    SETTLED,
    Acknowledged,
    ConversationSource,
    Feed,
    FeedSource,
    InFlight,
    ServiceSource,
    StompSubscription,
    TopicSource,
)
from oms_journal.broker.server.stomp.transactions import Transaction, TransactionAck

PREFETCH = ("prefetch-count", "activemq.prefetchSize")
NAMES = ("durable-subscription-name", "activemq.subscriptionName", "durable-subscriber-name")
TOKEN_BYTES_MAX = FIELDS["TOKEN"].width
Place = Destination | tuple[ToTopic, str]  # what an intake receives for: one subscription alone, to a topic


class Consumer:
    """What a connection receives."""

    def __init__(self, flow: Flow, losses: Losses) -> None:
        self.limits: StompLimits = flow.limits
        self._flow = flow
        self._losses = losses
        self._number = 0  # of the last message that was handed out
        self._flight: dict[int, InFlight] = {}  # by that number
        self._subscriptions: dict[str, StompSubscription] = {}
        self._intakes: dict[Place, Feed] = {}
        self._unwritten: list[InFlight] = []  # to be committed once their last message has left
        self._done = Acknowledged()  # of messages whose units are committed
        self._expected = 0  # conversations that are being begun, whose answers are to be awaited
        flow.on_end.append(self._stop)

    def _stop(self) -> None:
        for intake in dict.fromkeys(unit.intake for unit in self._flight.values()):
            self._losses.note(self._subscriber(intake))
        self.stop_receiving()
        self._flight, self._intakes, self._unwritten = {}, {}, []

    def _subscriber(self, intake: Feed) -> Subscriber:
        source = intake.source
        which = source.label if isinstance(source, TopicSource) else ""  # one of several to a topic
        return (*self._flow.speaker.user_and_token, f"{source.where}{which}")

    def stop_receiving(self) -> None:
        """Receive nothing more; what was not written is given back with the rest."""
        for intake in self._intakes.values():
            intake.stop()
        self._intakes, self._unwritten = {}, []

    # SUBSCRIBE.

    def subscribe(self, frame: Frame) -> None:
        """Begin to receive from a destination, once all that was begun before is answered."""
        headers = frame.headers
        where = parse_destination(_needed(headers, "destination"))
        check_is_single(headers["destination"], "subscribe")
        id_ = headers.get("id") or (str(where) if self._flow.version == V10 else _needed(headers, "id"))
        if id_ in self._subscriptions:
            raise refuse(Code.INVALID_OPTION, f"there is a subscription {id_[:80]!r} already")
        if len(self._subscriptions) >= self.limits.subscriptions:
            raise refuse(Code.QUEUE_FULL, f"at most {self.limits.subscriptions:,} subscriptions")
        ack = headers.get("ack", AUTO)
        if ack not in ACK_MODES:
            raise refuse(Code.INVALID_OPTION, f"ack:{ack[:40]} is none of {', '.join(ACK_MODES)}")
        subscription = StompSubscription(id_, ack, self._prefetch(headers))
        is_durable, name = _is_durable(headers), _name(headers)
        if is_durable and not isinstance(where, ToTopic):
            raise refuse(Code.INVALID_OPTION, "durable goes with a topic; what is sent to a service is kept anyway")
        if isinstance(where, ToTopic):
            label = (name and f"/{name}") if is_durable else f"\0{id_}"
            if is_durable:
                self._check_name(where, label)
            topic = TopicSource(self._flow.speaker, where, label, is_durable=is_durable)
            self._flow.when_settled(lambda: self._receive_from((where, id_), topic, subscription, frame))
        else:
            self._flow.when_settled(lambda: self._begin(frame, subscription, where))

    def _check_name(self, where: ToTopic, label: str) -> None:
        """Refuse a durable subscription that this connection has already, or a name that is none. BrokerError."""
        token = self._flow.speaker.token + label
        if not token.isprintable():
            raise refuse(Code.INVALID_CHARACTER, "the name of a durable subscription is not text")
        if len(token.encode()) > TOKEN_BYTES_MAX:
            text = f"client-id and name of a durable subscription, {token[:80]!r}, have at most {TOKEN_BYTES_MAX} bytes"
            raise refuse(Code.OUT_OF_RANGE, text)
        for each in self._intakes.values():
            source = each.source
            if isinstance(source, TopicSource) and source.is_durable and (source.where, source.label) == (where, label):
                text = f"this connection has that durable subscription to {where} already; name another one {NAMES[0]}"
                raise refuse(Code.INVALID_OPTION, text)

    def _prefetch(self, headers: Mapping[str, str]) -> int:
        text = next((headers[name] for name in PREFETCH if name in headers), None)
        if text is None:
            return self.limits.prefetch
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
            raise refuse(Code.INVALID_NUMBER, f"prefetch-count {text[:40]!r} is no number of messages")
        return min(int(text), self.limits.prefetch_max)

    def _begin(
        self, frame: Frame, subscription: StompSubscription, where: ToService | InConversation | Temporary
    ) -> None:
        if isinstance(where, Temporary):
            self._subscriptions[subscription.id] = subscription
            subscription.label = where.label
            for each in self._intakes.values():
                if each.label == where.label:
                    each.take_over(subscription)
            for known in list(self._subscriptions.values()):
                if known.is_automatic and known.label == where.label:
                    del self._subscriptions[known.id]
            self._flow.receipt(frame)
            self._flow.go_on()
            return
        speaker = self._flow.speaker
        source = ServiceSource(speaker, where) if isinstance(where, ToService) else ConversationSource(speaker, where)
        self._receive_from(where, source, subscription, frame)

    def _receive_from(self, place: Place, source: FeedSource, subscription: StompSubscription, frame: Frame) -> None:
        """Receive for a subscription, together with others to the same place."""
        self._subscriptions[subscription.id] = subscription
        known = self._intakes.get(place)
        intake = self._intakes[place] = known or Feed(self._flow, self, source)
        if known is None:
            intake.gets_one_at_a_time = self._losses.gets_one_at_a_time(self._subscriber(intake))

        def begun(_: Reply | None = None) -> None:
            intake.add(subscription)
            self._flow.receipt(frame)
            self._flow.go_on()

        request = source.begin() if known is None else None
        if request is None:
            begun()
        else:
            self._flow.ask(request, begun, frame)

    # Answers.

    def expect_answers(self) -> None:
        """Keep a place for the answers of one more conversation, before anything is sent in it.

        Where none is left the one is given up whose last answer came first: further answers in that conversation wait
        for a SUBSCRIBE to it. BrokerError where so many are still to be answered.
        """
        awaited = [intake for intake in self._intakes.values() if intake.label]
        if len(awaited) + self._expected >= self.limits.replies:
            done = next((each for each in awaited if each.is_answered and not self._has_in_flight(each)), None)
            if done is None:
                text = f"at most {self.limits.replies:,} conversations of a connection are without an answer"
                raise refuse(Code.QUEUE_FULL, text)
            self.is_over(done)
        self._expected += 1

    def expect_no_answers(self) -> None:
        """Let a place go that was kept."""
        self._expected -= 1

    def is_awaiting(self, conv_id: str) -> bool:
        """Say whether answers in the conversation are awaited; from now on they are as if it had not been answered."""
        intake = self._intakes.get(InConversation(conv_id))
        if intake is not None:
            intake.is_answered = False
        return intake is not None

    def _has_in_flight(self, intake: Feed) -> bool:
        units = (*self._flight.values(), *self._unwritten)
        return intake.current is not None or any(unit.intake is intake for unit in units)

    def _answered(self, intake: Feed) -> None:
        """Note that an answer has arrived for good: of those that are awaited its conversation is the newest now."""
        source = intake.source
        if intake.label and isinstance(source, ConversationSource) and self._intakes.get(source.where) is intake:
            intake.is_answered = True
            self._intakes[source.where] = self._intakes.pop(source.where)

    def await_answers(self, label: str, conv_id: str, correlation: str) -> None:
        """Hand out what is answered in the conversation, as from /temp/LABEL."""
        where = InConversation(conv_id)
        if not conv_id or where in self._intakes:
            return
        intake = self._intakes[where] = Feed(self._flow, self, ConversationSource(self._flow.speaker, where))
        intake.label, intake.correlation = label, correlation
        subscription = self._subscribed_to(label)
        if subscription is None:
            subscription = StompSubscription(str(Temporary(label)), AUTO, self.limits.prefetch)
            subscription.label, subscription.is_automatic = label, True
            self._subscriptions[subscription.id] = subscription
        intake.add(subscription)

    def _subscribed_to(self, label: str) -> StompSubscription | None:
        return next((each for each in self._subscriptions.values() if each.label == label), None)

    def subscription_to(self, label: str) -> str:
        """Return the id of the subscription that answers from /temp/LABEL go to."""
        found = self._subscribed_to(label)
        return str(Temporary(label)) if found is None else found.id

    # UNSUBSCRIBE.

    def unsubscribe(self, frame: Frame) -> None:
        """Receive no longer: what is in flight is given back. With `durable:true` a subscription is forgotten."""
        headers = frame.headers
        id_ = headers.get("id") or _needed(headers, "id" if self._flow.version != V10 else "destination")
        subscription = self._subscriptions.get(id_)
        if subscription is None:
            raise refuse(Code.UOW_NOT_FOUND, f"there is no subscription {id_[:80]!r}")
        forgets = _is_durable(headers)
        self._flow.when_settled(lambda: self._leave(frame, subscription, forgets=forgets))

    def _leave(self, frame: Frame, subscription: StompSubscription, *, forgets: bool) -> None:
        """Give back what is in flight, and end the last one. The first counts, as where a connection is lost.

        DEREGISTER gives back by itself, and counts likewise.
        """
        del self._subscriptions[subscription.id]
        requests: list[Request] = []
        for where, intake in list(self._intakes.items()):
            if subscription in intake.subscriptions:
                given_back = self._taken_back(intake, subscription, is_untried=bool(requests))
                intake.remove(subscription)
                if intake.subscriptions or not isinstance(intake.source, ServiceSource):
                    requests += given_back
                if not intake.subscriptions:
                    del self._intakes[where]
                    source = intake.source
                    end = source.forget() if forgets and isinstance(source, TopicSource) else source.end()
                    if end is not None:
                        requests.append(end)

        def left() -> None:
            self._flow.receipt(frame)
            self._flow.go_on()

        self._flow.ask_all(requests, left, frame)

    def _taken_back(self, intake: Feed, subscription: StompSubscription, *, is_untried: bool) -> list[Request]:
        """Return the calls that give back what is in flight to a subscription; none of them counts, or the first."""
        current = [intake.current] if intake.current is not None else []
        units = dict.fromkeys([*self._flight.values(), *current])
        mine = [unit for unit in units if unit.intake is intake and unit.subscription is subscription]
        for unit in mine:
            self.forget(unit)
        settle = intake.source.settle
        return [settle(Option.BACKOUT, unit.id, is_untried=is_untried or at > 0) for at, unit in enumerate(mine)]

    # What intakes do.

    def number(self) -> int:
        """Return the number of the next message that is handed out."""
        self._number += 1
        return self._number

    def answer_number(self) -> int:
        """Return the number of a MESSAGE that is no message of a unit: there is nothing to be acknowledged."""
        number = self.number()
        self._done.add(number)
        return number

    def hand_out(self, frame: Frame, number: int, unit: InFlight) -> None:
        """Send a message."""
        self._flight[number] = unit
        self._flow.outlet.hand_out(frame)

    def handed_out_last(self, unit: InFlight) -> None:
        """Commit the unit once its messages have left."""
        self._unwritten.append(unit)

    def written(self) -> None:
        """All that was said has left: what needs no ACK is done, and there is room for more."""
        units, self._unwritten = self._unwritten, []
        for unit in units:
            self._commit(unit, lambda: None, None)
        for intake in list(self._intakes.values()):
            intake.go_on()

    def is_over(self, intake: Feed) -> None:
        """A conversation is over."""
        self._intakes = {where: each for where, each in self._intakes.items() if each is not intake}
        for subscription in list(intake.subscriptions):
            intake.remove(subscription)
            if subscription.is_automatic and not any(each.label == intake.label for each in self._intakes.values()):
                self._subscriptions.pop(subscription.id, None)

    # ACK and NACK.

    def acknowledge(self, frame: Frame, transaction: Transaction | None) -> None:
        """Take an ACK or a NACK."""
        number = self._acknowledged(frame)
        unit = self._flight.get(number)
        taken: list[tuple[int, InFlight]] = []
        if unit is not None and unit.subscription.ack != AUTO:
            taken = unit.subscription.take(number)
        is_nack = frame.command == "NACK"
        if not taken:
            self._acknowledge_again(frame, number, transaction)
            return
        if transaction is not None:
            if unit is not None:
                transaction.taken.append(TransactionAck(unit.subscription, taken, is_nack=is_nack))
            self._flow.receipt(frame)
        elif is_nack:
            self.refuse_units(dict.fromkeys(each for _, each in taken))
            self._flow.receipt(frame)
        else:
            self._commit_all([each for at, each in taken if at == each.last], frame)
        if unit is not None:
            unit.intake.go_on()

    def _acknowledge_again(self, frame: Frame, number: int, transaction: Transaction | None) -> None:
        """Say the RECEIPT of what is so already. BrokerError for what is otherwise, and matters to the client.

        Without a receipt an ACK of what was given back is ignored: a client may have sent it before it knew.
        """
        unit = self._flight.get(number)
        is_acknowledged = unit is not None or number in self._done
        if is_acknowledged is (frame.command == "ACK"):
            if unit is None or not unit.is_gone:
                self._flow.receipt(frame)
            else:
                self._flow.when_settled(lambda: self._say_settled(frame))  # its commit is under way
            return
        if transaction is not None:
            transaction.is_lost = True
        if "receipt" in frame.headers:
            raise was_settled(is_acknowledged=is_acknowledged)

    def _say_settled(self, frame: Frame) -> None:
        self._flow.receipt(frame)
        self._flow.go_on()

    def has_lost(self, transaction: Transaction) -> bool:
        """Say whether something that the transaction has acknowledged was given back."""
        return transaction.is_lost or any(number not in self._done for number in transaction.gone())

    def _acknowledged(self, frame: Frame) -> int:
        """Return the number of the message that the frame is about."""
        name = "id" if self._flow.version == V12 else "message-id"
        text = _needed(frame.headers, name)
        _, _, digits = text.rpartition("-")
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else 0
        if not 0 < number <= self._number:
            text = (
                f"Message not found: {frame.command} names the {name} {text[:80]!r}, which this connection did not get"
            )
            raise BrokerError(Code.UOW_NOT_FOUND, text)
        return number

    def _commit_all(self, units: list[InFlight], frame: Frame) -> None:
        left = len(units)
        if not left:
            self._flow.receipt(frame)

        def committed() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._flow.receipt(frame)

        for unit in units:
            self._commit(unit, committed, frame)

    def _commit(self, unit: InFlight, then: Callable[[], None], frame: Frame | None) -> None:
        if unit.is_gone:
            then()
            return
        unit.is_gone = True

        def committed() -> None:
            self._is_done(unit)
            then()
            unit.intake.go_on()

        self._settle(unit.intake.source.settle(Option.COMMIT, unit.id), committed, frame)

    def _settle(self, request: Request, then: Callable[[], None], frame: Frame | None) -> None:
        """Make a call about a unit; when it is about an ACK it must be the one that settles it."""
        self._flow.ask(request, lambda _: then(), frame, allowed=SETTLED if frame is None else frozenset())

    def committed(self, units: list[InFlight]) -> None:
        """Units were committed with a transaction."""
        for unit in units:
            self._is_done(unit)
            unit.intake.go_on()

    def _is_done(self, unit: InFlight) -> None:
        for number in unit.numbers:
            self._done.add(number)
        self.forget(unit)
        self._losses.forget(self._subscriber(unit.intake))
        unit.intake.gets_one_at_a_time = False
        self._answered(unit.intake)

    def refuse_units(self, units: Mapping[InFlight, None] | list[InFlight]) -> None:
        """Give units back; when they come again the broker knows."""
        for unit in units:
            self.forget(unit)
            self._settle(unit.intake.source.settle(Option.BACKOUT, unit.id), unit.intake.go_on, None)
            unit.intake.go_on()

    def forget(self, unit: InFlight) -> None:
        """Know a unit no longer as one that is in flight."""
        unit.intake.let_go(unit)
        for number in unit.numbers:
            self._flight.pop(number, None)


def was_settled(*, is_acknowledged: bool) -> BrokerError:
    """Return the refusal of a NACK of what is acknowledged, or of an ACK of what was given back."""
    gone, again = "the NACK is too late: it was acknowledged", "the ACK is too late: it was given back, and comes again"
    return BrokerError(Code.UOW_NOT_FOUND, f"Message not found: {gone if is_acknowledged else again}")


def _name(headers: Mapping[str, str]) -> str:
    """Return the name of a durable subscription, "" where it has none of its own."""
    return next((headers[each] for each in NAMES if headers.get(each)), "")


def _is_durable(headers: Mapping[str, str]) -> bool:
    return headers.get("durable", "").lower() == "true" or bool(_name(headers))


def _needed(headers: Mapping[str, str], name: str) -> str:
    found = headers.get(name, "")
    if not found:
        raise refuse(Code.INVALID_OPTION, f"the header {name} is missing")
    return found
