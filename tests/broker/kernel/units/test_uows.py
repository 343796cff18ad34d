"""Units of work between a client and a server: visibility, order, every way to receive, every option of SYNCPOINT.

Behaviour told by EntireX, Using Persistence and Units of Work.
"""

import pytest

from oms_journal.broker.attributes.attributes import parse_attributes
from oms_journal.broker.block import BOTH, ConvStat, Function, Option, Reception, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.records import Flag, Status
from tests.support.broker.kernel_desk import CHESS, T0, Desk, Person, attributes

SYNC, COMMIT = Option.SYNC, Option.COMMIT


# Sending.


def test_nobody_sees_a_unit_of_work_before_its_commit(white: Person, black: Person) -> None:
    first = white.send(b"one", SYNC)
    assert (first.code, first.status) == (Code.OK, Status.RECEIVED)
    assert black.receive().code is Code.NO_CONVERSATION

    second = white.send(b"two", SYNC, first.conv_id)
    assert (second.uowid, second.conv_id) == (first.uowid, first.conv_id)
    assert black.receive("ANY", Option.ANY).code is Code.NO_CONVERSATION

    assert white.sync(COMMIT, first.uowid).status is Status.ACCEPTED
    assert black.receive().body == b"one"


def test_send_with_commit_creates_and_commits_in_one_call(white: Person, black: Person) -> None:
    sent = white.send(b"e4", COMMIT)
    assert sent.status is Status.ACCEPTED
    assert black.receive().uowid == sent.uowid


def test_send_with_commit_commits_what_was_added_before(white: Person, black: Person) -> None:
    first = white.send(b"one", SYNC)
    last = white.send(b"two", COMMIT, first.conv_id)
    assert (last.uowid, last.status) == (first.uowid, Status.ACCEPTED)
    assert [black.receive().body, black.receive(first.conv_id).body] == [b"one", b"two"]


def test_a_sender_commits_before_it_begins_another_in_the_conversation(white: Person, black: Person) -> None:
    first = white.send(b"one", SYNC)
    again = white.send(b"two", SYNC, first.conv_id)
    assert again.uowid == first.uowid, "the message goes into the one that is not committed"
    white.sync(COMMIT, first.uowid)
    assert white.send(b"three", SYNC, first.conv_id).uowid != first.uowid


def test_a_conversation_holds_units_of_work_or_messages_and_not_both(white: Person, black: Person) -> None:
    unit = white.send(b"e4")
    message = white.send(b"hello", Option.NONE)
    assert white.send(b"hello", Option.NONE, unit.conv_id).code is Code.MESSAGE_IN_UOW_CONVERSATION
    assert white.send(b"e4", SYNC, message.conv_id).code is Code.UOW_IN_MESSAGE_CONVERSATION
    black.receive("NEW", Option.ANY)
    black.receive("NEW", Option.ANY)
    assert black.receive(unit.conv_id, Option.MSG).code is Code.MESSAGE_IN_UOW_CONVERSATION
    assert black.receive(message.conv_id, SYNC).code is Code.UOW_IN_MESSAGE_CONVERSATION


# Receiving.


@pytest.mark.parametrize(
    ("bodies", "places"),
    [
        ([b"a"], [Reception.RECV_ONLY]),
        ([b"a", b"b"], [Reception.RECV_FIRST, Reception.RECV_LAST]),
        ([b"a", b"b", b"c"], [Reception.RECV_FIRST, Reception.RECV_MIDDLE, Reception.RECV_LAST]),
        ([b"a", b"b", b"c", b"d"], [Reception.RECV_FIRST] + [Reception.RECV_MIDDLE] * 2 + [Reception.RECV_LAST]),
    ],
)
def test_a_receive_says_the_messages_place_and_then_that_it_was_the_last(
    white: Person, black: Person, bodies: list[bytes], places: list[Reception]
) -> None:
    sent = white.send(bodies[0], SYNC)
    for body in bodies[1:]:
        white.send(body, SYNC, sent.conv_id)
    white.sync(COMMIT, sent.uowid)

    got = [black.receive("NEW")] + [black.receive(sent.conv_id) for _ in bodies[1:]]
    assert [each.body for each in got] == bodies
    assert [each.status for each in got] == places
    assert {each.uowid for each in got} == {sent.uowid}
    assert black.receive(sent.conv_id).code is Code.END_OF_UOW
    assert black.receive(sent.conv_id, wait="10S").code is Code.END_OF_UOW, "it is not waited for the next one"
    assert black.receive("OLD").code is Code.END_OF_UOW
    assert white.sync(Option.QUERY, sent.uowid).status is Status.DELIVERED


