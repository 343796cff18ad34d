"""The embedded broker, for threads and for asyncio, on both drivers: units of work, restarts, the store's beginning."""

import logging
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.block import BOTH, Function, Option, Reception, Request
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.sqlite import SqliteStore
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import CHECKPOINTS, Status
from oms_journal.broker.sessions.requests import lifetime_text, wait_text
from oms_journal.broker.sessions.sessions import Session
from oms_journal.broker.store.start import StartRefused
from tests.support.broker.embedded import HERE, KINDS, SERVICE, Kind, bodies, kind_of, refused
from tests.support.sweeps import a_sample, takes_turns

pytestmark = takes_turns(3, "any_kind", "kind")

LOGON = {"function": Function.LOGON, "user_id": "ALICE", "token": "PC1"}


@pytest.fixture(params=HERE)
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    with kind_of(request.param) as found:
        yield found


@pytest.fixture(params=KINDS)
def any_kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    with kind_of(request.param) as found:
        yield found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def broker(any_kind: Kind, directory: Path) -> Iterator[Broker]:
    with any_kind.open(directory) as found:
        yield found


@pytest.fixture
def alice(broker: Broker) -> Iterator[Session]:
    with broker.session("ALICE", token="PC1") as session:
        yield session


@pytest.fixture
def bob(broker: Broker) -> Iterator[Session]:
    with broker.session("BOB", token="S1") as session:
        session.register(SERVICE)
        yield session


# The one entrance.


def test_a_call_is_answered_with_a_control_block_and_never_raises(broker: Broker) -> None:
    caller = broker.new_caller()

    assert broker.call(Request(**LOGON), caller=caller).reply.code is Code.OK  # type: ignore[arg-type]
    odd = broker.call(Request(function=99), caller=caller)  # type: ignore[arg-type]
    assert odd.reply.code is Code.INVALID_FUNCTION
    stranger = broker.call(Request(function=Function.SYNCPOINT, option=Option.LAST, user_id="EVE"), caller=caller)
    assert stranger.reply.code is Code.LOGON_REQUIRED


def test_plain_numbers_mean_what_the_members_of_the_enumerations_do(broker: Broker, alice: Session) -> None:
    given = alice._speaker.send(Option.COMMIT, alice._speaker.to(SERVICE, None), b"x", {})
    given.function, given.option, given.store = 1, 10, 2  # type: ignore[assignment]
    assert alice.ask(given).reply.uow_status is Status.ACCEPTED
    given.option, given.store = 99, 9  # type: ignore[assignment]
    assert alice.ask(given).reply.code in (Code.INVALID_OPTION, Code.INVALID_STORE)


@pytest.mark.parametrize("is_part", [False, True], ids=["alone", "part"])
def test_a_message_that_is_no_bytes_is_a_mistake_of_its_sender_and_of_nobody_else(
    broker: Broker, alice: Session, bob: Session, is_part: bool
) -> None:
    say = alice._speaker
    given = say.send(Option.COMMIT, say.to(SERVICE, None), "text", {})  # type: ignore[arg-type]
    if is_part:
        given = say.request(Function.SYNCPOINT, Option.COMMIT, uowid=BOTH, parts=[given])
    with pytest.raises(TypeError, match="body must be bytes, bytearray or memoryview, not str"):
        alice.ask(given)
    assert broker.is_store_connected
    alice.send(SERVICE, b"bytes")
    assert bodies(bob) == [b"bytes"]


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        *((None, "NO"), (0, "NO"), (False, "NO"), (True, "YES"), (1e-9, "0.001S"), (0.25, "0.25S"), (10, "10S")),
        *((100_000, "100000S"), (123_456.789, "123456S"), (1_200_000, "1200000S"), (1e7, "9999999S")),
        (float("inf"), "9999999S"),
    ],
)
def test_a_time_to_wait_is_written_as_the_block_has_it(wait: float | None, text: str) -> None:
    assert wait_text(wait) == text


