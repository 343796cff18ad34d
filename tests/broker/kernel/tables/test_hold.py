"""Units of work that are held since their store was restored from a backup: nobody gets them, and what ends that."""

import random
from collections import deque
from collections.abc import Callable
from itertools import permutations

import pytest

from oms_journal.broker.block import BOTH, Function, Option
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.conversations.dormancy import conversation
from oms_journal.broker.kernel.restart.table import after_restart
from oms_journal.broker.kernel.state.conversation import SERVER
from oms_journal.broker.kernel.state.effects import DiscardHeld, Purge, ReleaseHeld, SetStatus, StoreBack, StoreLost
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_states import VARIATIONS, Variation
from oms_journal.broker.records import HOLD, HOLD_KEY, UOW, UOWS, Flag, Status
from oms_journal.broker.store.start import RESTORED_KEY
from tests.broker.kernel.units.test_square import LIFETIME, REACHED, Game
from tests.support.broker.kernel_desk import CHESS, Desk, Person, Said, attributes
from tests.support.sweeps import a_sample, for_each

SYNC, COMMIT, QUERY, CANCEL = Option.SYNC, Option.COMMIT, Option.QUERY, Option.CANCEL
OPERATOR = 900_000  # whom the answers belong to
PERSISTENT = [variation for variation in VARIATIONS if variation.uow]
WAITING = (Status.ACCEPTED, Status.DELIVERED, Status.POSTPONED)


def people(desk: Desk) -> tuple[Person, Person]:
    white, black = Person(desk, "WHITE", "T"), Person(desk, "BLACK", "T", caller=2)
    black.register()
    return white, black


def order(desk: Desk, command: ReleaseHeld | DiscardHeld | Purge | SetStatus) -> Code:
    """Return what an operator is answered."""
    desk.give(command)
    return desk.answers.pop(OPERATOR).code


def release(desk: Desk, *uowids: str) -> Code:
    return order(desk, ReleaseHeld(OPERATOR, uowids))


def discard(desk: Desk, *uowids: str, status: Status = Status.DISCARDED) -> Code:
    return order(desk, DiscardHeld(OPERATOR, uowids, status))


def drained(person: Person, conv_id: str = "ANY") -> list[bytes | None]:
    """Receive and commit all there is; return the bodies."""
    found = []
    while (got := person.receive(conv_id)).code is Code.OK:
        found.append(got.body)
        assert person.sync(COMMIT, got.uowid).code is Code.OK
    return found


def held(desk: Desk) -> int:
    return desk.kernel.world.withheld.unit_count


@for_each("is_reply", [False, True])
@for_each("variation", VARIATIONS)
@for_each("status", REACHED)
def test_what_waited_when_the_store_was_restored_is_held_and_nothing_else(
    status: Status, variation: Variation, is_reply: bool
) -> None:
    game = Game(variation, is_reply=is_reply)
    game.bring_to(status)
    expected = after_restart(status, variation)
    desk = game.desk.restored()
    white, black = people(desk)
    sender, receiver = (black, white) if is_reply else (white, black)
    is_held = status in WAITING and variation.uow

    assert held(desk) == is_held
    asked = sender.sync(QUERY, game.uowid)
    assert asked.status is expected.status
    assert ("held" in asked.reply.text) == is_held
    assert receiver.receive(game.conv_id if is_reply else "ANY").code is not Code.OK
    assert (HOLD_KEY in desk.paper.keys) == is_held
    assert RESTORED_KEY not in desk.paper.keys
    assert white.send(b"new").code is Code.OK
    assert drained(black) == [b"new"], "what is new is not held"


def test_all_of_it_is_held_by_one_record_in_one_commit() -> None:
    desk = Desk()
    white, _ = people(desk)
    for number in range(2_000):
        white.send(b"%d" % number)
    before = len(desk.paper.commits)
    again = desk.restored()
    (commit,) = again.paper.commits[before:]

    assert [put.key for put in commit.puts] == [HOLD_KEY]
    assert commit.drops == [RESTORED_KEY]
    hold = HOLD.decode(again.paper.keys[HOLD_KEY])
    assert (hold.last, hold.source) == (again.paper.newest, "/backup/orders")
    assert held(again) == 2_000
    assert len(again.kernel.world.units) == 2_000, "and all of it sleeps"
    assert any("units of work 2,000" in note for note in again.kernel.world.notes)