def test_the_scenario_of_three_units_of_work_two_of_them_in_one_conversation(white: Person, black: Person) -> None:
    """A receive of a new conversation gets T1, the next one T3: T2 belongs to the conversation of T1."""
    t1 = white.send(b"T1")
    white.send(b"T2", COMMIT, t1.conv_id)
    white.send(b"T3")
    assert [black.receive("NEW").body, black.receive("NEW").body] == [b"T1", b"T3"]
    black.sync(COMMIT, t1.uowid)
    assert black.receive(t1.conv_id).body == b"T2"


def test_units_of_work_in_conversations_of_their_own_come_in_the_order_of_their_commits(
    white: Person, black: Person
) -> None:
    begun = [white.send(name.encode(), SYNC) for name in ("T1", "T2", "T3")]
    for each in (begun[2], begun[0], begun[1]):
        white.sync(COMMIT, each.uowid)
    assert [black.receive("NEW").body for _ in begun] == [b"T3", b"T1", b"T2"]


@pytest.mark.parametrize("stores", [(Store.BROKER, Store.OFF), (Store.OFF, Store.BROKER), (Store.OFF, Store.OFF)])
def test_persistent_and_other_units_of_work_share_one_order(
    white: Person, black: Person, stores: tuple[Store, Store]
) -> None:
    for at in range(6):
        white.send(b"%d" % at, store=stores[at % 2])
    assert [black.receive("NEW").body for _ in range(6)] == [b"%d" % at for at in range(6)]


def test_units_of_work_of_a_conversation_come_in_the_order_of_their_commits(white: Person, black: Person) -> None:
    first = white.send(b"0")
    for at in range(1, 5):
        white.send(b"%d" % at, COMMIT, first.conv_id)
    got = []
    for at in range(5):
        said = black.receive("NEW" if not at else first.conv_id)
        got.append(said.body)
        black.sync(COMMIT, said.uowid)
    assert got == [b"0", b"1", b"2", b"3", b"4"]


def test_any_gets_old_conversations_first_and_then_new_ones(white: Person, black: Person) -> None:
    old = white.send(b"old 1")
    new = white.send(b"new")
    black.sync(COMMIT, black.receive("NEW").uowid)
    white.send(b"old 2", COMMIT, old.conv_id)
    got = [black.receive("ANY"), black.receive("ANY")]
    assert [each.body for each in got] == [b"old 2", b"new"]
    assert [each.reply.conv_stat for each in got] == [ConvStat.OLD, ConvStat.NEW]
    assert got[1].conv_id == new.conv_id


def test_new_gets_only_conversations_that_nobody_has_received_from(white: Person, black: Person) -> None:
    first = white.send(b"1")
    black.sync(COMMIT, black.receive("NEW").uowid)
    white.send(b"2", COMMIT, first.conv_id)
    assert black.receive("NEW").code is Code.NO_CONVERSATION
    assert black.receive("OLD").body == b"2"


def test_old_goes_on_with_a_unit_of_work_that_was_begun(white: Person, black: Person) -> None:
    sent = white.send(b"a", SYNC)
    white.send(b"b", COMMIT, sent.conv_id)
    assert black.receive("OLD").code is Code.NO_CONVERSATION
    black.receive("NEW")
    assert black.receive("OLD").body == b"b"


@pytest.mark.parametrize(
    ("option", "kinds"),
    [(SYNC, "u"), (Option.MSG, "m"), (Option.NONE, "m"), (Option.ANY, "um")],
)
def test_the_option_says_what_a_receive_can_be_satisfied_with(
    white: Person, black: Person, option: Option, kinds: str
) -> None:
    white.send(b"u")
    white.send(b"m", Option.NONE)
    got = [black.receive("NEW", option) for _ in range(3)]
    assert "".join((each.body or b"").decode() for each in got) == kinds
    assert all((each.status is Reception.RECV_NONE) == (each.body == b"m") for each in got if each.body)


