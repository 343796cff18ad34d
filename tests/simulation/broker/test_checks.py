"""What the broker's simulated world holds against a broker, where that alone can be looked at: no more, and no less."""

from collections.abc import Iterator

import pytest

from oms_journal.broker.block import Function, Option, Reception, Reply, Store
from oms_journal.broker.records import Status
from oms_journal.recovery.report import RecoveryReport, Suspect
from tests.simulation.broker.damage import not_held, places_of
from tests.simulation.broker.edges import simulated_edges
from tests.simulation.broker.machine import Machine, MachineDesk
from tests.simulation.broker.play import CrashingPlay
from tests.simulation.broker.promises import NEW_NUMBERS, TWICE, units_in
from tests.simulation.broker.restarts import AT_ONCE
from tests.simulation.broker.steps import Restore, Setting
from tests.simulation.world import PromiseBroken, Seen
from tests.support.broker.oracle_desk import Said
from tests.support.broker.oracle_script import ONE, WHITE
from tests.support.broker.words import ANY, NEW, OPERATOR, Ask, Order

OLDER = Restore("killed", 0, is_older=True)
SUSPECT = RecoveryReport(suspects=(Suspect(kind="message", first=1, last=9),))


@pytest.fixture
def play() -> Iterator[CrashingPlay]:
    seen = Seen()
    with simulated_edges() as edges:
        play = CrashingPlay(MachineDesk(Machine(Setting(), edges, seen)), seen)
        play.call(WHITE, Function.LOGON)
        yield play


def _send(play: CrashingPlay, option: Option, talk: str | int = NEW) -> None:
    named = {"service": "BLACK" if talk == NEW else "", "store": Store.BROKER, "uwstatp": 2, "body": b"e4"}
    play.call(WHITE, Function.SEND, option, talk=talk, **named)


def test_a_unit_of_work_that_was_never_committed_has_no_message_that_damage_can_have_brought_back(
    play: CrashingPlay,
) -> None:
    """Its record keeps its status, and how many messages it was to have, and no number of any."""
    _send(play, Option.SYNC)
    _send(play, Option.SYNC, talk=1)
    play.crash_now(AT_ONCE)
    ((uowid, record),) = units_in(play.desk.store).items()
    assert (record.status, record.first, record.messages) == (Status.BACKEDOUT, 0, 2)
    _send_other_messages(play)

    assert uowid not in not_held(play.desk, SUSPECT)
    assert len(places_of(play.desk, [uowid])[uowid]) == 1, "its record is its only place"


def _send_other_messages(play: CrashingPlay) -> None:
    play.call(WHITE, Function.LOGON)
    _send(play, Option.COMMIT)


def test_a_unit_of_work_that_waits_with_a_suspect_message_and_is_not_held_is_named(play: CrashingPlay) -> None:
    _send(play, Option.COMMIT)
    (uowid,) = units_in(play.desk.store)

    assert not_held(play.desk, SUSPECT) == [uowid]
    assert not not_held(play.desk, RecoveryReport())
    play.crash_now(AT_ONCE)
    assert not_held(play.desk, SUSPECT) == [uowid]


def _served(play: CrashingPlay) -> str:
    """Return the unit of work that was sent and backed up, and then received and committed."""
    play.call(ONE, Function.LOGON)
    play.call(ONE, Function.REGISTER, service="BLACK")
    _send(play, Option.COMMIT)
    play.desk.look_after("vouch")
    play.back_up()
    (uowid,) = play.promises.units
    play.call(ONE, Function.RECEIVE, Option.SYNC, talk=ANY)
    play.call(ONE, Function.SYNCPOINT, Option.COMMIT, uow=2)
    assert play.promises.units[uowid].is_over
    return uowid


def test_what_was_received_since_the_backup_is_held_and_comes_again_only_once_it_was_released(
    play: CrashingPlay,
) -> None:
    uowid = _served(play)
    play.restore(OLDER)
    unit = play.promises.units[uowid]
    assert play.look_at_held("") == ([uowid], [])
    assert unit.is_held and not unit.is_over

    again = Said(Reply(uowid=uowid, uow_status=Reception.RECV_ONLY), unit.bodies[0])
    ask = Ask(ONE, Function.RECEIVE, Option.SYNC, talk=ANY)
    for is_held in (True, False):
        unit.is_held = is_held
        with pytest.raises(PromiseBroken, match=TWICE):
            play.promises.copied().hear(ask, again)
    play.call_all([play.ask(OPERATOR, Order.RELEASE, held=(2,))])
    play.promises.hear(ask, again)


def test_what_a_lost_broker_gave_since_its_backup_is_given_to_nothing_else(play: CrashingPlay) -> None:
    _served(play)
    _send(play, Option.COMMIT)
    later = next(reversed(play.promises.units))
    conv_id = play.promises.units[later].conv_id
    play.restore(OLDER)
    assert later not in play.promises.units

    ask = Ask(WHITE, Function.SEND, Option.COMMIT, talk=NEW, service="BLACK")
    for reply in (Reply(uowid=later, conv_id="1" * 16), Reply(uowid="1" * 16, conv_id=conv_id)):
        with pytest.raises(PromiseBroken, match=NEW_NUMBERS):
            play.promises.copied().hear(ask, Said(reply, None))
    play.promises.hear(ask, Said(Reply(uowid="1" * 16, conv_id="1" * 16), None))