@a_sample(8)
@pytest.mark.parametrize("wait", [-1, -0.001, float("-inf"), float("nan")])
def test_no_time_to_wait_is_less_than_none(bob: Session, wait: float) -> None:
    with pytest.raises(ValueError, match=f"wait must be a number of seconds, at least 0, not {wait}"):
        bob.receive_unit(wait=wait)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "1S"), (60, "60S"), (9_999_999, "9999999S"), (180 * 86400, "259200M"), (1e9 + 1, "277778H")],
)
def test_a_lifetime_in_seconds_is_written_in_a_unit_that_there_is_room_for(seconds: float, text: str) -> None:
    assert lifetime_text(seconds) == text


def test_who_asks_for_conversations_says_which(bob: Session) -> None:
    with pytest.raises(ValueError, match="not 'FIRST'"):
        bob.receive_unit(which="FIRST")


def test_the_lengths_of_the_block_are_kept(alice: Session, bob: Session) -> None:
    for _ in range(3):
        alice.send(SERVICE, b"0123456789")
    sizes = []
    for length in (0, 10, 4):
        receive = bob._speaker.receive(None, None, None, option=Option.SYNC)
        receive.receive_length, receive.errtext_length = length, 20
        reply, body, _ = bob.ask(receive)
        assert body is not None
        sizes.append((reply.code, reply.return_length, len(body), len(reply.text) <= 20))

    assert sizes == [(Code.OK, 10, 10, True), (Code.OK, 10, 10, True), (Code.TRUNCATED, 10, 4, True)]


def test_every_reply_names_the_partner_to_switch_over_to(kind: Kind) -> None:
    with kind.open(pstore="NO", partner_cluster_address="HOST2:1972:TCP") as broker:
        reply = broker.call(Request(**LOGON), caller=broker.new_caller()).reply  # type: ignore[arg-type]
        assert reply.partner_broker_id == "HOST2:1972:TCP"


# Units of work.


def test_a_message_arrives_with_all_that_goes_with_it(alice: Session, bob: Session) -> None:
    sent = alice.send(
        SERVICE, b"e4", properties={"move": "1"}, msgtype="MOVE", msgid=b"id", user_data=b"data", user_status="opening"
    )
    (unit,) = bob.receive_units()
    (message,) = unit

    assert sent.status is Status.ACCEPTED and sent.is_persistent and sent.service == ("GAME", "CHESS", "BLACK")
    assert (unit.uowid, unit.conv_id, unit.sender, unit.is_new) == (sent.uowid, sent.conv_id, "ALICE", True)
    assert (message.body, message.properties, message.reception) == (b"e4", {"move": "1"}, Reception.RECV_ONLY)
    assert (message.msgtype, message.msgid, message.user_data) == ("MOVE", b"id", b"data")
    assert (message.user_status, message.delivery_count) == ("opening", 0)
    assert len(sent.commit_time) == 17 and sent.commit_time == message.commit_time
    assert unit.commit().status is Status.PROCESSED
    with refused(Code.UOW_NOT_FOUND):
        alice.query(sent.uowid)


def test_a_unit_of_work_is_seen_when_it_is_committed_and_then_all_of_it(alice: Session, bob: Session) -> None:
    with alice.unit_of_work(SERVICE) as uow:
        for body in (b"1", b"2", b"3"):
            uow.send(body)
            assert bob.receive_unit() is None
    (unit,) = bob.receive_units()

    assert [(message.body, message.reception.name) for message in unit] == [
        (b"1", "RECV_FIRST"),
        (b"2", "RECV_MIDDLE"),
        (b"3", "RECV_LAST"),
    ]
    assert unit.is_read and list(unit) == []
    assert uow.status is not None and uow.status.status is Status.ACCEPTED and uow.uowid == unit.uowid