def test_two_servers_racing_for_one_conversation_get_it_once(desk: Desk, white: Person, black: Person) -> None:
    twin = Person(desk, "BLACK", "PC3", caller=3)
    twin.register()
    sent = white.send(b"e4")
    got = [black.receive("NEW"), twin.receive("NEW")]
    assert [each.code for each in got] == [Code.OK, Code.NO_CONVERSATION]
    assert twin.receive(sent.conv_id).code is Code.NO_CONVERSATION
    assert twin.sync(COMMIT, sent.uowid).code is Code.NOT_THE_CREATOR


def test_the_first_unit_of_work_of_a_conversation_is_its_clients_and_later_ones_come_from_either_side(
    white: Person, black: Person
) -> None:
    first = white.send(b"1")
    assert black.send(b"too early", SYNC, first.conv_id).code is Code.NO_CONVERSATION, "it has not received from it"
    black.receive()
    for person, body in ((black, b"answer 1"), (white, b"2"), (black, b"answer 2")):
        assert person.send(body, COMMIT, first.conv_id).status is Status.ACCEPTED
    black.sync(COMMIT, first.uowid)
    for body in (b"answer 1", b"answer 2"):
        got = white.receive(first.conv_id)
        assert got.body == body
        white.sync(COMMIT, got.uowid)
    assert black.receive(first.conv_id).body == b"2"


def test_replicated_servers_share_the_conversations(desk: Desk, white: Person, black: Person) -> None:
    twin = Person(desk, "BLACK", "PC3", caller=3)
    twin.register()
    for at in range(4):
        white.send(b"%d" % at)
    got = [person.receive("NEW").body for person in (black, twin, twin, black)]
    assert got == [b"0", b"1", b"2", b"3"]


def test_the_commit_time_is_that_of_the_conversations_first_unit_of_work(
    desk: Desk, white: Person, black: Person
) -> None:
    first = white.send(b"1")
    desk.now += 61_250_000
    white.send(b"2", COMMIT, first.conv_id)
    times = []
    for _ in range(2):
        got = black.receive("ANY")
        times.append(got.reply.commit_time)
        black.sync(COMMIT, got.uowid)
    assert times == ["20231114221320000"] * 2
    assert white.send(b"3").reply.commit_time == "20231114221421250"


# The sender's options.


def test_a_backout_by_the_sender_leaves_nothing_to_receive(white: Person, black: Person) -> None:
    sent = white.send(b"e4", SYNC)
    assert white.sync(Option.BACKOUT, sent.uowid).status is Status.BACKEDOUT
    assert white.sync(COMMIT, sent.uowid).code is Code.UOW_NOT_FOUND
    assert black.receive().code is Code.NO_CONVERSATION
    white.send(b"d4", COMMIT, sent.conv_id)
    assert black.receive().body == b"d4", "the conversation goes on"


def test_a_cancel_by_the_sender_takes_back_what_nobody_has_begun_to_receive(white: Person, black: Person) -> None:
    sent = white.send(b"e4")
    assert white.sync(Option.CANCEL, sent.uowid).status is Status.CANCELLED
    assert black.receive().code is Code.NO_CONVERSATION

    other = white.send(b"d4")
    black.receive()
    assert white.sync(Option.CANCEL, other.uowid).code is Code.WRONG_STATUS


@pytest.mark.parametrize(
    ("option", "told"), [(Option.EOC, Code.PARTNER_FINISHED), (Option.EOCCANCEL, Code.PARTNER_CANCELLED)]
)
def test_eoc_commits_and_ends_the_conversation(white: Person, black: Person, option: Option, told: Code) -> None:
    sent = white.send(b"e4", SYNC)
    assert white.sync(option, sent.uowid).status is Status.ACCEPTED
    assert white.send(b"d4", SYNC, sent.conv_id).code is Code.AFTER_EOC
    assert black.receive().body == b"e4"
    assert black.send(b"e5", SYNC, sent.conv_id).code is told
    assert black.receive(sent.conv_id).code is Code.END_OF_UOW
    black.sync(COMMIT, sent.uowid)
    assert black.receive(sent.conv_id).code is told


