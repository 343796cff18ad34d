"""The transition table over calls of a real kernel: every status, every event, every variation of persistence."""

from collections.abc import Callable, Mapping

from oms_journal.broker.block import Function, Option, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.unit_states import GONE, VARIATIONS, Event, Variation, after
from oms_journal.broker.records import Status
from tests.support.broker.kernel_desk import Desk, Person, Said, attributes
from tests.support.sweeps import for_each

COMMIT, SYNC = Option.COMMIT, Option.SYNC
LIFETIME, STATUS_LIFETIME, DELAY, CONVERSATION = 50, 100, 30, 1000  # seconds


class Game:
    """One unit of work of one variation, brought into a status."""

    def __init__(self, variation: Variation, *, is_reply: bool = False) -> None:
        self.desk = Desk(
            attributes(
                postpone_attempts="1",
                max_delivery_count="1",
                postpone_delay=f"{DELAY}S",
                conv_nonact="1000S",
                client_nonact="UNLIM",
                server_nonact="UNLIM",
            )
        )
        self.white, self.black = Person(self.desk, "WHITE", "T"), Person(self.desk, "BLACK", "T", caller=2)
        self.black.register()
        self.sender, self.receiver, self.conv_id = self.white, self.black, "NEW"
        if is_reply:
            self.conv_id = self._begun()
            self.sender, self.receiver = self.black, self.white
        self.variation = variation
        self.sent: Said | None = None

    def _begun(self) -> str:
        """Return a conversation in which the server can answer."""
        opening = self.white.send(b"opening", store=Store.OFF, uwstatp=255)
        self.black.receive()
        self.black.sync(COMMIT, opening.uowid)
        return opening.conv_id

    def send(self) -> Said:
        store = Store.BROKER if self.variation.uow else Store.OFF
        uwstatp = 2 if self.variation.status else 255
        conv_id = self.conv_id if self.sent is None else self.sent.conv_id
        return self.sender.send(b"x", SYNC, conv_id, store=store, uwstatp=uwstatp, uwtime=f"{LIFETIME}S")

    def bring_to(self, status: Status) -> None:
        self.sent = self.send()
        if status is Status.RECEIVED:
            return
        if status is Status.BACKEDOUT:
            self.by_sender(Option.BACKOUT)
            return
        self.by_sender(COMMIT)
        if status is Status.CANCELLED:
            self.by_sender(Option.CANCEL)
        elif status is Status.TIMEOUT:
            self.desk.tick(LIFETIME)
        elif status is not Status.ACCEPTED:
            self.receive()
            if status is Status.PROCESSED:
                self.by_receiver(COMMIT)
            elif status is Status.POSTPONED:
                self.by_receiver(Option.BACKOUT)

    def receive(self) -> Said:
        return self.receiver.receive(self.conv_id)

    @property
    def uowid(self) -> str:
        assert self.sent is not None
        return self.sent.uowid

    def status(self) -> Status | None:
        said = self.by_sender(Option.QUERY)
        if said.code is Code.UOW_NOT_FOUND:
            return None
        assert said.code is Code.OK and isinstance(said.status, Status)
        return said.status

    def by_receiver(self, option: Option) -> Said:
        return self.receiver.sync(option, self.uowid)

    def by_sender(self, option: Option) -> Said:
        return self.sender.sync(option, self.uowid)