def test_a_store_where_nothing_waits_holds_nothing() -> None:
    desk = Desk()
    white, black = people(desk)
    white.send(b"1", uwstatp=2)
    assert drained(black) == [b"1"]
    again = desk.restored()
    assert (held(again), RESTORED_KEY in again.paper.keys, HOLD_KEY in again.paper.keys) == (0, False, False)
    assert again.kernel.world.withheld.last == 0


# Order.


def test_what_is_sent_behind_in_the_conversation_waits_with_it() -> None:
    desk = Desk()
    white, black = people(desk)
    first = white.send(b"1")
    again = desk.restored()
    white, black = people(again)
    assert white.send(b"2", COMMIT, first.conv_id).code is Code.OK
    assert white.send(b"other").code is Code.OK

    assert drained(black) == [b"other"]
    again = again.restart()
    white, black = people(again)
    assert drained(black) == [], "a restart keeps the hold"
    assert release(again, first.uowid) is Code.OK
    assert drained(black) == [b"1", b"2"]


def test_a_discarded_one_lets_those_behind_it_go_on() -> None:
    desk = Desk()
    white, _ = people(desk)
    first = white.send(b"1")
    second = white.send(b"2", COMMIT, first.conv_id)
    again = desk.restored()
    white, black = people(again)
    white.send(b"3", COMMIT, first.conv_id)
    assert discard(again, first.uowid) is Code.OK
    assert drained(black) == [], "the second is held as well"
    assert discard(again, second.uowid) is Code.OK
    assert drained(black) == [b"3"]


def test_a_released_one_behind_a_held_one_waits_for_it() -> None:
    desk = Desk()
    white, _ = people(desk)
    first = white.send(b"1")
    second = white.send(b"2", COMMIT, first.conv_id)
    again = desk.restored()
    for _ in range(2):
        white, black = people(again)
        assert release(again, second.uowid) is (Code.OK if _ == 0 else Code.WRONG_STATUS)
        assert drained(black) == []
        again = again.restart()
    white, black = people(again)
    assert release(again, first.uowid) is Code.OK
    assert drained(black) == [b"1", b"2"]


def test_released_ones_come_in_the_order_of_their_commits_and_before_what_is_new() -> None:
    desk = Desk()
    white, _ = people(desk)
    old = [white.send(b"%d" % number) for number in range(5)]
    again = desk.restored()
    white, black = people(again)
    white.send(b"new")
    assert release(again, *(each.uowid for each in reversed(old))) is Code.OK
    assert drained(black) == [b"0", b"1", b"2", b"3", b"4", b"new"]
    assert held(again) == 0


@pytest.mark.parametrize("decide", [release, discard])
@pytest.mark.parametrize("named", [*permutations(range(3))], ids=str)
def test_who_waits_gets_the_oldest_of_what_becomes_free_in_whatever_order_it_is_named(
    named: tuple[int, ...], decide: Callable[..., Code]
) -> None:
    desk = Desk()
    white, _ = people(desk)
    sent = [white.send(b"%d" % number) for number in range(3)]
    behind = [white.send(b"+%d" % number, COMMIT, said.conv_id).uowid for number, said in enumerate(sent)]
    again = desk.restored()
    _, black = people(again)
    if decide is discard:
        assert release(again, *behind) is Code.OK  # each waits for the held one before it
    handle = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS)
    assert decide(again, *(sent[number].uowid for number in named)) is Code.OK
    assert again.answers[handle].body == (b"+0" if decide is discard else b"0")


def test_who_waits_gets_what_is_released() -> None:
    desk = Desk()
    white, _ = people(desk)
    sent = white.send(b"1")
    again = desk.restored()
    _, black = people(again)
    handle = black.start(Function.RECEIVE, SYNC, conv_id="NEW", wait="YES", **CHESS)
    assert handle not in again.answers
    assert release(again, sent.uowid) is Code.OK
    assert again.answers[handle].body == b"1"


