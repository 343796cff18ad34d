"""Coming and going: LOGON, LOGOFF, REGISTER, DEREGISTER, lost connections, and who is whom."""

import pytest

from oms_journal.broker.attributes.attributes import parse_attributes
from oms_journal.broker.block import Function, Option, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status
from tests.support.broker.kernel_desk import CHESS, Desk, Person, attributes

SYNC, COMMIT, NONE = Option.SYNC, Option.COMMIT, Option.NONE


def test_units_of_work_need_a_logon(desk: Desk, black: Person) -> None:
    nobody = Person(desk, "NOBODY", caller=5, logs_on=False)
    assert nobody.send(b"x").code is Code.LOGON_REQUIRED
    assert nobody.send(b"x", SYNC).code is Code.LOGON_REQUIRED
    assert nobody.receive("1000000100000001").code is Code.LOGON_REQUIRED
    assert nobody.sync(Option.LAST).code is Code.LOGON_REQUIRED
    assert nobody.send(b"x", NONE).code is Code.OK


def test_a_participant_without_token_is_its_connection(desk: Desk, black: Person) -> None:
    one = Person(desk, "SAME", caller=5)
    two = Person(desk, "SAME", caller=6)
    sent = one.send(b"message", NONE)
    assert two.send(b"x", NONE, sent.conv_id).code is Code.NO_CONVERSATION
    unit = one.send(b"unit")
    assert two.sync(Option.LAST).uowid == unit.uowid, "units of work go by USER-ID and blank"


def test_a_token_means_one_place_and_the_last_logon_counts(desk: Desk, white: Person, black: Person) -> None:
    begun = white.send(b"begun", SYNC)
    sent = white.send(b"sent")
    elsewhere = Person(desk, "WHITE", "PC1", caller=77)
    assert white.sync(Option.LAST).code is Code.NEW_LOCATION
    assert elsewhere.sync(Option.QUERY, begun.uowid).code is Code.UOW_NOT_FOUND, "what was being sent is backed out"
    assert elsewhere.sync(Option.QUERY, sent.uowid).status is Status.ACCEPTED


def test_what_was_being_received_elsewhere_is_given_back(desk: Desk, white: Person, black: Person) -> None:
    sent = white.send(b"e4")
    black.receive()
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS)
    elsewhere = Person(desk, "BLACK", "PC2", caller=77)
    assert desk.answers[waiting].code is Code.NEW_LOCATION
    got = elsewhere.receive()
    assert (got.uowid, got.reply.adcount) == (sent.uowid, 1)


def test_a_service_must_be_defined_and_registered_or_deferred() -> None:
    desk = Desk(
        parse_attributes(
            "DEFAULTS=BROKER BROKER-ID=ETB001 MAX-UOWS=10 DEFAULTS=SERVICE "
            "CLASS=GAME SERVER=CHESS SERVICE=BLACK CLASS=GAME SERVER=CHESS SERVICE=LATER DEFERRED=YES"
        )
    )
    white = Person(desk, "WHITE", "T")
    assert white.send(b"x", service="OTHER").code is Code.SERVICE_UNDEFINED
    assert white.register(service="OTHER").code is Code.SERVICE_UNDEFINED
    assert white.send(b"x", store=Store.OFF).code is Code.SERVICE_NOT_REGISTERED
    assert white.send(b"x", service="LATER").code is Code.OK
    assert white.send(b"x", NONE, service="LATER").code is Code.SERVICE_NOT_REGISTERED, "messages are not deferred"
    black = Person(desk, "BLACK", "T", caller=2)
    black.register()
    assert white.send(b"x").code is Code.OK


def test_registering_twice_is_once_and_attach_is_another_thing(desk: Desk, black: Person) -> None:
    assert black.register().code is Code.OK
    assert black.call(Function.REGISTER, Option.ATTACH, **CHESS).code is Code.ALREADY_WITHOUT_ATTACH
    other = Person(desk, "ATTACH", caller=9)
    assert other.call(Function.REGISTER, Option.ATTACH, **CHESS).code is Code.OK
    assert other.register().code is Code.ALREADY_ATTACH


@pytest.mark.parametrize("blank", ["server_class", "server_name", "service"])
def test_a_service_has_all_three_names(desk: Desk, white: Person, blank: str) -> None:
    for option in (Option.NONE, Option.SYNC, Option.COMMIT):
        assert white.send(b"x", option, **{blank: ""}).code is Code.INVALID_SERVICE_NAME
    assert white.register(**{blank: ""}).code is Code.INVALID_SERVICE_NAME


def test_an_attach_server_gets_no_conversations(desk: Desk, white: Person) -> None:
    attach = Person(desk, "ATTACH", caller=9)
    attach.call(Function.REGISTER, Option.ATTACH, **CHESS)
    white.send(b"x")
    assert attach.receive("NEW").code is Code.NO_CONVERSATION


