"""What the broker's simulated world holds against a broker, where that alone can be looked at: no more, and no less."""

from collections.abc import Iterator

import pytest

from broker.block import Function, Option, Store
from broker.records import Status
from recovery.report import RecoveryReport, Suspect
from tests.broker_words import NEW
from tests.oracle_script import WHITE
from tests.simulation.broker_damage import not_held, places_of
from tests.simulation.broker_edges import simulated_edges
from tests.simulation.broker_machine import Machine, MachineDesk
from tests.simulation.broker_play import CrashingPlay
from tests.simulation.broker_promises import units_in
from tests.simulation.broker_restarts import AT_ONCE
from tests.simulation.broker_steps import Setting
from tests.simulation.world import Seen

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