def test_an_exception_backs_out_what_is_sent_and_what_is_received(alice: Session, bob: Session) -> None:
    with pytest.raises(ZeroDivisionError), alice.unit_of_work(SERVICE, status_lifetimes=0, lifetime=60) as uow:
        uow.send(b"never")
        raise ZeroDivisionError
    assert not uow.is_open and bob.receive_unit() is None
    alice.send(SERVICE, b"again")
    for attempt in range(3):
        with pytest.raises(ZeroDivisionError):
            for unit in bob.receive_units(wait=30):
                with unit:
                    assert (next(iter(unit)).body, unit.delivery_count) == (b"again", attempt)
                    raise ZeroDivisionError
    last = bob.receive_unit(wait=30)
    assert last is not None and last.first.body == b"again"
    last.commit()


def test_a_unit_of_work_that_was_sent_can_be_asked_cancelled_and_forgotten(alice: Session) -> None:
    with alice.unit_of_work(SERVICE, lifetime=60, status_lifetimes=1) as uow:
        uow.send(b"x")
        assert uow.query().status is Status.RECEIVED
    assert uow.query().status is Status.ACCEPTED
    assert uow.cancel().status is Status.CANCELLED
    uow.delete()
    with refused(Code.UOW_NOT_FOUND):
        uow.query()


def test_a_unit_of_work_of_no_messages_is_none(alice: Session) -> None:
    with alice.unit_of_work(SERVICE) as uow:
        pass
    assert uow.uowid == "" and alice.last() is None


def test_a_commit_that_is_refused_leaves_nothing_of_its_block(alice: Session, bob: Session, broker: Broker) -> None:
    with refused(Code.UOW_NOT_PERSISTED), alice.unit_of_work(SERVICE) as uow:
        uow.send(b"x")
        broker.disconnect_pstore()
    assert not uow.is_open
    broker.connect_pstore()
    assert bodies(bob) == []


def test_an_answer_is_committed_with_what_it_answers(alice: Session, bob: Session) -> None:
    sent = alice.send(SERVICE, b"e4", lifetime="5M", status_lifetimes=4)
    for unit in bob.receive_units():
        with unit:
            unit.answer(b"e5")
            unit.answer(b"your move")
            assert alice.receive_unit(conv_id=sent.conv_id) is None

    assert alice.query(sent.uowid).status is Status.PROCESSED
    assert bodies(alice, conv_id=sent.conv_id) == [b"e5", b"your move"]


def test_an_answer_is_dropped_with_a_backout(alice: Session, bob: Session) -> None:
    sent = alice.send(SERVICE, b"e4")
    unit = bob.receive_unit()
    assert unit is not None
    unit.answer(b"oops")
    assert unit.backout().delivery_count == 1
    assert bodies(alice, conv_id=sent.conv_id) == []
    again = bob.receive_unit()
    assert again is not None and again.delivery_count == 1
    assert again.cancel().status is Status.CANCELLED


def test_a_service_that_is_none_is_refused_beside_a_conversation_too(alice: Session) -> None:
    sent = alice.send(SERVICE, b"e4")
    for call in (lambda: alice.send(5, b"", conv_id=sent.conv_id), lambda: alice.receive_unit(5, conv_id=sent.conv_id)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="service must be text"):
            call()


@a_sample(4)
@pytest.mark.parametrize("status", [5, "x" * 33])
def test_a_backout_that_is_refused_leaves_the_answer_open(alice: Session, bob: Session, status: Any) -> None:
    sent = alice.send(SERVICE, b"e4")
    unit = bob.receive_unit()
    assert unit is not None
    unit.answer(b"e5")
    for give_up in (unit.backout, unit.cancel):
        with pytest.raises((TypeError, BrokerError)):
            give_up(user_status=status)
    unit.commit()

    assert bodies(alice, conv_id=sent.conv_id) == [b"e5"]


def test_the_sender_asks_cancels_and_deletes(alice: Session, bob: Session) -> None:
    first = alice.send(SERVICE, b"1", status_lifetime="1H")
    second = alice.send(None, b"2", conv_id=first.conv_id, status_lifetime=60.5)
    last = alice.last()
    assert last is not None and last.uowid == second.uowid and alice.last(first.conv_id) == last
    assert alice.cancel(second.uowid).status is Status.CANCELLED
    with refused(Code.WRONG_STATUS):
        alice.cancel(second.uowid)
    assert alice.delete(second.uowid).status is Status.CANCELLED
    with refused(Code.UOW_NOT_FOUND):
        alice.query(second.uowid)
    assert bodies(bob) == [b"1"]