def test_a_conversation_of_an_instance_is_held_for_it_and_then_goes_on_with_it() -> None:
    desk = Desk()
    white, black = people(desk)
    first = white.send(b"1")
    black.sync(COMMIT, black.receive().uowid)
    second = white.send(b"2", COMMIT, first.conv_id)
    again = desk.restored()
    twin = Person(again, "TWIN", "T", caller=5)
    twin.register()
    _, black = people(again)
    assert black.receive("OLD").code is not Code.OK
    assert again.kernel.world.instances == {}
    assert release(again, second.uowid) is Code.OK
    assert twin.receive("ANY").code is Code.NO_CONVERSATION
    assert black.receive("OLD").body == b"2"


def test_an_answer_is_held_for_its_client_and_another_goes_with_both_units_of_work() -> None:
    desk = Desk()
    white, black = people(desk)
    first = white.send(b"question")
    got = black.receive()
    answer = black.send(b"answer", SYNC, first.conv_id)
    assert black.sync(COMMIT, BOTH).code is Code.OK
    again = desk.restored()
    white, black = people(again)
    assert white.receive(first.conv_id).code is Code.NO_UOWS
    assert release(again, got.uowid) is not Code.OK
    assert release(again, answer.uowid) is Code.OK
    assert white.receive(first.conv_id).body == b"answer"

    other = white.send(b"another question")
    assert black.receive().uowid == other.uowid
    assert black.send(b"another answer", SYNC, other.conv_id).code is Code.OK
    assert black.sync(COMMIT, BOTH).code is Code.OK
    assert white.receive(other.conv_id).body == b"another answer"


def test_a_held_one_behind_a_released_one_is_looked_for_by_nobody_and_does_not_time_out() -> None:
    desk = Desk()
    white, _ = people(desk)
    first = white.send(b"1", uwtime="100S")
    second = white.send(b"2", COMMIT, first.conv_id, uwtime="100S", uwstatp=2)
    again = desk.restored()
    white, black = people(again)
    assert release(again, first.uowid) is Code.OK
    assert drained(black) == [b"1"]
    world = again.kernel.world
    assert (len(world.services["GAME", "CHESS", "BLACK"].waiting), world.instances) == (0, {})
    again.tick(200)
    assert (white.sync(QUERY, second.uowid).status, held(again)) == (Status.ACCEPTED, 1)
    assert release(again, second.uowid) is Code.OK
    assert drained(black, first.conv_id) == [b"2"]


# Lifetimes.


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("is_awake", [False, True])
def test_the_lifetime_of_a_held_one_stands_still_and_then_goes_on(is_awake: bool, restarts: bool) -> None:
    desk = Desk()
    white, _ = people(desk)
    sent = white.send(b"1", uwtime="100S")
    kept = white.send(b"2", uwtime="100S", uwstatp=2)
    desk.tick(40)
    again = desk.restored()
    white, black = people(again)
    if is_awake:
        assert white.sync(QUERY, sent.uowid).status is Status.ACCEPTED
    again.tick(1_000)
    again = again.restart()
    white, black = people(again)
    if is_awake:
        assert white.sync(QUERY, sent.uowid).status is Status.ACCEPTED
    again.tick(1_000)
    assert release(again, sent.uowid, kept.uowid) is Code.OK
    again.tick(59)
    assert white.sync(QUERY, sent.uowid).status is Status.ACCEPTED
    if restarts:
        again = again.restart()
        white, black = people(again)
    again.tick(2)
    assert drained(black) == []
    assert white.sync(QUERY, kept.uowid).status is Status.TIMEOUT


def test_what_is_new_lives_on_while_others_are_held() -> None:
    desk = Desk()
    white, _ = people(desk)
    white.send(b"held", uwtime="100S")
    again = desk.restored()
    white, _ = people(again)
    sent = white.send(b"new", uwtime="100S", uwstatp=2)
    again.tick(101)
    assert white.sync(QUERY, sent.uowid).status is Status.TIMEOUT
    assert held(again) == 1


def test_a_postponed_one_is_held_and_once_released_has_its_delay_left() -> None:
    game = Game(Variation(True, True))
    game.bring_to(Status.POSTPONED)
    desk = game.desk.restored()
    white, black = people(desk)
    desk.tick(10 * LIFETIME)
    assert white.sync(QUERY, game.uowid).status is Status.POSTPONED
    assert release(desk, game.uowid) is Code.OK
    assert white.sync(QUERY, game.uowid).status is Status.POSTPONED
    assert black.receive("ANY").code is not Code.OK
    desk.tick(LIFETIME - 1)
    assert black.receive("ANY").uowid == game.uowid