def test_last_shows_the_last_unit_of_work_that_the_caller_has_begun(white: Person, black: Person) -> None:
    assert white.sync(Option.LAST).code is Code.UOW_NOT_FOUND
    one = white.send(b"1")
    two = white.send(b"2")
    three = white.send(b"3", SYNC, one.conv_id)
    last = white.sync(Option.LAST)
    assert (last.uowid, last.conv_id, last.status) == (three.uowid, one.conv_id, Status.RECEIVED)
    assert white.sync(Option.LAST, conv_id=two.conv_id).uowid == two.uowid
    names = (last.reply.server_class, last.reply.server_name, last.reply.service)
    assert names == tuple(CHESS.values())
    assert black.sync(Option.LAST).code is Code.UOW_NOT_FOUND


def test_last_goes_by_user_id_and_token_whatever_the_connection(desk: Desk, white: Person, black: Person) -> None:
    sent = white.send(b"e4")
    white.call(Function.LOGOFF)
    again = Person(desk, "WHITE", "PC1", caller=9)
    assert again.sync(Option.LAST).uowid == sent.uowid
    assert Person(desk, "WHITE", "PC7", caller=10).sync(Option.LAST).code is Code.UOW_NOT_FOUND


def test_last_of_what_left_no_trace_is_the_one_before(white: Person, black: Person) -> None:
    one = white.send(b"1", uwstatp=3)
    two = white.send(b"2")
    black.receive()
    black.receive()
    black.sync(COMMIT, two.uowid)
    assert white.sync(Option.LAST).uowid == one.uowid
    black.sync(COMMIT, one.uowid)
    assert (white.sync(Option.LAST).uowid, white.sync(Option.LAST).status) == (one.uowid, Status.PROCESSED)


def test_query_shows_a_unit_of_work_to_its_sender_and_to_who_receives_it(
    desk: Desk, white: Person, black: Person
) -> None:
    sent = white.send(b"e4", ustatus="begun")
    asked = white.sync(Option.QUERY, sent.uowid)
    assert (asked.status, asked.reply.ustatus, asked.conv_id) == (Status.ACCEPTED, "begun", sent.conv_id)
    assert asked.reply.service == CHESS["service"]
    assert black.sync(Option.QUERY, sent.uowid).code is Code.NOT_THE_CREATOR
    black.receive()
    assert black.sync(Option.QUERY, sent.uowid).status is Status.DELIVERED
    assert Person(desk, "EVE", caller=5).sync(Option.QUERY, sent.uowid).code is Code.NOT_THE_CREATOR


def test_delete_leaves_no_trace_of_a_complete_unit_of_work(desk: Desk, white: Person, black: Person) -> None:
    sent = white.send(b"e4", uwstatp=2)
    assert white.sync(Option.DELETE, sent.uowid).code is Code.WRONG_STATUS
    black.sync(COMMIT, black.receive().uowid)
    assert black.sync(Option.DELETE, sent.uowid).code is Code.NOT_THE_CREATOR
    assert white.sync(Option.DELETE, sent.uowid).code is Code.OK
    assert white.sync(Option.QUERY, sent.uowid).code is Code.UOW_NOT_FOUND
    assert white.sync(Option.LAST).code is Code.UOW_NOT_FOUND
    assert desk.paper.uows() == {} and desk.paper.messages == {}


# The receiver's options.


def test_a_commit_by_the_receiver_ends_the_unit_of_work(white: Person, black: Person) -> None:
    sent = white.send(b"e4", uwstatp=1)
    black.receive()
    assert black.sync(COMMIT, sent.uowid).status is Status.PROCESSED
    assert white.sync(Option.QUERY, sent.uowid).status is Status.PROCESSED
    assert black.receive("ANY").code is Code.NO_CONVERSATION
    assert black.receive("OLD").code is Code.NO_UOWS
    assert black.receive(sent.conv_id).code is Code.NO_UOWS