# DEREGISTER.


def test_deregister_ends_conversations_of_messages(desk: Desk, white: Person, black: Person) -> None:
    received, waiting = white.send(b"1", NONE), white.send(b"2", NONE)
    black.receive("NEW", NONE)
    assert black.call(Function.DEREGISTER, **CHESS).code is Code.OK
    for sent in (received, waiting):
        assert white.receive(sent.conv_id, NONE).code is Code.PARTNER_DEREGISTERED
    assert black.call(Function.DEREGISTER, **CHESS).code is Code.DEREGISTER_BY_CLIENT
    assert black.receive("NEW").code is Code.RECEIVE_NEW_BY_CLIENT


def test_deregister_is_refused_over_units_of_work_and_immed_backs_them_out(
    desk: Desk, white: Person, black: Person
) -> None:
    sent = white.send(b"e4")
    black.receive()
    assert black.call(Function.DEREGISTER, **CHESS).code is Code.DEREGISTER_NOT_COMPLETE
    assert white.sync(Option.QUERY, sent.uowid).status is Status.DELIVERED
    assert black.call(Function.DEREGISTER, Option.IMMED, **CHESS).code is Code.OK
    asked = white.sync(Option.QUERY, sent.uowid)
    assert (asked.status, asked.reply.adcount) == (Status.ACCEPTED, 1)
    black.register()
    assert black.receive().uowid == sent.uowid


def test_quiesce_lets_conversations_go_on_and_gives_no_new_ones(desk: Desk, white: Person, black: Person) -> None:
    old = white.send(b"1", NONE)
    black.receive("NEW", NONE)
    assert black.call(Function.DEREGISTER, Option.QUIESCE, **CHESS).code is Code.OK
    assert white.send(b"2", NONE).code is Code.SERVICE_NOT_REGISTERED
    white.send(b"deferred")
    assert black.receive("NEW").code is not Code.OK
    white.send(b"3", NONE, old.conv_id)
    assert black.receive("OLD", NONE).body == b"3"
    white.call(Function.EOC, conv_id=old.conv_id)
    assert black.receive("NEW").code is Code.RECEIVE_NEW_BY_CLIENT, "the last conversation is done"
    black.register()
    assert black.receive("NEW").body == b"deferred"


def test_quiesce_without_conversations_is_done_at_once(desk: Desk, black: Person) -> None:
    assert black.call(Function.DEREGISTER, Option.QUIESCE, **CHESS).code is Code.OK
    assert black.receive("NEW").code is Code.RECEIVE_NEW_BY_CLIENT


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("answers", [False, True])
def test_quiesce_is_done_when_the_last_conversation_is_given_back(
    desk: Desk, white: Person, black: Person, answers: bool, is_late: bool
) -> None:
    sent = white.send(b"e4", uwtime="10S")
    black.receive()
    if answers:
        black.send(b"e5", COMMIT, sent.conv_id)
    assert black.call(Function.DEREGISTER, Option.QUIESCE, **CHESS).code is Code.OK
    assert black.sync(Option.QUERY, sent.uowid).status is Status.DELIVERED
    if is_late:
        desk.tick(20)
    assert black.sync(Option.BACKOUT, sent.uowid).code is Code.OK
    assert black.receive("ANY").code is Code.RECEIVE_ANY_BY_CLIENT, "the conversation is everybody's, and no longer its"
    assert desk.kernel.world.quiescing == 0


def test_deregister_with_patterns_names_several_services(desk: Desk, black: Person) -> None:
    black.register(service="A")
    black.register(service="B", server_name="OTHER")
    assert black.call(Function.DEREGISTER, server_class="GAME", server_name="CHESS", service="*").code is Code.OK
    left = desk.kernel.world.participants["BLACK", "PC2", 0].services
    assert list(left) == [("GAME", "OTHER", "B")]


def test_who_waits_for_a_service_it_leaves_is_told(desk: Desk, black: Person) -> None:
    waiting = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS)
    black.call(Function.DEREGISTER, **CHESS)
    assert desk.answers[waiting].code is Code.SERVICE_NOT_REGISTERED


# LOGOFF and lost connections.


def test_logoff_of_who_is_not_there(desk: Desk) -> None:
    assert Person(desk, "NOBODY", caller=5, logs_on=False).call(Function.LOGOFF).code is Code.USER_UNKNOWN


@pytest.mark.parametrize("is_gone", [True, False])
def test_who_leaves_backs_out_what_it_was_doing(desk: Desk, white: Person, black: Person, is_gone: bool) -> None:
    sent = white.send(b"e4")
    black.receive()
    answer = black.send(b"e5", SYNC, sent.conv_id, uwstatp=2)
    if is_gone:
        black.gone()
    else:
        black.call(Function.LOGOFF)
    asked = white.sync(Option.QUERY, sent.uowid)
    assert (asked.status, asked.reply.adcount) == (Status.ACCEPTED, 1)
    again = Person(desk, "BLACK", "PC2", caller=20)
    assert again.sync(Option.QUERY, answer.uowid).status is Status.BACKEDOUT
    again.register()
    assert again.receive().body == b"e4"


