"""Several calls decided as one commit, and SEND that ends its conversation."""

from typing import Any

import pytest

from oms_journal.broker.block import BOTH, Function, Option, Request, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state import producers
from oms_journal.broker.records import Status
from tests.support.broker.kernel_desk import Desk, Person, Said, attributes

NEWS: dict[str, Any] = {"topic": "NEWS"}


def part(person: Person, function: Function, option: Option, **fields: Any) -> Request:
    who = {"user_id": person.who["user_id"], "token": person.who["token"]}
    return Request(function=function, option=option, **who, **fields)


def about(person: Person, option: Option, uowid: str, **fields: Any) -> Request:
    return part(person, Function.SYNCPOINT, option, uowid=uowid, **fields)


def together(person: Person, *parts: Request) -> Said:
    return person.sync(Option.COMMIT, BOTH, parts=parts)


def to(name: str) -> dict[str, Any]:
    return {"server_class": "GAME", "server_name": name, "service": "S"}


def sending(person: Person, name: str, body: bytes = b"e4", **fields: Any) -> Said:
    return person.call(Function.SEND, Option.SYNC, conv_id="NEW", body=body, **to(name), **fields)


def received(person: Person, name: str) -> Said:
    person.call(Function.REGISTER, **to(name))
    return person.call(Function.RECEIVE, Option.SYNC, conv_id="ANY", **to(name))


def test_units_of_several_services_are_one_commit(desk: Desk) -> None:
    alice = Person(desk, "ALICE")
    units = [sending(alice, name, name.encode()) for name in "ABC"]
    assert desk.paper.commits == []

    answer = together(alice, *(about(alice, Option.EOC, unit.uowid) for unit in units))
    assert answer.code is Code.OK
    assert len(desk.paper.commits) == 1
    bob = Person(desk, "BOB", caller=2)
    for name in "ABC":
        found = received(bob, name)
        assert found.body == name.encode()
        assert bob.sync(Option.COMMIT, found.uowid).code is Code.OK
    assert desk.paper.messages == {}
    assert desk.kernel.world.conversations == {}


def test_what_is_received_published_and_sent_is_one_commit(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", "B1", caller=2)
    alice.call(Function.SEND, Option.COMMIT, conv_id="NEW", body=b"in", **to("IN"))
    bob.call(Function.SUBSCRIBE, Option.DURABLE, **NEWS)
    found = received(bob, "IN")
    out = sending(bob, "OUT")
    news = bob.call(Function.SEND_PUBLICATION, Option.SYNC, publication_id="NEW", body=b"flash", **NEWS)
    before = len(desk.paper.commits)

    answer = together(
        bob,
        about(bob, Option.COMMIT, found.uowid),
        about(bob, Option.COMMIT, out.uowid),
        part(bob, Function.CONTROL_PUBLICATION, Option.COMMIT, publication_id=news.reply.publication_id),
    )
    assert answer.code is Code.OK
    assert len(desk.paper.commits) == before + 1
    assert [message.payload for message in desk.paper.messages.values()] == [b"e4", b"flash"]
    heard = bob.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **NEWS)
    assert heard.body == b"flash"

    again = desk.restart()
    late = Person(again, "BOB", "B1")
    assert late.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **NEWS).body == b"flash"
    assert received(late, "OUT").body == b"e4"