# What else may be done to it.


@pytest.mark.parametrize("variation", PERSISTENT)
def test_its_sender_sees_it_and_cannot_cancel_what_may_have_been_received(variation: Variation) -> None:
    game = Game(variation)
    game.bring_to(Status.ACCEPTED)
    desk = game.desk.restored()
    white, black = people(desk)
    said = white.sync(CANCEL, game.uowid)
    assert said.code is Code.WRONG_STATUS
    assert "held" in said.reply.text
    assert white.sync(Option.SETUSTATUS, game.uowid, ustatus="late").code is Code.OK
    asked = white.sync(QUERY, game.uowid)
    assert (asked.status, asked.reply.ustatus, held(desk)) == (Status.ACCEPTED, "late", 1)
    assert white.sync(Option.LAST).uowid == game.uowid
    assert black.sync(CANCEL, game.uowid).code is Code.NOT_THE_CREATOR
    assert release(desk, game.uowid) is Code.OK
    assert white.sync(CANCEL, game.uowid).code is Code.OK


@pytest.mark.parametrize("variation", PERSISTENT)
def test_an_operator_may_purge_or_cancel_it_and_accepts_it_with_release_only(variation: Variation) -> None:
    for command, left in ((Purge(OPERATOR, ""), None), (SetStatus(OPERATOR, "", Status.CANCELLED), Status.CANCELLED)):
        game = Game(variation)
        game.bring_to(Status.ACCEPTED)
        desk = game.desk.restored()
        white, _ = people(desk)
        assert order(desk, SetStatus(OPERATOR, game.uowid, Status.ACCEPTED)) is Code.WRONG_STATUS
        named = (
            Purge(OPERATOR, game.uowid)
            if isinstance(command, Purge)
            else SetStatus(OPERATOR, game.uowid, command.status)
        )
        assert order(desk, named) is Code.OK
        assert white.sync(QUERY, game.uowid).status is (left if variation.status else None)
        assert (held(desk), desk.paper.messages) == (0, {})


@pytest.mark.parametrize("to", [Status.DISCARDED, Status.PROCESSED])
@pytest.mark.parametrize("variation", PERSISTENT)
@pytest.mark.parametrize("status", WAITING)
def test_a_discarded_one_is_gone_and_its_status_says_how(status: Status, variation: Variation, to: Status) -> None:
    game = Game(variation)
    game.bring_to(status)
    desk = game.desk.restored()
    assert discard(desk, game.uowid, status=to) is Code.OK
    for one in (desk, desk.restart()):
        white, black = people(one)
        assert white.sync(QUERY, game.uowid).status is (to if variation.status else None)
        assert black.receive("ANY").code is Code.NO_CONVERSATION
        assert (one.paper.messages, held(one)) == ({}, 0)
    last = desk.paper.commits[-3:]
    removed = [each for each in last if each.delivered or each.deleted]
    assert len(removed) == 1
    assert bool(removed[0].delivered) == (to is Status.PROCESSED)


def test_what_is_not_held_is_neither_released_nor_discarded_and_nothing_of_the_order_is_done() -> None:
    desk = Desk()
    white, _ = people(desk)
    old = white.send(b"old")
    again = desk.restored()
    white, black = people(again)
    new = white.send(b"new")
    for wrong, code in ((new.uowid, Code.WRONG_STATUS), ("1" * 16, Code.UOW_NOT_FOUND), ("?", Code.UOW_NOT_FOUND)):
        assert release(again, old.uowid, wrong) is code
        assert discard(again, old.uowid, wrong) is code
    assert release(again, *[old.uowid] * 1001) is Code.VALUE_INVALID
    assert held(again) == 1
    assert release(again, old.uowid, old.uowid) is Code.OK
    assert release(again, old.uowid) is Code.WRONG_STATUS
    assert drained(black) == [b"old", b"new"]


