"""`oms io-test`, what is pure: the figures, the verdicts and the places as values."""

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from oms_journal.journal.iotest.place import Device, Mount, find_mount, look_at, parse_mounts
from oms_journal.journal.iotest.report import (
    MethodRates,
    SyncFacts,
    advise_alignment,
    compare,
    histogram,
    judge_sync,
    median_ratio,
    percentile,
    timing,
)
from tests.support.sweeps import for_each

PLACE = Device(
    directory="/spool",
    mount=Mount("/", file_system="ext4", source="/dev/sda1", options=("rw",)),
    device="sda",
    write_cache="write back",
    is_rotational=False,
    physical_block_size=512,
    is_stacked=False,
    is_virtual_machine=False,
)
FACTS = SyncFacts(size=128, synced=100e-6, unsynced=3e-6, syncs=1000, flushes=1000)


# Figures


@pytest.mark.parametrize(
    ("permille", "value"), [(0, 1), (1, 1), (500, 500), (501, 501), (990, 990), (999, 999), (1000, 1000)]
)
def test_a_percentile_of_a_thousand_is_its_rank(permille: int, value: int) -> None:
    assert percentile(range(1, 1001), permille) == value


@pytest.mark.parametrize("permille", [0, 500, 990, 999, 1000])
def test_every_percentile_of_one_value_is_that_value(permille: int) -> None:
    assert percentile([7], permille) == 7


def test_a_histogram_has_a_bucket_for_each_power_of_two_between_its_ends() -> None:
    buckets = histogram([0, 999, 1000, 1999, 2000, 16_000])

    assert [bucket.count for bucket in buckets] == [2, 2, 1, 0, 0, 1]
    assert [bucket.low for bucket in buckets] == [0.0, 1e-6, 2e-6, 4e-6, 8e-6, 16e-6]
    assert all(before.high == after.low for before, after in pairwise(buckets))


@for_each("power", range(40))
def test_a_latency_lies_within_its_bucket_on_both_sides_of_every_border(power: int) -> None:
    border = 1000 << power
    for nanoseconds in (border - 1, border, border + 1):
        (bucket,) = histogram([nanoseconds])
        assert round(bucket.low * 1e9) <= nanoseconds < round(bucket.high * 1e9)


def test_the_rate_is_the_median_of_the_rounds_and_the_percentiles_are_of_all() -> None:
    figures = timing([[1_000_000] * 4, [2_000_000] * 4, [], [100_000_000]])

    assert figures.count == 9
    assert figures.rates == (1000.0, 500.0, 10.0)
    assert (figures.rate, figures.p50, figures.max) == (500.0, 0.002, 0.1)


def test_the_tail_is_not_told_from_too_few() -> None:
    assert timing([[1000] * 999]).p999 is None
    assert timing([[1000] * 999 + [5000]]).p999 == 1e-6


def test_a_ratio_compares_rounds_made_side_by_side() -> None:
    assert median_ratio([[20], [10, 10], [1000]], [[10], [10, 10], [1000]]) == 1.0


# Verdicts


def test_a_device_that_takes_its_time_and_is_flushed_seems_to_sync() -> None:
    assert judge_sync(PLACE, FACTS).seems_to_sync
    assert judge_sync(PLACE, None).seems_to_sync


@pytest.mark.parametrize(
    ("place", "facts", "says"),
    [
        (replace(PLACE, mount=Mount("/shm", "tmpfs", "tmpfs", ())), FACTS, "tmpfs at /shm"),
        (replace(PLACE, device="ram0"), FACTS, "ram0 is memory"),
        (replace(PLACE, device="zram12"), FACTS, "zram12 is memory"),
        (replace(PLACE, mount=Mount("/", "ext4", "/dev/sda1", ("rw", "nobarrier"))), FACTS, "nobarrier"),
        (replace(PLACE, mount=Mount("/", "overlay", "overlay", ("rw", "volatile"))), FACTS, "volatile"),
        (PLACE, replace(FACTS, synced=4e-6), "4.0 µs with a sync and 3.0 µs without"),
        (PLACE, replace(FACTS, flushes=0), "1000 syncs returned"),
    ],
)
def test_each_kind_of_evidence_is_enough_and_says_what_was_seen(place: Device, facts: SyncFacts, says: str) -> None:
    verdict = judge_sync(place, facts)

    assert not verdict.seems_to_sync
    assert len(verdict.evidence) == 1
    assert says in verdict.evidence[0]