def test_an_operator_moves_and_removes_units_of_work(broker: Broker, alice: Session, bob: Session) -> None:
    first, second = alice.send(SERVICE, b"1", lifetime=60, status_lifetimes=1), alice.send(SERVICE, b"2")
    assert broker.set_uow_status(first.uowid, Status.CANCELLED).status is Status.CANCELLED
    assert alice.query(first.uowid).status is Status.CANCELLED
    assert broker.set_uow_status(second.uowid, Status.ACCEPTED).status is Status.ACCEPTED
    with refused(Code.WRONG_STATUS):
        broker.set_uow_status(second.uowid, Status.PROCESSED)
    for sent in (first, second):
        broker.purge(sent.uowid)
        with refused(Code.UOW_NOT_FOUND):
            broker.purge(sent.uowid)
    assert bodies(bob) == []


def test_the_user_status_is_told_both_ways(alice: Session, bob: Session) -> None:
    sent = alice.send(SERVICE, b"long work")
    unit = bob.receive_unit()
    assert unit is not None
    assert unit.set_user_status("50 %").user_status == "50 %"
    assert alice.query(sent.uowid).user_status == "50 %"
    alice.set_user_status(sent.uowid, "stop, please")
    assert unit.query().user_status == "stop, please"


def test_the_end_of_a_conversation_is_heard_behind_what_was_committed(alice: Session, bob: Session) -> None:
    with alice.unit_of_work(SERVICE) as uow:
        uow.send(b"last words")
        uow.commit_and_end()
    unit = bob.receive_unit()
    assert unit is not None and unit.first.body == b"last words"
    unit.commit()
    assert bob.receive_unit(conv_id=uow.conv_id) is None
    with refused(Code.PARTNER_FINISHED):
        bob.send(None, b"wait!", conv_id=uow.conv_id)


def test_a_cancelled_conversation_is_an_error_for_its_receiver(alice: Session, bob: Session) -> None:
    first = alice.send(SERVICE, b"1")
    assert bodies(bob) == [b"1"]
    alice.end_conversation(first.conv_id, cancel=True)
    with refused(Code.PARTNER_CANCELLED):
        bob.receive_unit(conv_id=first.conv_id)
    with refused(Code.NO_CONVERSATION):
        bob.receive_unit(conv_id="1234567890123456")


def test_a_repeat_with_a_producers_identifier_is_answered_like_the_first(alice: Session, bob: Session) -> None:
    first = alice.send(SERVICE, b"once", producer="order 7")
    again = alice.send(SERVICE, b"once", producer="order 7")

    assert first.uowid == again.uowid and bodies(bob) == [b"once"]


def _sent_as_one(session: Session, *parts: bytes, properties: dict[str, str] | None = None) -> str:
    with session.unit_of_work(SERVICE, producer="order-1") as unit:
        for part in parts:
            unit.send(part, properties=properties)
    return unit.uowid


