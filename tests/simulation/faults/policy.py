"""Faults made on purpose in what a start does about damage: its policies, and what it holds back."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oms_journal.database.holds import Holds
from oms_journal.journal.disk import Disk
from oms_journal.journal.reserve import Reserve
from oms_journal.recovery import findings
from oms_journal.recovery.decision import Action
from oms_journal.recovery.examination import Examination
from oms_journal.recovery.repair import Repairer
from tests.planted.patched import Patched
from tests.simulation.faults.fault import changed, fault, nothing


@fault("engine", budget=100)
def a_refusing_start_has_archived_already() -> Iterator[None]:
    """A start makes its archives before it looks whether its policy lets it go on."""

    def of(check: Callable[..., None]) -> Callable[..., None]:
        def checked(self: Any, examined: Sequence[Examination]) -> None:
            repairer = Repairer(self._disk, self._directory, Reserve(self._disk, self._directory, 0).release)
            for one in examined:
                if one.decision.action in (Action.CUT, Action.REBUILD, Action.DROP):
                    repairer.archive(one)
            check(self, examined)

        return checked

    with changed(Patched.START_CHECK_POLICY, of):
        yield


@fault("engine", budget=200)
def a_refusing_start_lets_torn_files_pass() -> Iterator[None]:
    """The policy "refuse" refuses what is damaged only, and cuts what is torn."""

    def of(check: Callable[..., None]) -> Callable[..., None]:
        return lambda self, examined: check(self, [one for one in examined if one.losses])

    with changed(Patched.START_CHECK_POLICY, of):
        yield


@fault("engine", budget=200)
def a_truncating_start_does_not_tell_what_it_cut_behind() -> Iterator[None]:
    """With the policy "truncate" the first bad place is reported, and not the good commits that go with it."""

    def of(cut: Callable[..., Examination]) -> Callable[..., Examination]:
        return lambda disk, examined: replace(cut(disk, examined), losses=examined.losses)

    with changed(Patched.STARTUP_TRUNCATE, of):
        yield


@fault("engine", budget=200)
def a_truncating_start_keeps_what_is_good_behind() -> Iterator[None]:
    """The policy "truncate" salvages."""
    with changed(Patched.STARTUP_TRUNCATE, lambda _: lambda disk, examined: examined):
        yield


@fault("engine", budget=200, near=["database/test_holds"])
def what_is_suspected_is_handed_out() -> Iterator[None]:
    """What damage may have brought back is listed, and held by nobody."""
    with changed(Patched.INDEX_HOLD_UP_TO, lambda _: nothing):
        yield


@fault("engine", budget=200, near=["database/test_holds"])
def everything_is_held_after_damage() -> Iterator[None]:
    """What lies behind the damaged files is held too."""
    with changed(Patched.INDEX_HOLD_UP_TO, lambda hold: lambda self, sequence: hold(self, 1 << 40)):
        yield


@fault("engine", budget=300)
def what_a_start_has_found_is_noted_without_a_sync() -> Iterator[None]:
    """What a start is about to repair is noted in the page cache only."""

    def of(put: Callable[..., None]) -> Callable[..., None]:
        return lambda *arguments, **named: put(*arguments, **(named | {"durably": False}))

    with changed(Patched.FINDINGS_PUT_IN_PLACE, of):
        yield


@fault("engine", budget=300)
def the_intention_to_hold_goes_before_what_is_held_is_durable() -> Iterator[None]:
    """A start removes `omsmsg.hold` first, and then commits the ranges that it holds."""

    def of(_: Callable[..., None]) -> Callable[..., None]:
        def settled(self: Holds, disk: Disk, directory: Path) -> None:
            if findings.intended(disk, directory):
                findings.done(disk, directory)
                with self.lock:
                    self.write()

        return settled

    with changed(Patched.HOLDS_SETTLE, of):
        yield
