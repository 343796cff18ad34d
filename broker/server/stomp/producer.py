"""SEND of a STOMP connection, and its transactions: BEGIN, COMMIT and ABORT.

SEND outside of a transaction is a unit of work of one message, committed. It ends its conversation with it, unless an
answer is wanted or the conversation was named. In a transaction all SENDs to one destination are one unit of work.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.block import NEW, Function, Option, Reply, Store
from oms_journal.broker.codes import Code, refuse
from oms_journal.broker.destinations import InConversation, Temporary, ToService, ToTopic, parse_destination
from oms_journal.broker.server.stomp.consumer import Consumer, was_settled
from oms_journal.broker.server.stomp.flow import Flow
from oms_journal.broker.server.stomp.foreign import check_is_single
from oms_journal.broker.server.stomp.frames import Frame
from oms_journal.broker.server.stomp.headers import TEMPORARY, conversation_header, properties_of, terms_of
from oms_journal.broker.server.stomp.transactions import Transaction, TransactionUnit, unit_key


@dataclass(slots=True)
class ParsedSend:
    """A SEND, taken apart."""

    frame: Frame
    where: object
    function: Function
    to: dict[str, Any]  # the fields that say where it goes
    beside: dict[str, Any]  # what goes with it
    ends: bool = False  # its conversation
    label: str = ""  # where the answers are wanted
    correlation: str = ""

    @property
    def conv_id(self) -> str:
        """The conversation that it goes into; "" for a new one, and for a publication."""
        conv_id = str(self.to.get("conv_id", NEW))
        return "" if conv_id.upper() == NEW else conv_id


def parse_send(frame: Frame) -> ParsedSend:
    """Return what a SEND says. BrokerError."""
    headers = frame.headers
    text = headers.get("destination")
    if text is None:
        raise refuse(Code.INVALID_SERVICE_NAME, "the header destination is missing")
    where = parse_destination(text)
    check_is_single(text, "send")
    conv_id = conversation_header(headers, where)
    properties = properties_of(headers, names_conversation=conv_id is not None)
    beside: dict[str, Any] = {} if properties is None else {"properties": properties}
    if isinstance(where, ToTopic):
        to: dict[str, Any] = {"topic": where.topic, "publication_id": NEW}
        if "user-status" in headers:
            beside["ustatus"] = headers["user-status"]
        return ParsedSend(frame, where, Function.SEND_PUBLICATION, to, beside)
    if isinstance(where, Temporary):
        raise refuse(Code.INVALID_SERVICE_NAME, "only the answers to this connection come from /temp")
    beside.update(terms_of(headers))
    reply_to = headers.get("reply-to", "")
    label = reply_to.removeprefix(TEMPORARY) if reply_to.startswith(TEMPORARY) else ""
    correlation = headers.get("correlation-id", "") if label else ""
    if isinstance(where, InConversation):
        return ParsedSend(frame, where, Function.SEND, {"conv_id": where.conv_id}, beside, False, label, correlation)
    server_class, server_name, service = where.names
    to = {
        "conv_id": NEW,
        "server_class": server_class,
        "server_name": server_name,
        "service": service,
    }
    return ParsedSend(frame, where, Function.SEND, to, beside, not (label or conv_id), label, correlation)


class Producer:
    """What a connection sends."""

    def __init__(self, flow: Flow, consumer: Consumer, attributes: Attributes) -> None:
        self._flow = flow
        self._consumer = consumer
        self._attributes = attributes
        self._transactions: dict[str, Transaction] = {}
        self._sending: dict[str, Transaction] = {}  # by the conversation that one sends in
        flow.on_end.append(self._transactions.clear)

    def transaction(self, frame: Frame) -> Transaction | None:
        """Return the transaction that the frame belongs to, None for none."""
        name = frame.headers.get("transaction")
        if name is None:
            return None
        found = self._transactions.get(name)
        if found is None:
            raise refuse(Code.UOW_NOT_FOUND, f"there is no transaction {name[:80]!r}")
        return found

    # SEND.

    def send(self, frame: Frame) -> None:
        """Send a message, or add it to a transaction."""
        transaction = self.transaction(frame)
        sent = parse_send(frame)
        if transaction is not None or "receipt" in frame.headers:
            self._check_is_stored(sent)
        other = self._sending.get(sent.conv_id) if self._sending else None
        if other is not None and other is not transaction:
            raise refuse(Code.WRONG_UOW_TYPE, f"transaction {other.name!r} sends in this conversation")
        if transaction is not None:
            self._add(transaction, sent)
            return

        is_expected = self._expects(sent)

        def done(reply: Reply) -> None:
            if is_expected:
                self._consumer.expect_no_answers()
            if sent.label:
                self._consumer.await_answers(sent.label, reply.conv_id, sent.correlation)
            self._flow.receipt(frame, reply)

        option = Option.EOC if sent.ends else Option.COMMIT
        request = self._flow.speaker.request(sent.function, option, body=frame.body, **sent.to, **sent.beside)
        self._flow.ask(request, done, frame)

    def _check_is_stored(self, sent: ParsedSend) -> None:
        """Refuse a message that would get a receipt and be gone with the broker, where nobody has asked for that.

        BrokerError: 00200229.
        """
        if sent.function is not Function.SEND or sent.beside.get("store") == Store.OFF:
            return
        names = sent.where.names if isinstance(sent.where, ToService) else None
        unsaid = self._attributes.unsaid(*names or ("", "", ""))
        if unsaid and (names or unsaid == "PSTORE"):
            text = (
                f"it would not be stored: the broker's attributes do not say {unsaid}; persistent:false asks for that"
            )
            raise refuse(Code.INVALID_STORE, text)

    def _expects(self, sent: ParsedSend) -> bool:
        """Keep a place for the answers, if they are wanted and not awaited already. BrokerError where there is none."""
        is_awaiting = bool(sent.conv_id) and self._consumer.is_awaiting(sent.conv_id)
        if is_awaiting or not sent.label:
            return False
        self._consumer.expect_answers()
        return True

    def _add(self, transaction: Transaction, sent: ParsedSend) -> None:
        """Add a message to what a transaction sends there."""
        transaction.size += len(sent.frame.body)
        if sum(each.size for each in self._transactions.values()) > self._flow.limits.transaction_bytes:
            text = f"open transactions hold at most {self._flow.limits.transaction_bytes:,} bytes"
            raise refuse(Code.LENGTH_EXCEEDED, text)
        key = unit_key(sent.where, sent.to, sent.label)
        out = transaction.outgoing.get(key)
        if out is None:
            out = transaction.outgoing[key] = TransactionUnit(
                function=sent.function,
                to=sent.to,
                ends=sent.ends,
                label=sent.label,
                correlation=sent.correlation,
                is_expected=self._expects(sent),
            )
            if sent.conv_id:
                self._sending[sent.conv_id] = transaction
        transaction.unanswered += 1
        add = self._adder(transaction, out, sent)
        if out.is_asked and not out.is_known:
            out.waiting.append(add)
        else:
            out.is_asked = True
            add()

    def _adder(self, transaction: Transaction, out: TransactionUnit, sent: ParsedSend) -> Callable[[], None]:
        """Return what adds the message, once it is known to what."""

        def add() -> None:
            self._flow.ask(out.adding(self._flow.speaker, sent.frame.body, sent.beside), added, sent.frame)

        def added(reply: Reply) -> None:
            transaction.unanswered -= 1
            for waiting in out.learn(reply):
                waiting()
            self._flow.receipt(sent.frame, reply)

        return add

    # BEGIN, COMMIT and ABORT.

    def begin(self, frame: Frame) -> None:
        """Begin a transaction."""
        name = _name(frame.headers)
        if name in self._transactions:
            raise refuse(Code.WRONG_STATUS, f"there is a transaction {name[:80]!r} already")
        if len(self._transactions) >= self._flow.limits.transactions:
            raise refuse(Code.QUEUE_FULL, f"at most {self._flow.limits.transactions} transactions at a time")
        self._transactions[name] = Transaction(name, self._flow.speaker)
        self._flow.receipt(frame)

    def commit(self, frame: Frame) -> None:
        """Commit a transaction, once the broker has taken all of it."""
        _name(frame.headers)
        transaction = self.transaction(frame)
        assert transaction is not None, "it has a name"
        self._flow.when_settled(lambda: self._commit(transaction, frame))

    def _commit(self, transaction: Transaction, frame: Frame) -> None:
        if self._consumer.has_lost(transaction):
            lost = was_settled(is_acknowledged=False)
            self._flow.fail(lost.code, lost.text, frame)
            return
        units, refused = transaction.acknowledged(), transaction.refused()

        def committed(reply: Reply | None = None) -> None:
            self._consumer.committed(units)
            self._consumer.refuse_units(refused)
            self._expect_no_more(transaction)
            for out in transaction.outgoing.values():
                if out.label:
                    self._consumer.await_answers(out.label, out.conv_id, out.correlation)
            self._flow.receipt(frame)

        request = transaction.commit()
        self._forget(transaction)
        for unit in units:
            unit.is_gone = True
        if request is None:
            committed()
        else:
            self._flow.ask(request, committed, frame)
        self._flow.go_on()

    def abort(self, frame: Frame) -> None:
        """Take back what a transaction has sent; what it has acknowledged is in flight again."""
        _name(frame.headers)
        transaction = self.transaction(frame)
        assert transaction is not None, "it has a name"

        def abort() -> None:
            self._forget(transaction)
            self._expect_no_more(transaction)
            for taken in transaction.taken:
                taken.subscription.put_back(taken.messages)
            self._flow.ask_all(transaction.back_outs(), aborted, frame)

        def aborted() -> None:
            self._flow.receipt(frame)
            self._flow.go_on()

        self._flow.when_settled(abort)

    def _expect_no_more(self, transaction: Transaction) -> None:
        for out in transaction.outgoing.values():
            if out.is_expected:
                self._consumer.expect_no_answers()

    def _forget(self, transaction: Transaction) -> None:
        del self._transactions[transaction.name]
        self._sending = {conv_id: each for conv_id, each in self._sending.items() if each is not transaction}


def _name(headers: Mapping[str, str]) -> str:
    name = headers.get("transaction", "")
    if not name:
        raise refuse(Code.INVALID_OPTION, "the header transaction is missing")
    return name