@a_sample(3)
@pytest.mark.parametrize("is_received", [False, True])
def test_a_resent_unit_of_several_messages_is_received_once(
    any_kind: Kind, directory: Path, caplog: pytest.LogCaptureFixture, is_received: bool
) -> None:
    parts, got, uowids = (b"head", b"line 1", b"line 2"), [], set()
    for at in range(2):
        with any_kind.open(directory) as broker, broker.session("ALICE", token="PC1") as alice:
            for _ in range(2):
                uowids.add(_sent_as_one(alice, *parts))
                with refused(Code.PRODUCER_REUSED):
                    _sent_as_one(alice, b"head", b"line 1")
                with refused(Code.PRODUCER_REUSED):
                    alice.send(SERVICE, b"head", producer="order-1")
            if at or is_received:
                with broker.session("BOB", token="S1") as bob:
                    bob.register(SERVICE)
                    got += bodies(bob)
                uowids.add(_sent_as_one(alice, *parts))
            else:
                assert alice.query(*uowids).status is Status.ACCEPTED
    assert got == [*parts]
    assert len(uowids - {""}) == 1, "the first one's, or none's where no trace is kept of it"
    assert is_received or "" not in uowids
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("parts", [(b"rotten head", b"rotten line"), (b"rotten line",)])
def test_a_unit_of_which_a_message_has_rotted_is_known_when_it_is_sent_again(
    directory: Path, tmp_path: Path, parts: tuple[bytes, ...]
) -> None:
    """In a file without a footer nobody knows what it held: as many messages are taken for the same ones."""
    given: dict[str, Any] = {"broker_id": "ETB001", "pstore_type": "JOURNAL"}
    killed, kind = tmp_path / "killed", {"kind": "order"}  # of a message without properties its checksum still tells
    with Broker.open(directory, **given) as broker, broker.session("ALICE", token="PC1") as alice:
        first = _sent_as_one(alice, *parts, properties=kind)
        alice.send(SERVICE, b"behind it")
        shutil.copytree(directory, killed, ignore=shutil.ignore_patterns("*.new"))
    (path,) = [one for one in killed.rglob("*.data") if parts[-1] in one.read_bytes()]
    data = bytearray(path.read_bytes())
    data[data.index(parts[-1])] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        with Broker.open(killed, **given) as broker, broker.session("ALICE", token="PC1") as alice:
            assert _sent_as_one(alice, *parts, properties=kind) in (first, "")
            with refused(Code.PRODUCER_REUSED):
                _sent_as_one(alice, *parts, b"one more", properties=kind)


def test_on_the_connection_that_has_the_first_open_a_second_is_refused(alice: Session, bob: Session) -> None:
    with alice.unit_of_work(SERVICE, producer="order-1") as first:
        first.send(b"head")
        with refused(Code.WRONG_STATUS), alice.unit_of_work(SERVICE, producer="order-1") as second:
            second.send(b"head")
        first.send(b"line 1")
    assert bodies(bob) == [b"head", b"line 1"]


def test_a_repeat_that_was_overtaken_on_its_own_connection_adds_nothing(any_kind: Kind, directory: Path) -> None:
    with any_kind.open(directory) as broker, broker.session("ALICE", token="PC1") as alice:
        _sent_as_one(alice, b"head", b"line 1")
        with refused(Code.PRODUCER_REUSED), alice.unit_of_work(SERVICE, producer="order-1") as overtaken:
            overtaken.send(b"head")
            _sent_as_one(alice, b"head", b"line 1")
            overtaken.send(b"line 1")
        with broker.session("BOB", token="S1") as bob:
            bob.register(SERVICE)
            assert bodies(bob) == [b"head", b"line 1"]


@pytest.mark.parametrize("ends", ["commit", "backout", "gone"])
def test_a_second_waits_for_the_first_that_another_connection_has_open(directory: Path, ends: str) -> None:
    with Broker.open(directory, broker_id="ETB001") as broker, broker.session("ALICE") as one:
        with broker.session("ALICE") as two, ThreadPoolExecutor(1) as pool:
            first = one.unit_of_work(SERVICE, producer="order-1")
            first.send(b"head")
            first.send(b"line 1")
            second = pool.submit(_sent_as_one, two, b"head", b"line 1")
            one.query(first.uowid)
            assert not second.done()
            if ends == "gone":
                one.log_off()
            else:
                getattr(first, ends)()
            assert (second.result(60) == first.uowid) == (ends == "commit")
            if ends == "gone":
                one.log_on()
        with broker.session("BOB", token="S1") as bob:
            bob.register(SERVICE)
            assert bodies(bob) == [b"head", b"line 1"]


