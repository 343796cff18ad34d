"""Scripts of the world "queues" that chance makes seldom."""

from collections.abc import Callable

import pytest

from oms_journal.database.consumers.hand_file import HandFile
from tests.simulation.faults.all_faults import FAULTS
from tests.simulation.faults.fault import exchanged
from tests.simulation.playing import play_script
from tests.simulation.queues.steps import (
    Add,
    AddInTurn,
    Death,
    Deliver,
    Exchange,
    Former,
    GiveUp,
    Look,
    Pass,
    Release,
    Reopen,
    Take,
    TakeInTurn,
    TakeOver,
)
from tests.simulation.world import Script
from tests.simulation.worlds import WORLDS

FULL = (Reopen(messages_max=2), Add(0, count=2))


def test_a_lease_that_ends_while_its_commit_is_on_its_way_is_seen_though_the_writer_makes_an_error_of_it() -> None:
    script = [Add(0), Add(0), Take(0, 2.0), Deliver(0, seconds=5.0), Look()]

    assert play_script(WORLDS["queues"], script).failure is None
    with FAULTS["a-lease-ends-while-its-commit-is-on-its-way"].made():
        failure = play_script(WORLDS["queues"], script).failure
    assert failure is not None and failure.promise.startswith("take hands out the first message")


FOUND: dict[str, tuple[Script, str]] = {
    "a-commit-wakes-nobody": ([TakeInTurn(0, 60.0), Add(0)], "nobody waits for a message that is free"),
    "who-came-last-is-served-first": (
        [TakeInTurn(0, 60.0), TakeInTurn(0, 60.0), Add(0)],
        "who has waited longest is served first",
    ),
    "who-gives-up-keeps-what-it-was-handed": (
        [TakeInTurn(0, 60.0, is_slow=True), TakeInTurn(0, 60.0), Add(0), GiveUp(0)],
        "nobody waits for a message that is free",
    ),
    "what-has-expired-takes-room": (
        [Reopen(messages_max=2), Add(0, count=2, expires=0.5), Pass(2.0), Add(0)],
        "a queue takes what it has room for",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_fault_in_waits_and_limits_is_found(name: str) -> None:
    script, promise = FOUND[name]

    assert play_script(WORLDS["queues"], script).failure is None
    with FAULTS[name].made():
        failure = play_script(WORLDS["queues"], script).failure
    assert failure is not None and failure.promise.startswith(promise)


def test_a_former_owner_that_takes_the_file_of_the_new_one_for_its_own_is_seen() -> None:
    script = [Reopen(attempts_max=3), Add(0, count=2), Take(0), TakeOver(), Take(0), Former(5), Death(0)]

    def made(begin: Callable[..., None]) -> Callable[..., None]:
        return lambda self, disk, path, owner, *_: begin(self, disk, path, owner)

    assert play_script(WORLDS["queues"], script).failure is None
    with exchanged(HandFile, "__init__", made):
        failure = play_script(WORLDS["queues"], script).failure
    assert failure is not None and failure.promise == "what is in hand stands in omsmsg.hand"


def test_who_waits_for_room_gets_it_in_turn_and_no_more_than_there_is() -> None:
    script = [*FULL, AddInTurn(0, 5.0), AddInTurn(0, 60.0), AddInTurn(0, 60.0, is_slow=True), Take(0), Deliver(0)]

    assert play_script(WORLDS["queues"], [*script, Pass(20.0), Take(0), Deliver(0), GiveUp(0), Look()]).failure is None


@pytest.mark.parametrize("after", range(1, 8))
def test_a_process_that_stands_still_in_a_commit_is_overtaken(after: int) -> None:
    formers = [Former(what) for what in range(9)]
    script = [Reopen(attempts_max=2), Add(0, count=3), Take(0), TakeOver(after), Deliver(0), Add(0), Take(0), *formers]

    assert play_script(WORLDS["queues"], [*script, Release(0), Death(0), Look()]).failure is None


@pytest.mark.parametrize("after", range(1, 16))
def test_a_process_that_waits_for_room_is_overtaken_in_the_commit_that_makes_it(after: int) -> None:
    full = [Reopen(messages_max=2), Add(0, count=2), Take(0)]
    script = [*full, AddInTurn(0, 60.0), TakeOver(after), Exchange(0, 1), Deliver(0), Add(1), Look()]

    assert play_script(WORLDS["queues"], script).failure is None