def test_a_repeat_of_the_producer_is_answered_with_what_is_held() -> None:
    desk = Desk()
    white, _ = people(desk)
    sent = white.send(b"1", producer="p1")
    again = desk.restored()
    white, black = people(again)
    said = white.send(b"1", producer="p1")
    assert (said.code, said.uowid, said.status) == (Code.OK, sent.uowid, Status.ACCEPTED)
    assert drained(black) == []
    assert len(again.paper.messages) == 1


# The store.


def test_without_the_store_nothing_is_released_and_with_it_again_all_is_as_before() -> None:
    desk = Desk()
    white, _ = people(desk)
    sent = white.send(b"1", uwtime="100S")
    again = desk.restored()
    _, black = people(again)
    again.give(StoreLost())
    assert release(again, sent.uowid) is Code.UOW_NOT_PERSISTED
    assert discard(again, sent.uowid) is Code.UOW_NOT_PERSISTED
    again.tick(200)
    again.give(StoreBack())
    assert (drained(black), held(again)) == ([], 1)
    again.is_slow = True
    again.give(ReleaseHeld(OPERATOR, (sent.uowid,)))
    assert OPERATOR not in again.answers, "it is not released before that is durable"
    again.fail()
    assert again.answers.pop(OPERATOR).code is Code.UOW_NOT_PERSISTED
    again.is_slow = False
    again.give(StoreBack())
    assert (drained(black), held(again)) == ([], 1)
    assert release(again, sent.uowid) is Code.OK
    assert drained(black) == [b"1"]


def test_what_was_released_is_held_again_when_the_store_is_restored_again() -> None:
    desk = Desk()
    white, _ = people(desk)
    sent = white.send(b"1", uwtime="100S")
    again = desk.restored()
    assert release(again, sent.uowid) is Code.OK
    assert UOW.decode(again.paper.keys[UOWS + sent.uowid]).flags & Flag.RELEASED
    twice = again.restored()
    _, black = people(twice)
    assert (drained(black), held(twice)) == ([], 1)
    assert not UOW.decode(twice.paper.keys[UOWS + sent.uowid]).flags & Flag.RELEASED
    twice.tick(200)
    thrice = twice.restored()
    thrice.tick(200)
    assert release(thrice, sent.uowid) is Code.OK
    thrice.tick(1)
    assert drained(people(thrice)[1]) == [b"1"]


def test_the_hold_is_forgotten_with_the_last_that_is_held() -> None:
    desk = Desk()
    white, _ = people(desk)
    sent = [white.send(b"%d" % number).uowid for number in range(3)]
    again = desk.restored()
    again.tick()
    assert release(again, sent[0]) is Code.OK
    assert discard(again, sent[1]) is Code.OK
    again.tick()
    assert HOLD_KEY in again.paper.keys
    again.is_slow = True
    again.give(Purge(OPERATOR, sent[2]))
    again.tick()
    assert HOLD_KEY in again.paper.keys
    again.is_slow = False
    again.settle()
    again.tick()
    again.tick()
    assert HOLD_KEY not in again.paper.keys
    assert again.kernel.world.withheld.last == 0
    assert "nothing is held any more" in again.logs[-1]
    assert drained(people(again.restart())[1]) == [b"0"]


def test_released_ones_sleep_again_where_nobody_serves() -> None:
    desk = Desk()
    white, _ = people(desk)
    sent = [white.send(b"%d" % number).uowid for number in range(300)]
    again = desk.restored()
    assert release(again, *sent) is Code.OK
    world = again.kernel.world
    assert (len(world.active), len(world.conversations), len(world.units)) == (0, 0, 300)
    assert drained(people(again)[1]) == [b"%d" % number for number in range(300)]