def test_a_backout_by_the_receiver_makes_it_available_again_and_counts(
    desk: Desk, white: Person, black: Person
) -> None:
    sent = white.send(b"a", SYNC)
    white.send(b"b", COMMIT, sent.conv_id)
    for count in range(1, 4):
        black.receive("NEW")
        said = black.sync(Option.BACKOUT, sent.uowid)
        assert (said.status, said.reply.adcount) == (Status.ACCEPTED, count)
        desk.tick()
    assert desk.paper.uows()[sent.uowid].adcount == 3

    twin = Person(desk, "BLACK", "PC3", caller=3)
    twin.register()
    got = twin.receive("NEW")
    assert (got.body, got.status, got.reply.adcount) == (b"a", Reception.RECV_FIRST, 3), "from its first message"
    assert got.reply.conv_stat is ConvStat.NEW


def test_a_unit_of_work_that_was_backed_out_keeps_its_place_in_the_order(white: Person, black: Person) -> None:
    first = white.send(b"1")
    white.send(b"2")
    black.receive("NEW")
    black.sync(Option.BACKOUT, first.uowid)
    assert [black.receive("NEW").body, black.receive("NEW").body] == [b"1", b"2"]


def test_after_the_receivers_first_commit_a_backout_leaves_the_conversation_to_the_instance(
    desk: Desk, white: Person, black: Person
) -> None:
    twin = Person(desk, "BLACK", "PC3", caller=3)
    twin.register()
    first = white.send(b"1")
    second = white.send(b"2", COMMIT, first.conv_id)
    black.sync(COMMIT, black.receive().uowid)
    black.receive(first.conv_id)
    black.sync(Option.BACKOUT, second.uowid)
    assert twin.receive("ANY").code is Code.NO_CONVERSATION
    assert black.receive("ANY").body == b"2"


def test_a_cancel_by_the_receiver_ends_the_unit_of_work(desk: Desk, white: Person, black: Person) -> None:
    sent = white.send(b"e4", uwstatp=1)
    black.receive()
    assert black.sync(Option.CANCEL, sent.uowid).status is Status.CANCELLED
    assert white.sync(Option.QUERY, sent.uowid).status is Status.CANCELLED
    assert desk.paper.messages == {}


def test_both_commits_what_was_received_and_what_is_sent_in_one_commit(
    desk: Desk, white: Person, black: Person
) -> None:
    move = white.send(b"e4")
    black.receive()
    answer = black.send(b"e5", SYNC, move.conv_id)
    count = len(desk.paper.commits)

    said = black.sync(COMMIT, BOTH)
    assert (said.code, said.uowid, said.status) == (Code.OK, answer.uowid, Status.ACCEPTED)
    assert len(desk.paper.commits) == count + 1
    assert [message.payload for message in desk.paper.messages.values()] == [b"e5"]
    assert white.receive(move.conv_id).body == b"e5"
    assert list(desk.paper.uows()) == [answer.uowid]


def test_both_needs_one_of_each_stored_alike(desk: Desk, white: Person, black: Person) -> None:
    assert black.sync(COMMIT, BOTH).code is Code.UOWS_NOT_FOUND
    move = white.send(b"e4")
    assert white.sync(COMMIT, BOTH).code is Code.UOWS_NOT_FOUND
    black.receive()
    assert black.sync(COMMIT, BOTH).code is Code.UOWS_NOT_FOUND
    answer = black.send(b"e5", SYNC, move.conv_id, store=Store.OFF)
    assert black.sync(COMMIT, BOTH).code is Code.MISMATCHED_STORE
    assert black.sync(Option.QUERY, answer.uowid).status is Status.RECEIVED
    assert black.sync(Option.QUERY, move.uowid).status is Status.DELIVERED


def test_both_in_a_named_conversation_leaves_the_others_alone(white: Person, black: Person) -> None:
    moves = [white.send(b"e4"), white.send(b"d4")]
    answers = []
    for move in moves:
        black.receive("NEW")
        answers.append(black.send(b"answer", SYNC, move.conv_id))
    assert black.sync(COMMIT, BOTH).code is Code.UOWS_NOT_FOUND
    assert black.sync(COMMIT, BOTH, conv_id=moves[1].conv_id).uowid == answers[1].uowid
    assert black.sync(Option.QUERY, moves[0].uowid).status is Status.DELIVERED
    assert white.receive(moves[1].conv_id).body == b"answer"
    assert white.receive(moves[0].conv_id).code is Code.NO_UOWS


