"""Faults made on purpose: the simulation finds those that it finds soon; `make simulate-faults` makes all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.planted.patched import Patched
from tests.simulation.campaign import Search, answer
from tests.simulation.commands import found_by
from tests.simulation.faults.all_faults import FAULTS, Fault
from tests.simulation.faults.fault import changed
from tests.support.sweeps import a_sample, split

# Found in the first few runs. The others take longer, and are for the long campaign.
SOON = (
    "no-commit-is-synced",
    "a-commit-is-synced-with-the-next-one",
    "a-new-files-name-is-not-synced",
    "a-repaired-file-is-not-synced",
    "the-owner-is-not-checked-before-an-answer",
    "one-file-too-many-is-deleted",
    "keys-do-not-keep-their-file",
    "a-footer-is-not-synced",
    "no-lock-is-taken",
    "no-archive-is-kept",
    "a-restore-holds-nothing",
    "an-unfinished-restore-is-opened",
    "what-is-let-go-is-held-again-after-a-restart",
    "a-publication-goes-with-its-first-acknowledgement",
    "callers-queue-up-without-the-lock",
    "the-lead-is-handed-on-without-the-lock",
    "what-a-start-has-found-is-noted-without-a-sync",
    "a-failed-sync-of-prepared-zeros-is-swallowed",
    "a-producers-repeat-is-added-after-a-restart",
    "what-was-in-hand-at-a-death-is-not-counted",
    "attempts-are-lost-at-a-restart",
    "a-dead-letter-is-added-and-not-deleted-in-one-commit",
    "two-of-a-group-are-handed-out-at-once",
    "the-delay-of-a-release-is-forgotten-over-a-restart",
)

# Of these, those that take some seconds: for the whole.
SECONDS = (
    "a-failed-sync-of-prepared-zeros-is-swallowed",
    "a-producers-repeat-is-added-after-a-restart",
    "what-a-start-has-found-is-noted-without-a-sync",
    "the-owner-is-not-checked-before-an-answer",
)


@a_sample(8, more=8)
@pytest.mark.parametrize("name", split([name for name in SOON if name not in SECONDS], SECONDS))
def test_a_fault_made_on_purpose_is_found(name: str) -> None:
    _assert_found(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in SOON])
def test_a_fault_that_is_harder_to_find_is_found(name: str) -> None:
    _assert_found(name)


def _assert_found(name: str) -> None:
    """Assert that it is found, and that the promise by which it is stands in the table of those that were checked."""
    found = answer(Search(FAULTS[name].world, name))
    assert found.failure is not None, f"not in {found.runs} runs: {FAULTS[name].text} {found.slips}"
    is_exception = found.failure.promise.startswith("no ") and " leaves " in found.failure.promise
    assert is_exception or found.failure.promise in found.seen.checked


def test_a_fault_that_does_not_fit_the_product_any_more_is_no_find(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def made() -> Iterator[None]:
        with changed(Patched.RECOVERY_OPTIONS_INIT, lambda _: lambda self: None):  # it is called with more
            yield

    monkeypatch.setitem(FAULTS, "slip", Fault(name="slip", text="", world="engine", budget=1, near=(), made=made))

    found = answer(Search("engine", "slip"))

    assert found.failure is None
    assert found_by(found, 1).startswith("never | 1 | 1 runs ended by TypeError in ")