def test_plain_messages_are_asked_and_answered(alice: Session, bob: Session, broker: Broker) -> None:
    conv_id = alice.send_message(SERVICE, b"ping", properties={"n": "1"})
    message = bob.receive_message()
    assert message is not None and (message.body, message.properties) == (b"ping", {"n": "1"})
    assert message.reception is Reception.RECV_NONE and message.conv_id == conv_id
    bob.send_message(None, b"pong", conv_id=conv_id)
    answer = alice.receive_message(conv_id=conv_id)
    assert answer is not None and answer.body == b"pong"
    with refused(Code.WAIT_TIMED_OUT):
        alice.request(SERVICE, b"anybody?", wait=0.05)
    assert alice.receive_message(conv_id=conv_id) is None
    with refused(Code.UOW_IN_MESSAGE_CONVERSATION):
        alice.receive_unit(conv_id=conv_id)


@a_sample(6)
@pytest.mark.parametrize("service", ["GAME/CHESS", "A/B/C/D", ("A", "B")])
def test_a_service_has_three_names(alice: Session, service: Any) -> None:
    with pytest.raises(ValueError, match="CLASS/SERVER/SERVICE"):
        alice.send(service, b"")
    with pytest.raises(ValueError, match="a service, or the conversation"):
        alice.send(None, b"")


def test_a_session_that_ends_gives_back_what_it_had(broker: Broker, alice: Session) -> None:
    alice.send(SERVICE, b"given back")
    with broker.session("CAROL", token="S2") as carol:
        carol.register(SERVICE)
        assert carol.receive_unit() is not None
        uow = carol.unit_of_work(SERVICE)
        uow.send(b"never")
    with broker.session("DAVE") as dave:
        dave.register(SERVICE)
        (unit,) = dave.receive_units()
        assert (unit.first.body, unit.delivery_count) == (b"given back", 1)


def test_a_session_elsewhere_disconnects_the_one_before(broker: Broker, alice: Session) -> None:
    with broker.session("ALICE", token="PC1") as again:
        again.send(SERVICE, b"from here")
        with refused(Code.NEW_LOCATION):
            alice.send(SERVICE, b"from there")


def test_sessions_of_a_user_without_a_token_have_the_same_units_of_work_and_conversations(broker: Broker) -> None:
    with broker.session("CAROL") as one, broker.session("CAROL") as other:
        sent = one.send(SERVICE, b"x")
        assert other.last() == sent
        assert other.cancel(sent.uowid).status is Status.CANCELLED
        sent = one.send(SERVICE, b"y")
        other.end_conversation(sent.conv_id, cancel=True)
        with refused(Code.AFTER_EOC):
            one.send(None, b"z", conv_id=sent.conv_id)
    with broker.session("CAROL", token="T1") as one, broker.session("CAROL", token="T2") as other:
        sent = one.send(SERVICE, b"x")
        assert other.last() is None
        with refused(Code.NO_CONVERSATION):
            other.end_conversation(sent.conv_id, cancel=True)


def test_a_callers_connection_that_is_lost_gives_back_what_it_had(broker: Broker, bob: Session) -> None:
    lost = broker.session("EVE")
    lost.log_on()
    lost.send(SERVICE, b"committed")
    uow = lost.unit_of_work(SERVICE)
    uow.send(b"not committed")
    broker.gone(lost._caller)
    assert bodies(bob) == [b"committed"]


def test_units_of_work_that_are_not_persistent_are_gone_with_the_broker(kind: Kind, directory: Path) -> None:
    with kind.open(directory) as broker, broker.session("ALICE") as alice, broker.session("BOB", token="S1") as bob:
        bob.register(SERVICE)
        assert not alice.send(SERVICE, b"soon", persistent=False).is_persistent
        assert bodies(bob) == [b"soon"]
        alice.send(SERVICE, b"gone", persistent=False)
        alice.send(SERVICE, b"kept")
    with kind.open(directory) as broker, broker.session("BOB", token="S1") as bob:
        bob.register(SERVICE)
        assert bodies(bob) == [b"kept"]


# The store's life.