@pytest.mark.parametrize(
    ("place", "facts"),
    [
        (replace(PLACE, write_cache="write through"), replace(FACTS, flushes=0)),
        (PLACE, replace(FACTS, flushes=0, syncs=3)),
        (PLACE, replace(FACTS, flushes=None)),
        (
            replace(PLACE, write_cache="write through", mount=Mount("/", "xfs", "/dev/sda1", ("nobarrier",))),
            FACTS,
        ),
    ],
)
def test_what_has_an_honest_explanation_is_no_evidence(place: Device, facts: SyncFacts) -> None:
    assert judge_sync(place, facts).seems_to_sync


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (replace(PLACE, is_virtual_machine=True), "virtual machine"),
        (replace(PLACE, is_rotational=True), "a disk that turns"),
        (replace(PLACE, write_cache="write through"), "needs no flush"),
        (replace(PLACE, mount=Mount("/", "nfs4", "server:/", ())), "nfs4"),
        (replace(PLACE, mount=Mount("/", "fuse.sshfs", "host:/", ())), "fuse.sshfs"),
    ],
)
def test_who_else_could_spoil_it_is_a_hint(place: Device, says: str) -> None:
    verdict = judge_sync(place, FACTS)

    assert verdict.seems_to_sync
    assert says in " ".join(verdict.hints)


def _rates(**methods: tuple[float, ...]) -> list[MethodRates]:
    return [MethodRates(method, size, rates) for method, rates in methods.items() for size in (128, 1024)]


@pytest.mark.parametrize(
    ("methods", "faster"),
    [
        ({"own": (100.0,) * 5, "other": (105.0,) * 5}, None),
        ({"own": (100.0,) * 5, "other": (150.0,) * 5}, "other"),
        ({"own": (100.0,) * 5, "other": (150.0, 150.0, 150.0, 150.0, 50.0)}, "other"),
        ({"own": (100.0,) * 5, "other": (150.0, 150.0, 150.0, 50.0, 50.0)}, None),
        ({"first": (10.0,) * 5, "own": (100.0,) * 5}, None),
        ({"own": (100.0,) * 3, "near": (140.0,) * 3, "other": (150.0,) * 3}, "other"),
        ({"own": (100.0,) * 2, "other": (200.0,) * 2}, None),
        ({"other": (100.0,)}, "other"),
    ],
)
def test_a_method_that_no_option_chooses_is_not_recommended_and_named_only_beyond_the_noise(
    methods: dict[str, tuple[float, ...]], faster: str | None
) -> None:
    found = compare(_rates(**methods), "own")

    assert found is not None
    assert found.method == "own"
    assert found.is_clear is (faster is not None)
    assert ("does not work" in found.text) is ("own" not in methods)
    if faster is None:
        assert found.text == "own, and nothing is clearly faster here"
    elif "own" in methods:
        assert f"of the rate of {faster}" in found.text
        assert "no option chooses another" in found.text


def test_large_appends_do_not_decide_and_sizes_that_one_lacks_neither() -> None:
    rates = [
        MethodRates("a", 1024, (10.0,) * 3),
        MethodRates("b", 1024, (20.0,) * 3),
        MethodRates("a", 1 << 20, (9000.0,) * 3),
        MethodRates("b", 1 << 20, (1.0,) * 3),
        MethodRates("a", 128, (9000.0,) * 3),
    ]

    found = compare(rates, "a")

    assert found is not None
    assert found.fastest == "b"
    assert found.score == pytest.approx(0.5)


def test_nothing_measured_compares_nothing() -> None:
    assert compare([], "own") is None
    assert compare([MethodRates("a", 1, (1.0,)), MethodRates("b", 2, (1.0,))], "own") is None