def test_chess_by_mail_as_the_seed_tells_it(desk: Desk) -> None:
    """Client and server never run at the same time; each finds its place by the last unit of work it has sent."""
    moves = [b"e4", b"e5", b"Nf3", b"Nc6", b"Bb5", b"a6"]
    played: list[bytes] = []
    for ply, move in enumerate(moves):
        user = "WHITE" if ply % 2 == 0 else "BLACK"
        player = Person(desk, user, "HOME", caller=100 + ply)
        if user == "BLACK":
            player.register()
        last = player.sync(Option.LAST)
        if last.code is Code.UOW_NOT_FOUND and user == "WHITE":
            assert player.send(move, uwstatp=10).code is Code.OK
        else:
            assert last.code is Code.UOW_NOT_FOUND or last.status is Status.PROCESSED
            got = player.receive("NEW" if last.code is Code.UOW_NOT_FOUND else last.conv_id)
            assert got.body is not None
            played.append(got.body)
            assert player.send(move, SYNC, got.conv_id, uwstatp=10).status is Status.RECEIVED
            assert player.sync(COMMIT, BOTH).code is Code.OK
            again = player.sync(Option.LAST)
            assert again.status is Status.ACCEPTED
        if user == "BLACK":
            assert player.call(Function.DEREGISTER, **CHESS).code is Code.OK
        assert player.call(Function.LOGOFF).code is Code.OK
    assert played == moves[:-1]


# User status.


def test_the_user_status_is_seen_by_both_while_the_unit_of_work_is_active(white: Person, black: Person) -> None:
    sent = white.send(b"long", ustatus="queued")
    assert black.receive().reply.ustatus == "queued"
    for progress in ("10 %", "90 %"):
        assert black.sync(Option.SETUSTATUS, sent.uowid, ustatus=progress).code is Code.OK
        assert white.sync(Option.QUERY, sent.uowid).reply.ustatus == progress
    white.sync(Option.SETUSTATUS, sent.uowid, ustatus="stop, please")
    assert black.sync(Option.QUERY, sent.uowid).reply.ustatus == "stop, please"


def test_the_user_status_can_be_said_with_send_receive_and_syncpoint(desk: Desk, white: Person, black: Person) -> None:
    sent = white.send(b"a", SYNC, ustatus="s1", uwstatp=5)
    white.send(b"b", COMMIT, sent.conv_id, ustatus="s2")
    assert white.sync(Option.QUERY, sent.uowid).reply.ustatus == "s2"
    assert black.receive(ustatus="r1").reply.ustatus == "r1"
    assert desk.paper.uows()[sent.uowid].ustatus == "r1"
    black.sync(COMMIT, sent.uowid, ustatus="done")
    assert white.sync(Option.QUERY, sent.uowid).reply.ustatus == "done"
    assert desk.paper.uows()[sent.uowid].ustatus == "done"


def test_the_user_status_of_a_complete_unit_of_work_stays(white: Person, black: Person) -> None:
    sent = white.send(b"a", uwstatp=5)
    black.sync(COMMIT, black.receive().uowid)
    for person in (white, black):
        assert person.sync(Option.SETUSTATUS, sent.uowid, ustatus="late").code is Code.WRONG_STATUS
    assert white.sync(Option.QUERY, sent.uowid).reply.ustatus == ""


# Persistence and its precedence.


@pytest.mark.parametrize("broker", ["OFF", "BROKER"])
@pytest.mark.parametrize("call", list(Store))
def test_store_is_what_the_call_says_and_else_what_the_attributes_say(broker: str, call: Store) -> None:
    desk = Desk(attributes(store=broker))
    white = Person(desk, "WHITE")
    sent = white.send(b"e4", store=call)
    is_persistent = call is Store.BROKER or (call is Store.UNSAID and broker == "BROKER")
    assert sent.reply.store is (Store.BROKER if is_persistent else Store.OFF)
    assert len(desk.paper.messages) == is_persistent