def test_nothing_is_done_before_it_is_durable_and_others_wait(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    units = [sending(alice, name) for name in "AB"]
    desk.is_slow = True
    handle = alice.start(
        Function.SYNCPOINT,
        Option.COMMIT,
        uowid=BOTH,
        parts=[about(alice, Option.COMMIT, unit.uowid) for unit in units],
    )
    assert handle not in desk.answers
    asked = alice.start(Function.SYNCPOINT, Option.QUERY, uowid=units[1].uowid)
    assert asked not in desk.answers
    assert received(bob, "A").code is Code.NO_CONVERSATION
    desk.settle()

    assert desk.answers[handle].code is Code.OK
    assert desk.answers[asked].status is Status.ACCEPTED
    assert received(bob, "A").code is Code.OK


@pytest.mark.parametrize("is_store_lost", [False, True])
def test_a_commit_that_fails_leaves_all_as_it_was(desk: Desk, is_store_lost: bool) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    alice.call(Function.SEND, Option.COMMIT, conv_id="NEW", body=b"in", **to("IN"))
    found, out = received(bob, "IN"), sending(bob, "OUT")
    desk.is_slow = True
    handle = bob.start(
        Function.SYNCPOINT,
        Option.COMMIT,
        uowid=BOTH,
        parts=[about(bob, Option.COMMIT, found.uowid), about(bob, Option.EOC, out.uowid)],
    )
    desk.fail(is_store_lost=is_store_lost)
    desk.is_slow = False

    assert desk.answers[handle].code is (Code.UOW_NOT_PERSISTED if is_store_lost else Code.NO_NEW_UOWS)
    assert bob.sync(Option.QUERY, found.uowid).status is Status.DELIVERED
    assert bob.sync(Option.QUERY, out.uowid).status is Status.RECEIVED


def test_the_first_part_that_is_refused_refuses_all(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    unit = sending(alice, "A")
    theirs = sending(bob, "B")
    news = alice.call(Function.SEND_PUBLICATION, Option.SYNC, publication_id="NEW", body=b"flash", **NEWS)

    answer = together(
        alice,
        about(alice, Option.COMMIT, unit.uowid),
        part(alice, Function.CONTROL_PUBLICATION, Option.COMMIT, publication_id=news.reply.publication_id),
        about(alice, Option.COMMIT, theirs.uowid),
    )
    assert answer.code is Code.NOT_THE_CREATOR
    assert desk.paper.commits == []
    assert alice.sync(Option.QUERY, unit.uowid).status is Status.RECEIVED
    assert together(alice, about(alice, Option.COMMIT, unit.uowid)).code is Code.OK


def test_what_is_not_persistent_is_done_with_the_rest_and_not_before(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    kept, passing = sending(alice, "A"), sending(alice, "B", store=Store.OFF)
    desk.is_slow = True
    parts = [about(alice, Option.COMMIT, passing.uowid), about(alice, Option.COMMIT, kept.uowid)]
    alice.start(Function.SYNCPOINT, Option.COMMIT, uowid=BOTH, parts=parts)
    assert received(bob, "B").code is Code.NO_CONVERSATION
    desk.settle()
    assert received(bob, "B").code is Code.OK


def test_only_passing_units_are_done_at_once(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    units = [sending(alice, name, store=Store.OFF) for name in "AB"]
    assert together(alice, *(about(alice, Option.COMMIT, unit.uowid) for unit in units)).code is Code.OK
    found = [received(bob, name) for name in "AB"]
    assert together(bob, *(about(bob, Option.COMMIT, unit.uowid) for unit in found)).code is Code.OK
    assert desk.paper.commits == []
    assert desk.kernel.world.active == {}


def test_publications_move_their_subscriptions_position_together(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", "B1", caller=2)
    bob.call(Function.SUBSCRIBE, Option.DURABLE, **NEWS)
    for number in range(3):
        alice.call(Function.SEND_PUBLICATION, Option.COMMIT, publication_id="NEW", body=b"%d" % number, **NEWS)
    heard = [bob.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **NEWS) for _ in range(3)]
    parts = [
        part(bob, Function.CONTROL_PUBLICATION, Option.COMMIT, publication_id=heard[at].reply.publication_id)
        for at in (2, 0)
    ]
    assert together(bob, *parts).code is Code.OK

    late = Person(desk.restart(), "BOB", "B1")
    assert late.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **NEWS).body == b"1"
    assert late.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **NEWS).code is Code.NO_UOWS


def test_an_answer_in_the_conversation_is_a_part_with_both(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE", "A1"), Person(desk, "BOB", "B1", caller=2)
    alice.call(Function.SEND, Option.COMMIT, conv_id="NEW", body=b"in", **to("IN"))
    found = received(bob, "IN")
    bob.call(Function.SEND, Option.SYNC, conv_id=found.conv_id, body=b"answer")
    out = sending(bob, "OUT")
    before = len(desk.paper.commits)

    answer = together(bob, about(bob, Option.COMMIT, BOTH, conv_id=found.conv_id), about(bob, Option.COMMIT, out.uowid))
    assert answer.code is Code.OK
    assert len(desk.paper.commits) == before + 1
    again = desk.restart()
    late = Person(again, "ALICE", "A1")
    assert late.call(Function.RECEIVE, Option.SYNC, conv_id=found.conv_id).body == b"answer"
    assert received(Person(again, "EVE", caller=3), "OUT").body == b"e4"


def test_two_parts_about_one_conversation_are_refused_without_both(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    alice.call(Function.SEND, Option.COMMIT, conv_id="NEW", body=b"in", **to("IN"))
    found = received(bob, "IN")
    reply = bob.call(Function.SEND, Option.SYNC, conv_id=found.conv_id, body=b"answer")

    answer = together(bob, about(bob, Option.COMMIT, found.uowid), about(bob, Option.COMMIT, reply.uowid))
    assert answer.code is Code.FUNCTION_OPTION
    assert bob.sync(Option.QUERY, found.uowid).status is Status.DELIVERED


@pytest.mark.parametrize("other", ["", "P2"])
def test_a_producers_identifier_goes_with_units_of_the_same_alone(desk: Desk, other: str) -> None:
    alice = Person(desk, "ALICE")
    first, second = sending(alice, "A", producer="P1"), sending(alice, "B", producer=other)

    parts = [about(alice, Option.COMMIT, unit.uowid) for unit in (first, second)]
    assert together(alice, *parts).code is Code.FUNCTION_OPTION
    assert together(alice, parts[0]).code is Code.OK


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("names", ["AB", "BA"])
@pytest.mark.parametrize("more", [[], ["B"]])
def test_units_of_one_identifier_are_a_repeat_together(desk: Desk, restarts: bool, names: str, more: list[str]) -> None:
    alice = Person(desk, "ALICE")
    firsts = {name: sending(alice, name, producer="P1") for name in "AB"}
    assert together(alice, *(about(alice, Option.COMMIT, unit.uowid) for unit in firsts.values())).code is Code.OK
    if restarts:
        desk = desk.restart()
        alice = Person(desk, "ALICE")
    again = {name: sending(alice, name, producer="P1") for name in names}
    for name in more:
        alice.call(Function.SEND, Option.SYNC, conv_id=again[name].conv_id, body=b"more")
    said = together(alice, *(about(alice, Option.COMMIT, unit.uowid) for unit in again.values()))
    assert said.code is (Code.PRODUCER_REUSED if more else Code.OK)
    assert len(desk.paper.messages) == 2
    assert set(desk.paper.uows()) == {unit.uowid for unit in firsts.values()}
    assert desk.kernel.world.active_count == 2
    for unit in again.values() if more else ():
        assert alice.sync(Option.BACKOUT, unit.uowid).code is Code.OK
    assert desk.kernel.world.active_count == 2
    assert not desk.logs


def test_units_that_are_repeated_together_are_forgotten_together(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 3)
    alice = Person(desk, "ALICE")

    def send(names: str) -> Said:
        units = [sending(alice, name, producer="P1") for name in names]
        return together(alice, *(about(alice, Option.COMMIT, unit.uowid) for unit in units))

    assert send("AB").code is Code.OK
    for name in ("P2", "P3"):
        assert alice.sync(Option.COMMIT, sending(alice, "C", producer=name).uowid).code is Code.OK
    before = dict(desk.paper.messages)
    assert send("BA").code is Code.OK
    assert desk.paper.messages == before
    assert len(desk.kernel.world.producers) <= 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"function": Function.SEND, "option": Option.COMMIT, "conv_id": "NEW", **to("A")},
        {"function": Function.SYNCPOINT, "option": Option.QUERY, "uowid": "1000000100000001"},
        {"function": Function.SYNCPOINT, "option": Option.COMMIT},
        {"function": Function.LOGOFF},
    ],
)
def test_what_is_no_commit_is_no_part(desk: Desk, wrong: dict[str, Any]) -> None:
    alice = Person(desk, "ALICE")
    answer = together(alice, Request(user_id="ALICE", **wrong))

    assert answer.code in (Code.FUNCTION_OPTION, Code.UOWID_REQUIRED)
    assert desk.paper.commits == []


def test_parts_are_the_callers_own_and_go_with_both_alone(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    unit = sending(bob, "A")

    assert together(alice, about(bob, Option.COMMIT, unit.uowid)).code is Code.FUNCTION_OPTION
    alone = alice.sync(Option.COMMIT, unit.uowid, parts=[about(alice, Option.COMMIT, unit.uowid)])
    assert alone.code is Code.FUNCTION_OPTION


def test_a_part_that_is_on_its_way_to_the_store_is_waited_for(desk: Desk) -> None:
    alice = Person(desk, "ALICE")
    first, second = sending(alice, "A", uwstatp=1, uwtime="1H"), sending(alice, "B")
    desk.is_slow = True
    alice.start(Function.SEND, Option.SYNC, conv_id=first.conv_id, body=b"more")
    handle = alice.start(
        Function.SYNCPOINT,
        Option.COMMIT,
        uowid=BOTH,
        parts=[about(alice, Option.COMMIT, unit.uowid) for unit in (second, first)],
    )
    assert len(desk.commits) == 1
    desk.is_slow = False
    desk.settle()

    assert desk.answers[handle].code is Code.OK
    assert [message.payload for message in desk.paper.messages.values()] == [b"e4", b"e4", b"more"]


# SEND, OPTION=EOC.


def test_send_with_eoc_is_a_unit_and_the_end_of_its_conversation_in_one_commit(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    sent = alice.send(option=Option.EOC)
    assert (sent.code, sent.status) == (Code.OK, Status.ACCEPTED)
    assert len(desk.paper.commits) == 1
    assert alice.send(option=Option.SYNC, conv_id=sent.conv_id).code is Code.AFTER_EOC
    bob.register()
    assert bob.receive().body == b"e4"
    assert bob.sync(Option.COMMIT, sent.uowid).code is Code.OK
    assert bob.receive(sent.conv_id).code is Code.PARTNER_FINISHED
    assert desk.kernel.world.conversations == {}


def test_send_with_eoc_ends_the_conversation_over_a_restart_too(desk: Desk) -> None:
    alice = Person(desk, "ALICE", "A1")
    sent = alice.send(option=Option.EOC)
    again = desk.restart()
    bob = Person(again, "BOB", caller=2)
    bob.register()
    assert bob.receive().uowid == sent.uowid
    assert bob.sync(Option.COMMIT, sent.uowid).code is Code.OK
    assert again.kernel.world.conversations == {}
    assert again.paper.uows() == {}


def test_send_with_eoc_adds_to_what_was_begun(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    first = alice.send(b"e4", Option.SYNC)
    last = alice.send(b"e5", Option.EOC, first.conv_id)
    assert last.uowid == first.uowid
    bob.register()
    assert [bob.receive(word).body for word in ("NEW", first.conv_id)] == [b"e4", b"e5"]


def test_send_with_eoc_is_refused_where_something_is_unread(desk: Desk) -> None:
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    bob.register()
    sent = alice.send()
    assert bob.receive().uowid == sent.uowid

    assert bob.send(b"answer", Option.EOC, sent.conv_id).code is Code.MUST_BACK_OUT
    assert bob.send(b"answer", Option.COMMIT, sent.conv_id).code is Code.OK
    assert alice.send(b"more", Option.EOC, sent.conv_id).code is Code.UNREAD_UOW


def test_send_with_eoc_of_what_is_not_persistent_writes_nothing() -> None:
    desk = Desk(attributes(store="OFF"))
    alice, bob = Person(desk, "ALICE"), Person(desk, "BOB", caller=2)
    bob.register()
    sent = alice.send(option=Option.EOC)
    assert bob.receive().uowid == sent.uowid
    assert bob.sync(Option.COMMIT, sent.uowid).code is Code.OK
    assert desk.paper.commits == []
    assert desk.kernel.world.conversations == {}