# Alignment


@pytest.mark.parametrize("block", [512, 4096])
def test_a_block_within_the_options_range_is_the_value_that_shares_no_block(block: int) -> None:
    advice = advise_alignment(replace(PLACE, physical_block_size=block))

    assert (advice.physical_block_size, advice.default, advice.needed) == (block, 8, block)
    assert f"physical block: {block} bytes" in advice.text
    assert f"With group_alignment={block} that does not happen" in advice.text


def test_of_a_block_beyond_the_options_range_it_is_said_that_no_value_helps() -> None:
    advice = advise_alignment(replace(PLACE, physical_block_size=16384))

    assert advice.needed is None
    assert "physical block: 16384 bytes" in advice.text
    assert "no value prevents that" in advice.text


def test_where_the_block_is_unknown_the_option_is_explained_all_the_same() -> None:
    advice = advise_alignment(replace(PLACE, physical_block_size=None))

    assert (advice.physical_block_size, advice.needed) == (None, None)
    assert "physical block: unknown" in advice.text
    assert "group_alignment at 8" in advice.text


# Places

MOUNTS = """\
22 27 254:0 / / rw,relatime - ext4 /dev/root rw
23 22 0:21 / /srv/with\\040space rw - tmpfs tmpfs rw,size=1k
24 22 8:1 / /srv rw shared:1 master:2 - xfs /dev/sda1 rw,nobarrier
25 22 8:2 / /srv rw - btrfs /dev/sdb rw
nonsense
"""


@pytest.mark.parametrize(
    ("directory", "source"),
    [("/", "/dev/root"), ("/srvx", "/dev/root"), ("/srv/a/b", "/dev/sdb"), ("/srv/with space/a", "tmpfs")],
)
def test_a_directory_is_in_the_deepest_mount_and_of_two_in_the_later(directory: str, source: str) -> None:
    mount = find_mount(parse_mounts(MOUNTS), Path(directory))

    assert mount is not None
    assert mount.source == source


def test_a_mount_has_the_options_of_mount_and_file_system_once() -> None:
    assert parse_mounts(MOUNTS)[2] == Mount("/srv", "xfs", "/dev/sda1", ("rw", "nobarrier"))


def test_a_place_can_be_looked_at_wherever_this_runs(tmp_path: Path) -> None:
    assert look_at(tmp_path).directory == str(tmp_path.resolve())


def fake_devices(root: Path, directory: Path, *, partition: bool, block: str | None) -> Path:
    """Return a folder as /sys/dev/block is, where the directory's device is a disk or a part of one."""
    disk = root / "devices/sdz"
    node = disk / "sdz1" if partition else disk
    node.mkdir(parents=True)
    (disk / "queue").mkdir()
    if partition:
        (node / "partition").write_text("1\n")
    if block is not None:
        (disk / "queue/physical_block_size").write_text(block)
    number = directory.stat().st_dev
    names = root / "dev/block"
    names.mkdir(parents=True)
    (names / f"{os.major(number)}:{os.minor(number)}").symlink_to(node)
    return names


@pytest.mark.parametrize("partition", [False, True])
def test_a_directorys_physical_block_is_that_of_its_disk_also_in_a_partition(partition: bool, tmp_path: Path) -> None:
    place = look_at(tmp_path, devices=fake_devices(tmp_path, tmp_path, partition=partition, block="4096\n"))

    assert (place.device, place.physical_block_size) == ("sdz", 4096)


@pytest.mark.parametrize("block", [None, "", "0\n", "nonsense\n"])
def test_a_device_that_does_not_say_its_block_has_an_unknown_one(block: str | None, tmp_path: Path) -> None:
    place = look_at(tmp_path, devices=fake_devices(tmp_path, tmp_path, partition=False, block=block))

    assert (place.device, place.physical_block_size) == ("sdz", None)


def test_a_file_system_without_a_device_has_no_physical_block(tmp_path: Path) -> None:
    place = look_at(tmp_path, devices=tmp_path / "nothing")

    assert (place.device, place.physical_block_size) == (None, None)