@pytest.mark.parametrize(("uwstatp", "is_kept"), [(0, True), (1, True), (254, True), (255, False)])
def test_uwstatp_255_makes_the_status_explicitly_not_persistent(uwstatp: int, is_kept: bool) -> None:
    desk = Desk(attributes(uwstatp="4"))
    white, black = Person(desk, "WHITE"), Person(desk, "BLACK", caller=2)
    black.register()
    sent = white.send(b"e4", uwstatp=uwstatp)
    black.sync(COMMIT, black.receive().uowid)
    assert white.sync(Option.QUERY, sent.uowid).code is (Code.OK if is_kept else Code.UOW_NOT_FOUND)


@pytest.mark.parametrize("store", [Store.OFF, Store.BROKER])
@pytest.mark.parametrize("uwstatp", [255, 3])
def test_the_four_variations_write_what_they_have_to_and_no_more(store: Store, uwstatp: int) -> None:
    desk = Desk()
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    is_persistent, has_status = store is Store.BROKER, uwstatp == 3

    def commits() -> int:
        count = len(desk.paper.commits)
        desk.paper.commits.clear()
        return count

    sent = white.send(b"a", SYNC, store=store, uwstatp=uwstatp)
    assert commits() == has_status
    white.send(b"b", SYNC, sent.conv_id)
    assert commits() == has_status
    white.sync(COMMIT, sent.uowid)
    assert len(desk.paper.messages) == 2 * is_persistent
    assert commits() == (is_persistent or has_status)
    black.receive()
    assert commits() == has_status
    black.receive(sent.conv_id)
    assert commits() == 0, "nothing of the unit of work changes"
    black.sync(Option.BACKOUT, sent.uowid)
    assert commits() == (is_persistent or has_status)
    black.receive()
    black.receive(sent.conv_id)
    commits()
    black.sync(COMMIT, sent.uowid)
    assert commits() == (is_persistent or has_status)
    assert desk.paper.messages == {}
    assert {key: record.status for key, record in desk.paper.uows().items()} == (
        {sent.uowid: Status.PROCESSED} if has_status else {}
    )
    if has_status:
        flags = desk.paper.uows()[sent.uowid].flags
        assert bool(flags & Flag.PERSISTENT) == is_persistent and flags & Flag.STATUS_PERSISTENT


def test_the_record_holds_what_the_seed_lists(desk: Desk, white: Person, black: Person) -> None:
    sent = white.send(b"four", SYNC, uwtime="10M", uwstatp=4, ustatus="moved")
    white.send(b"seven77", COMMIT, sent.conv_id)
    record = desk.paper.uows()[sent.uowid]
    assert (record.uowid, record.conv_id, record.status) == (sent.uowid, sent.conv_id, Status.ACCEPTED)
    assert (record.sender_user, record.sender_token, record.sender_class) == ("WHITE", "PC1", "")
    assert (record.receiver_user, record.receiver_token) == ("", ""), "no instance has the conversation yet"
    assert (record.receiver_class, record.receiver_server, record.receiver_service) == tuple(CHESS.values())
    assert (record.created, record.committed, record.begun) == (T0, T0, T0)
    assert (record.lifetime, record.uwstatp, record.ustatus) == (600, 4, "moved")
    assert (record.messages, record.size, record.first, record.conversation) == (2, 11, 1, 1)
    assert record.flags == Flag.PERSISTENT | Flag.STATUS_PERSISTENT | Flag.FIRST


def test_the_receivers_first_commit_writes_the_binding_to_what_waits(desk: Desk, white: Person, black: Person) -> None:
    first = white.send(b"1")
    second = white.send(b"2", COMMIT, first.conv_id)
    got = black.receive()
    assert desk.paper.uows()[second.uowid].receiver_user == ""
    count = len(desk.paper.commits)
    black.sync(COMMIT, got.uowid)
    assert len(desk.paper.commits) == count + 1
    record = desk.paper.uows()[second.uowid]
    assert (record.receiver_user, record.receiver_token) == ("BLACK", "PC2") and record.flags & Flag.BOUND
    third = white.send(b"3", COMMIT, first.conv_id)
    assert desk.paper.uows()[third.uowid].flags & Flag.BOUND


# Limits.


