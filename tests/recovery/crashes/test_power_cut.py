"""The power cut at every change that a workload makes on its disk, with any of the unsynced sectors kept.

Whatever is left: all that was acknowledged is there, what was in flight is there whole or not at all,
nothing is invented, the second and the third start find the same, and the database goes on without
giving a number twice.

The sample cuts in three of the scenarios, at some of the changes and at one of each kind. The whole cuts in all
scenarios, at more changes; the campaigns at all others.
"""

import errno
import itertools
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from tests.support.crashes.crash_model import (
    SPOOL,
    Account,
    Writer,
    check_goes_on,
    found_after,
    kind_of,
    open_unattended,
    workload,
)
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.disks.small_files import SMALL
from tests.support.sweeps import MARKS, Share, a_sample, sampled


@dataclass(frozen=True, slots=True)
class Scenario:
    """A way of running the workload."""

    name: str
    options: Mapping[str, object] = field(default_factory=dict)
    is_harsh: bool = False  # a sector that was being written may hold garbage
    patience: int = 1  # commits between two looks at what is to be prepared and sealed


SCENARIOS = [
    Scenario("plain"),
    Scenario("sealed late and vouched for", patience=3),
    Scenario("without compaction", {"compact_share": 0.0}),
    Scenario("files kept elsewhere", {"retention_directory": Path("/kept")}),
    Scenario("larger files", {"max_data_file_size": 12_000}, patience=2),
    Scenario("groups aligned to sectors", {"group_alignment": 512, "max_data_file_size": 12_000}, is_harsh=True),
    Scenario("groups aligned to pages", {"group_alignment": 4096, "max_data_file_size": 40_000}, is_harsh=True),
    Scenario("aligned, sealed late", {"group_alignment": 512, "max_data_file_size": 9_000}, is_harsh=True, patience=3),
]


IN_SAMPLE = ("plain", "aligned, sealed late")
STRIDE = 60  # of the changes in a sample


def cut_power_at_every_change(scenario: Scenario, seed: int, is_mine: Callable[[int, str], bool]) -> int:
    """Run the workload; at every change that is asked for check what a power cut would leave. Returns how many."""
    disk, account = SimulatedDisk(), Account()
    checked = 0

    def check(change: str) -> None:
        nonlocal checked
        if not is_mine(disk.steps, kind_of(change)):
            return
        crash_seed = 1000 * seed + disk.steps
        where = f"{scenario.name}, seed {seed}, change {disk.steps} ({change}), crash seed {crash_seed}"
        left, promised = disk.crash(crash_seed, is_harsh=scenario.is_harsh), account.copy()
        found = found_after(left, **scenario.options)
        assert promised.allows(found), where
        check_goes_on(left, promised, **scenario.options)
        checked += 1

    disk.before_change = check
    database = open_unattended(disk, **scenario.options)
    database.patience = scenario.patience
    workload(Writer(database, account), random.Random(seed))
    database.close()
    check("the end")
    return checked


def _scenarios() -> Iterator[object]:
    """All of them in three sizes; the samples of three are asked each day."""
    for scenario, share in itertools.product(SCENARIOS, (Share.SAMPLE, Share.MORE, Share.OTHERS)):
        is_daily = share is not Share.SAMPLE or scenario.name in IN_SAMPLE
        yield pytest.param(
            scenario,
            share,
            id=f"{scenario.name}-{share.value}",
            marks=MARKS[share] if is_daily else pytest.mark.whole,
        )


@a_sample(1, more=5)
@pytest.mark.parametrize(("scenario", "share"), [*_scenarios()])
def test_a_power_cut_takes_nothing_that_was_acknowledged(scenario: Scenario, share: Share) -> None:
    checked_min = 20 if share is Share.OTHERS else 8
    assert cut_power_at_every_change(scenario, 1, share.chooser(STRIDE)) > checked_min


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_nor_with_many_other_seeds(scenario: Scenario, seed: int) -> None:
    assert cut_power_at_every_change(scenario, seed, lambda _number, _kind: True) > 100


@pytest.mark.whole
@pytest.mark.parametrize("seed", sampled(range(4), 2))
def test_a_power_cut_during_the_start_after_a_power_cut_takes_nothing_either(seed: int) -> None:
    disk, account = SimulatedDisk(), Account()
    chance = random.Random(seed)
    for turn in range(12):
        disk = _run_until_the_power_goes(disk, account, kill_after=chance.randint(1, 60), seed=100 * seed + turn)
        found = found_after(disk.restart())
        assert account.allows(found), f"seed {seed}, turn {turn}"
        account.state, account.in_flight = found, None


def _run_until_the_power_goes(disk: SimulatedDisk, account: Account, *, kill_after: int, seed: int) -> SimulatedDisk:
    """Open the database and work on it; return what the power cut at some change leaves."""
    disk.kill_at = disk.steps + kill_after
    try:
        database = open_unattended(disk)
        workload(Writer(database, account), random.Random(seed), rounds=10)
        database.close()
    except Killed:
        pass
    return disk.crash(seed)


def test_what_its_blocks_held_before_is_never_seen_under_a_data_files_name() -> None:
    """It may be a whole file of that name: of a database that was removed, or one that a start has dropped."""
    for step in count(1):
        disk = SimulatedDisk()
        with open_unattended(disk) as removed:
            removed.add("q", b"x" * 900)
        for name in disk.contents(SPOOL):
            disk.unlink(SPOOL / name)
        database = open_unattended(disk)
        disk.kill_at = disk.steps + step
        with suppress(Killed):
            database._journal._supply.make_ahead(SMALL)
        for seed in range(200):
            found = disk.crash(seed).contents(SPOOL)
            data = [content for name, content in found.items() if name.endswith(".data")]
            assert not any(map(any, data)), (step, seed)
        if database._journal._supply.has_next and disk.steps < disk.kill_at:
            assert step > 4
            return


class NoLinks(SimulatedDisk):
    """A disk on which no file has two names."""

    def link(self, old: Path, new: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_where_no_file_has_two_names_files_are_begun_all_the_same() -> None:
    disk = NoLinks()
    with open_unattended(disk) as database:
        numbers = [database.add("q", b"x" * 900) for _ in range(9)]
        names = set(disk.contents(SPOOL))
    assert not [name for name in names if name.endswith(".new")]
    with open_unattended(disk) as again:
        assert (list(again.numbers()), again.recovery.intact) == (numbers, True)