def test_what_was_acknowledged_is_there_after_a_restart(kind: Kind, directory: Path) -> None:
    with kind.open(directory) as broker, broker.session("ALICE", token="PC1") as alice:
        first = alice.send(SERVICE, b"1", properties={"p": "v"}, user_status="u", lifetime="1D", status_lifetimes=2)
        with alice.unit_of_work(SERVICE) as uow:
            uow.send(b"2")
            uow.send(b"3")
        open_uow = alice.unit_of_work(SERVICE, lifetime="1H", status_lifetimes=1)
        open_uow.send(b"not committed")
    with kind.open(directory) as broker:
        with broker.session("ALICE", token="PC1") as alice:
            last = alice.last()
            assert last is not None and (last.uowid, last.status) == (open_uow.uowid, Status.BACKEDOUT)
            assert alice.query(first.uowid).user_status == "u"
        with broker.session("BOB", token="S1") as bob:
            bob.register(SERVICE)
            units = [
                (unit.uowid, [(m.body, m.properties) for m in unit], unit.commit()) for unit in bob.receive_units()
            ]
            assert [(uowid, messages) for uowid, messages, _ in units] == [
                (first.uowid, [(b"1", {"p": "v"})]),
                (uow.uowid, [(b"2", {}), (b"3", {})]),
            ]
    with kind.open(directory) as broker, broker.session("ALICE", token="PC1") as alice:
        assert alice.query(first.uowid).status is Status.PROCESSED
        with refused(Code.UOW_NOT_FOUND):
            alice.query(uow.uowid)


@a_sample(6)
@pytest.mark.parametrize("pstore", ["HOT", "COLD", "WARM", "NO"])
def test_a_start_does_what_pstore_says(kind: Kind, directory: Path, pstore: str) -> None:
    if pstore == "HOT":
        with pytest.raises(StartRefused), kind.open(directory, pstore="HOT"):
            pass
    with kind.open(directory) as broker, broker.session("ALICE", token="PC1") as alice:
        sent = alice.send(SERVICE, b"x")
    if pstore == "COLD":
        with (
            pytest.raises(StartRefused, match=r"confirm it with .*--erase ETB001"),
            kind.open(directory, pstore="COLD"),
        ):
            pass
    erase = "ETB001" if pstore == "COLD" else None
    with kind.open(directory, pstore=pstore, erase=erase) as broker, broker.session("ALICE", token="PC1") as alice:
        last = alice.last()
        assert (last.uowid if last else None) == (sent.uowid if pstore in ("HOT", "WARM") else None)
        assert broker.is_store_connected is (pstore != "NO")
        if pstore == "NO":
            with refused(Code.UOW_NOT_PERSISTED):
                alice.send(SERVICE, b"x")
            with refused(Code.UOW_NOT_PERSISTED):
                broker.connect_pstore()


def test_the_store_of_another_broker_is_refused(kind: Kind, directory: Path) -> None:
    with kind.open(directory):
        pass
    with pytest.raises(StartRefused) as caught, kind.open(directory, broker_id="ETB002"):
        pass
    assert caught.value.code is Code.INVALID_BROKER_ID and "ETB001" in caught.value.text


def test_a_directory_has_one_broker_at_a_time(kind: Kind, directory: Path) -> None:
    with kind.open(directory) as broker:
        with pytest.raises(StartRefused), kind.open(directory):
            pass
        assert broker.is_store_connected


def test_a_start_and_an_end_leave_their_checkpoints(kind: Kind, directory: Path) -> None:
    for checkpoints in (["ETBC", "ETBT"], ["ETBC", "ETBH", "ETBT"]):
        with kind.open(directory):
            pass
        store = kind_store(kind, directory)
        assert [key.removeprefix(CHECKPOINTS) for key, _ in store.records(CHECKPOINTS)] == checkpoints
        store.close()


def kind_store(kind: Kind, directory: Path) -> Any:
    return SqliteStore.open(directory / "broker.sqlite") if kind.driver == "SQLITE" else JournalStore.open(directory)