@pytest.mark.parametrize("is_gone", [True, False])
def test_partners_of_messages_are_told_who_left(desk: Desk, white: Person, black: Person, is_gone: bool) -> None:
    sent = white.send(b"1", NONE)
    black.receive("NEW", NONE)
    black.gone() if is_gone else black.call(Function.LOGOFF)
    assert white.receive(sent.conv_id, NONE).code is Code.PARTNER_LOGGED_OFF


def test_what_a_server_with_token_is_bound_to_waits_for_it(desk: Desk, white: Person, black: Person) -> None:
    twin = Person(desk, "BLACK", "PC3", caller=3)
    twin.register()
    first = white.send(b"1")
    black.sync(COMMIT, black.receive().uowid)
    white.send(b"2", COMMIT, first.conv_id)
    black.call(Function.LOGOFF)
    assert twin.receive("ANY").code is Code.NO_CONVERSATION
    again = Person(desk, "BLACK", "PC2", caller=20)
    again.register()
    assert again.receive("ANY").body == b"2"


def test_what_a_server_without_token_was_bound_to_is_everybodys_when_it_leaves(desk: Desk, white: Person) -> None:
    one, two = (Person(desk, "BLACK", caller=at) for at in (30, 31))
    one.register()
    two.register()
    first = white.send(b"1")
    one.sync(COMMIT, one.receive().uowid)
    white.send(b"2", COMMIT, first.conv_id)
    assert two.receive("ANY").code is Code.NO_CONVERSATION
    one.gone()
    assert two.receive("ANY").body == b"2"


def test_a_conversation_without_anything_left_ends_with_who_leaves(desk: Desk, white: Person, black: Person) -> None:
    sent = white.send(b"1")
    black.sync(COMMIT, black.receive().uowid)
    white.call(Function.LOGOFF)
    assert black.send(b"answer", SYNC, sent.conv_id).code is Code.PARTNER_LOGGED_OFF
    assert desk.kernel.world.conversations == {}


def test_several_participants_of_one_connection_go_together(desk: Desk, black: Person) -> None:
    people = [Person(desk, f"P{at}", "T", caller=50) for at in range(3)]
    sent = [person.send(b"x", SYNC, uwstatp=1) for person in people]
    people[0].gone()
    for at, _person in enumerate(people):
        again = Person(desk, f"P{at}", "T", caller=60 + at)
        assert again.sync(Option.QUERY, sent[at].uowid).status is Status.BACKEDOUT


def test_nothing_is_left_of_who_has_left(desk: Desk, white: Person, black: Person) -> None:
    for at in range(5):
        sent = white.send(b"%d" % at)
        black.receive("NEW")
        black.sync(COMMIT, sent.uowid)
        white.call(Function.EOC, conv_id=sent.conv_id)
    white.call(Function.LOGOFF)
    black.call(Function.LOGOFF)
    world = desk.kernel.world
    for place in (world.participants, world.owners, world.connections, world.numbered, world.conversations):
        assert not place
    assert not world.active and not world.instances and not world.dues.participants and not world.dues.conversations
    assert world.active_count == world.talk_count == 0


# Versions.


def test_every_participant_has_a_number_of_its_own(desk: Desk) -> None:
    numbers = [
        desk.call(Function.LOGON, user_id=user, token=token, caller=at).reply.client_id
        for at, (user, token) in enumerate([("A", ""), ("A", ""), ("A", "T"), ("B", "T")], start=1)
    ]
    assert len(set(numbers)) == 4 and min(numbers) > 0
    assert desk.call(Function.LOGON, user_id="B", token="T", caller=4).reply.client_id == numbers[-1]


def test_versions_are_told_to_anybody(desk: Desk) -> None:
    anybody = Person(desk, "", logs_on=False)
    assert "ACI" in anybody.call(Function.VERSION).reply.versions
    assert "ETB001" in anybody.call(Function.KERNELVERS).reply.versions or "broker" in (
        anybody.call(Function.KERNELVERS).reply.versions
    )
    assert "bytes" in anybody.call(Function.KERNELVERS, Option.EXTENDED).reply.versions


def test_another_brokers_id_is_refused() -> None:
    desk = Desk(attributes(max_uows="1"))
    white = Person(desk, "WHITE")
    assert white.send(b"x", broker_id="ELSEWHERE").code is Code.INVALID_BROKER_ID
    assert white.send(b"x", broker_id=desk.attributes.broker.broker_id).code is Code.OK