def test_a_message_above_the_maximum_is_refused_and_nothing_else_happens() -> None:
    desk = Desk(attributes(max_uow_message_length="10"))
    white, black = Person(desk, "WHITE"), Person(desk, "BLACK", caller=2)
    black.register()
    assert white.send(b"x" * 11).code is Code.LENGTH_EXCEEDED
    assert white.sync(Option.LAST).code is Code.UOW_NOT_FOUND
    sent = white.send(b"x" * 10, SYNC)
    assert white.send(b"x" * 11, COMMIT, sent.conv_id).code is Code.LENGTH_EXCEEDED
    assert white.sync(Option.QUERY, sent.uowid).status is Status.RECEIVED
    white.sync(COMMIT, sent.uowid)
    assert black.receive().status is Reception.RECV_ONLY


def test_a_unit_of_work_above_the_maximum_of_messages_is_refused_the_message() -> None:
    desk = Desk(attributes(max_messages_in_uow="2"))
    white = Person(desk, "WHITE")
    sent = white.send(b"1", SYNC)
    assert white.send(b"2", SYNC, sent.conv_id).code is Code.OK
    assert white.send(b"3", COMMIT, sent.conv_id).code is Code.MAX_MESSAGES
    assert white.sync(COMMIT, sent.uowid).code is Code.OK
    assert len(desk.paper.messages) == 2


def test_max_uows_counts_active_units_of_work() -> None:
    desk = Desk(attributes(max_uows="2"))
    white, black = Person(desk, "WHITE"), Person(desk, "BLACK", caller=2)
    black.register()
    sent = [white.send(b"1"), white.send(b"2", SYNC)]
    assert white.send(b"3").code is Code.MAX_UOWS
    assert white.send(b"2 more", SYNC, sent[1].conv_id).code is Code.OK
    black.receive()
    assert white.send(b"3").code is Code.MAX_UOWS
    black.sync(COMMIT, sent[0].uowid)
    third = white.send(b"3")
    assert third.code is Code.OK
    assert white.send(b"4").code is Code.MAX_UOWS
    white.sync(Option.CANCEL, third.uowid)
    white.sync(Option.BACKOUT, sent[1].uowid)
    assert [white.send(b"5").code, white.send(b"6").code, white.send(b"7").code] == [Code.OK, Code.OK, Code.MAX_UOWS]


def test_a_service_has_limits_of_its_own_within_those_of_the_broker() -> None:
    desk = Desk(
        parse_attributes(
            "DEFAULTS=BROKER BROKER-ID=ETB001 MAX-UOWS=4 UMSG=3 MAX-UOW-MESSAGE-LENGTH=20 DEFERRED=YES "
            "DEFAULTS=SERVICE CLASS=GAME SERVER=CHESS SERVICE=BLACK MUOW=1 UMSG=2 MAX-UOW-MESSAGE-LENGTH=10 "
            "CLASS=GAME SERVER=CHESS SERVICE=OTHER CLASS=GAME SERVER=CHESS SERVICE=NONE MUOW=0"
        )
    )
    white = Person(desk, "WHITE", "T")
    begun = white.send(b"1", SYNC)
    assert white.send(b"x" * 11, SYNC, begun.conv_id).code is Code.LENGTH_EXCEEDED
    assert white.send(b"2", SYNC, begun.conv_id).code is Code.OK
    assert white.send(b"3", SYNC, begun.conv_id).code is Code.MAX_MESSAGES
    assert white.send(b"1").code is Code.MAX_UOWS
    assert white.send(b"1", service="NONE").code is Code.UOWS_NOT_SUPPORTED
    other = white.send(b"x" * 20, SYNC, service="OTHER")
    assert [white.send(b"more", SYNC, other.conv_id).code for _ in range(3)] == [Code.OK, Code.OK, Code.MAX_MESSAGES]
    assert [white.send(b"1", service="OTHER").code for _ in range(3)] == [Code.OK, Code.OK, Code.MAX_UOWS]
    white.sync(Option.BACKOUT, begun.uowid)
    assert white.send(b"1").code is Code.OK


def test_max_uows_of_0_switches_units_of_work_off() -> None:
    white = Person(Desk(attributes(max_uows="0")), "WHITE")
    assert white.send(b"1").code is Code.UOWS_NOT_ALLOWED
    assert white.send(b"1", SYNC).code is Code.UOWS_NOT_ALLOWED