def test_an_attribute_file_says_how_the_broker_is(kind: Kind, tmp_path: Path) -> None:
    file = tmp_path / "etbfile"
    place = f"DATABASE-FILE={tmp_path}/x.sqlite" if kind.driver == "SQLITE" else f"SPOOL-DIRECTORY={tmp_path}/spool"
    file.write_text(
        f"DEFAULTS=BROKER\n BROKER-ID=FILE1 PSTORE=WARM PSTORE-TYPE={kind.driver} MUOW=2 STORE=BROKER DEFERRED=YES\n"
        f"DEFAULTS={kind.driver}\n {place}\nDEFAULTS=SERVICE\n CLASS=GAME SERVER=* SERVICE=*\n"
    )
    with kind.open(attributes=file) as broker, broker.session("ALICE") as alice:
        assert broker.attributes.broker.broker_id == "FILE1"
        with refused(Code.SERVICE_UNDEFINED):
            alice.send("OTHER/X/Y", b"")
        alice.send(SERVICE, b"1")
        alice.send(SERVICE, b"2")
        with refused(Code.MAX_UOWS):
            alice.send(SERVICE, b"3")
    with kind.open(tmp_path / "elsewhere", attributes=file) as broker, broker.session("ALICE") as alice:
        assert alice.last() is None
    with kind.open(tmp_path / "elsewhere", attributes=broker.attributes) as broker:
        assert broker.is_store_connected


def test_values_beside_attributes_that_were_read_are_a_mistake(kind: Kind, directory: Path) -> None:
    with kind.open(directory) as broker:
        attributes = broker.attributes
    with pytest.raises(ValueError, match="broker_id"):
        kind.open(directory, attributes=attributes, broker_id="X")
    unloading = {"run_mode": "PSTORE-UNLOAD", "partner_cluster_address": "h:1:TCP", "pstore": "HOT"}
    with pytest.raises(StartRefused, match="RUN-MODE"), kind.open(directory, **unloading):
        pass


def test_the_report_of_the_store_has_a_line_for_what_came_and_went(
    kind: Kind, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with kind.open(directory, pstore_report="YES") as broker, broker.session("ALICE", token="PC1") as alice:
        sent = alice.send(SERVICE, b"12345")
        alice.cancel(sent.uowid)
    lines = (tmp_path / "PSTORE.REPORT").read_text().splitlines()[3:]

    assert [(line.split()[0], line.split()[3], line.split()[-1]) for line in lines] == [
        ("ETB001", "Master", "Created"),
        ("ETBC", "Cluster", "Created"),
        (sent.uowid, "Conversation", "Created"),
        (sent.uowid, "Conversation", "Deleted"),
        ("ETBT", "Cluster", "Created"),
    ]
    monkeypatch.setenv("ETB_PSTORE_REPORT", str(tmp_path / "by variable"))
    with kind.open(directory, pstore_report="YES"):
        pass
    with kind.open(directory, pstore_report="YES", report=str(tmp_path / "by argument")):
        pass
    assert (tmp_path / "by variable").exists() and (tmp_path / "by argument").exists()


def test_a_closed_broker_refuses_every_call(kind: Kind, directory: Path) -> None:
    with kind.open(directory) as broker:
        alice = broker.session("ALICE", token="PC1")
        alice.log_on()
    broker.close()
    with refused(Code.NOT_ACTIVE):
        alice.send(SERVICE, b"")
    with refused(Code.NOT_ACTIVE):
        broker.connect_pstore()
    with refused(Code.NOT_ACTIVE):
        broker.forbid_new_uow_messages()
    alice.log_off()


def test_what_the_broker_has_to_say_is_logged(kind: Kind, directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "oms.broker"), kind.open(directory) as broker:
        broker.disconnect_pstore()
        broker.connect_pstore()

    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("oms.broker", "ERROR"),
        ("oms.broker", "INFO"),
    ]
    assert "it was disconnected" in caplog.text and "is available" in caplog.text


def test_an_error_carries_its_code_and_its_text(alice: Session) -> None:
    with pytest.raises(BrokerError) as caught:
        alice.query("NOBODYS")
    assert str(caught.value).startswith("00780305 UOW not found: NOBODYS")
    assert caught.value.code.error_class == "0078"