SENDERS: Mapping[Event, Option] = {
    Event.COMMIT: COMMIT,
    Event.BACKOUT: Option.BACKOUT,
    Event.CANCEL: Option.CANCEL,
    Event.DELETE: Option.DELETE,
    Event.SETUSTATUS: Option.SETUSTATUS,
}
RECEIVERS: Mapping[Event, Option] = {
    Event.RECEIVER_COMMIT: COMMIT,
    Event.RECEIVER_CANCEL: Option.CANCEL,
    Event.RECEIVER_BACKOUT: Option.BACKOUT,
}
REACHED = [status for status in Status if status is not Status.DISCARDED]  # that one takes a restart


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("event", SENDERS)
@for_each("status", REACHED)
def test_what_the_sender_does_follows_the_table(
    status: Status, event: Event, variation: Variation, is_reply: bool
) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    said = game.by_sender(SENDERS[event])
    expected = after(status, event, variation)
    if isinstance(expected, Code):
        assert said.code is expected
        if expected is Code.WRONG_STATUS:
            assert game.status() is status, "a call that is refused changes nothing"
    else:
        assert said.code is Code.OK
        assert game.status() is (None if expected is GONE else expected)


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("event", RECEIVERS)
@for_each("status", REACHED)
def test_what_the_receiver_does_follows_the_table(
    status: Status, event: Event, variation: Variation, is_reply: bool
) -> None:
    game = Game(variation, is_reply=is_reply)
    game.desk.kernel.world.service(("GAME", "CHESS", "BLACK"))
    game.bring_to(status)
    said = game.by_receiver(RECEIVERS[event])
    if status is Status.DELIVERED:
        event = Event.POSTPONE if event is Event.RECEIVER_BACKOUT else event  # one attempt is enough here
        expected = after(status, event, variation)
        assert said.code is Code.OK
        assert game.status() is (None if expected is GONE else expected)
    else:
        assert said.code in (Code.NOT_THE_CREATOR, Code.WRONG_STATUS, Code.UOW_NOT_FOUND)
        assert game.status() is (status if variation.status or said.code is not Code.UOW_NOT_FOUND else None)


TIMES: Mapping[Event, int] = {
    Event.LIFETIME_OVER: LIFETIME,
    Event.STATUS_LIFETIME_OVER: LIFETIME * 2,
    Event.DELAY_OVER: DELAY,
    Event.CONVERSATION_OVER: CONVERSATION,
}


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("status", REACHED)
def test_time_does_what_the_table_says(status: Status, variation: Variation, is_reply: bool) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    expected: Status | None = status if variation.status or game.status() is not None else None

    game.desk.tick(DELAY)
    if status is Status.POSTPONED:
        expected = Status.ACCEPTED
    assert game.status() is expected

    game.desk.tick(LIFETIME - DELAY)
    if expected is Status.ACCEPTED:
        expected = Status.TIMEOUT if variation.status else None
    assert game.status() is expected, "a lifetime runs out in ACCEPTED and nowhere else"

    game.desk.tick(STATUS_LIFETIME)
    if expected not in (Status.RECEIVED, Status.DELIVERED):
        expected = None
    assert game.status() is expected, "a status is kept for a multiple of the lifetime"

    game.desk.tick(CONVERSATION)
    game.desk.tick(1)
    if expected is Status.RECEIVED:
        expected = Status.BACKEDOUT if variation.status else None
    assert game.status() is expected, "only a time-out of the conversation ends what was not committed"


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("status", REACHED)
def test_a_receive_gets_what_is_accepted_and_nothing_else(status: Status, variation: Variation, is_reply: bool) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    said = game.receive()
    assert (said.code is Code.OK) == (status is Status.ACCEPTED)
    if status is Status.ACCEPTED:
        assert game.status() is Status.DELIVERED


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("status", REACHED)
def test_another_send_goes_into_what_is_not_committed_and_else_begins_another(
    status: Status, variation: Variation, is_reply: bool
) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    said = game.send()
    assert said.code is Code.OK
    assert (said.uowid == game.uowid) == (status is Status.RECEIVED)


def _eoc(game: Game) -> Said:
    return game.by_sender(Option.EOC)


def _eoc_cancel(game: Game) -> Said:
    return game.by_sender(Option.EOCCANCEL)


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("ask", [_eoc, _eoc_cancel])
@for_each("status", REACHED)
def test_eoc_is_a_commit_by_the_sender(
    status: Status, ask: Callable[[Game], Said], variation: Variation, is_reply: bool
) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    said = ask(game)
    assert (said.code is Code.OK) == (status is Status.RECEIVED)
    if status is Status.RECEIVED:
        assert game.status() is Status.ACCEPTED
        assert game.receive().body == b"x"
        assert game.by_receiver(Option.EOC).code is Code.NOT_THE_CREATOR


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("status", REACHED)
def test_who_leaves_leaves_nothing_half_done(status: Status, variation: Variation, is_reply: bool) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    before = game.status()
    game.receiver.call(Function.LOGOFF)
    expected = Status.POSTPONED if status is Status.DELIVERED else before
    assert game.status() is expected
    game.sender.call(Function.LOGOFF)
    again = Person(game.desk, game.sender.who["user_id"], "T", caller=7)
    said = again.sync(Option.QUERY, game.uowid)
    if status is Status.RECEIVED:
        expected = Status.BACKEDOUT if variation.status else None
    assert said.status is expected