@a_sample(4)
@pytest.mark.parametrize("is_served", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_many_of_one_conversation_are_decided_about_together_in_any_order(seed: int, is_served: bool) -> None:
    desk, rng = Desk(), random.Random(seed)
    white, _ = people(desk)
    first = white.send(b"0")
    sent = [first.uowid, *(white.send(b"%d" % at, COMMIT, first.conv_id).uowid for at in range(1, 200))]
    again = desk.restored()
    if is_served:
        people(again)
    gone, released, left = (set(part) for part in (range(0, 140, 2), range(1, 140, 2), range(140, 200)))
    for numbers, decide in ((released, release), (gone, discard)):
        some = list(numbers)
        rng.shuffle(some)
        assert decide(again, *(sent[at] for at in some)) is Code.OK
    assert held(again) == len(left)
    assert drained(people(again)[1]) == [b"%d" % number for number in sorted(released)]
    assert release(again, *(sent[at] for at in left)) is Code.OK
    assert drained(people(again)[1]) == [b"%d" % number for number in sorted(left)]
    assert again.paper.messages == {}


class Searched(deque[UnitOfWork | int]):
    """A line that counts what a search in it goes past."""

    passed = 0

    def index(self, wanted: UnitOfWork | int, *among: int) -> int:
        found = super().index(wanted, *among)
        Searched.passed += found
        return found

    def remove(self, wanted: UnitOfWork | int) -> None:
        self.index(wanted)
        super().remove(wanted)


@pytest.mark.parametrize("decide", [release, discard])
def test_those_of_a_long_line_are_not_searched_for_one_by_one(
    decide: Callable[..., Code], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    white, _ = people(desk)
    first = white.send(b"0")
    sent = [first.uowid, *(white.send(b"%d" % at, COMMIT, first.conv_id).uowid for at in range(1, 400))]
    again = desk.restored()
    talk = conversation(again.kernel.world, first.conv_id)
    assert talk is not None
    talk.lines[SERVER] = Searched(talk.lines[SERVER])
    monkeypatch.setattr(Searched, "passed", 0)
    assert decide(again, *reversed(sent[1::2])) is Code.OK
    assert isinstance(talk.lines[SERVER], Searched)
    assert Searched.passed < 400, "one by one they would be found behind some 40,000 others"


# All of it together.


def play(rng: random.Random) -> Desk:
    """Return the desk of a broker that has had some calls: several conversations, answers, and what waits in them."""
    desk = Desk(attributes(max_delivery_count="2", postpone_attempts="1", postpone_delay="1S"))
    white, black = people(desk)
    sent: list[Said] = []
    for number in range(rng.randrange(1, 30)):
        match rng.randrange(8):
            case 0 | 1 | 2:
                sent.append(white.send(b"new %d" % number, uwstatp=rng.choice((2, 255))))
            case 3 | 4 if sent:
                white.send(b"more %d" % number, COMMIT, rng.choice(sent).conv_id, uwtime="1H")
            case 5 if sent:
                black.send(b"answer %d" % number, COMMIT, rng.choice(sent).conv_id)
            case 6:
                got = black.receive("ANY")
                if got.code is Code.OK:
                    black.sync(rng.choice((COMMIT, COMMIT, Option.BACKOUT)), got.uowid)
            case _:
                black.receive("ANY")
    return desk


def received(desk: Desk) -> list[tuple[bytes | None, int]]:
    """Receive all there is on both sides; return the bodies with the attempts."""
    white, black = people(desk)
    found = []
    desk.tick(2)
    for person in (black, white):
        conversations = sorted({record.conv_id for record in desk.paper.uows().values()})
        for conv_id in ["ANY"] if person is black else conversations:
            while (got := person.receive(conv_id)).code is Code.OK:
                found.append((got.body, got.reply.adcount))
                assert person.sync(COMMIT, got.uowid).code is Code.OK
    return found


@for_each("seed", range(300), sample=35, is_long=True)
def test_all_that_is_released_is_received_as_after_a_plain_restart(seed: int) -> None:
    plain = received(play(random.Random(seed)).restart())
    desk = play(random.Random(seed)).restored()
    rng = random.Random(seed)

    assert received(desk) == []
    assert held(desk) == len(plain)
    waiting = [each.uowid for each in sorted(desk.paper.uows().values(), key=lambda each: each.first) if each.first]
    waiting = [uowid for uowid in waiting if desk.paper.uows()[uowid].status in WAITING]
    if rng.random() < 0.5:
        rng.shuffle(waiting)
    for start in range(0, len(waiting), 3):
        assert release(desk, *waiting[start : start + 3]) is Code.OK
        if rng.random() < 0.3:
            desk = desk.restart()
    assert received(desk) == plain
    assert held(desk) == 0
    assert desk.paper.messages == {}
