"""The API attacked like the disk: every way of giving an argument, and scripts of calls at bad moments.

`make fuzz TARGET=api` plays fresh scripts for as long as one likes; `python -m tests.api --faults` makes all faults.
"""

import dataclasses
import inspect
import traceback
from itertools import islice
from pathlib import Path

import pytest

from oms_journal import MessageDatabase, Options
from tests.api.arguments import RIGHT, WORDS, WRONG, Argument
from tests.api.campaign import CAMPAIGN, FACES
from tests.api.faults import FAULTS
from tests.api.moments import FromAHandler
from tests.api.options_given import OPTIONS
from tests.api.play import Player
from tests.api.surface import APART, CLASSES, Block, Call, Opened, kind_of, methods
from tests.api.sweep import OWNERS, SWEPT, swept, swept_places, swept_waits
from tests.support.attack import search, seed_played
from tests.support.sweeps import Share, a_sample, for_each, in_three_sizes, in_two_sizes

SCRIPTS = 20  # of each face
# Found with the first seed, in a moment. All others: `python -m tests.api --faults`, and the slow tests.
SOON = (
    "a-list-is-kept-by-reference",
    "a-subclass-of-text-is-believed",
    "a-bool-is-a-number",
    "any-flag-will-do",
    "release-removes-before-it-returns",
)


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_method_and_parameter_has_ways_to_be_given(name: str) -> None:
    for method, signature in methods(CLASSES[name]).items():
        for parameter in signature.parameters:
            kind = kind_of(method, parameter)
            assert RIGHT[kind] and WRONG[kind] and WORDS[kind], f"{name}.{method}({parameter})"


@pytest.mark.parametrize("name", CLASSES)
def test_what_stands_apart_is_there(name: str) -> None:
    assert [method for method in APART[name] if not hasattr(CLASSES[name], method)] == []


def test_every_option_has_values_right_and_wrong() -> None:
    named = inspect.signature(MessageDatabase.open).parameters.values()
    given = {one.name for one in named if one.kind is not inspect.Parameter.VAR_KEYWORD}

    assert set(OPTIONS) == {field.name for field in dataclasses.fields(Options)} | given


WAYS = [pytest.param(owner, method, id=f"{owner.__name__}.{method}") for owner in OWNERS for method in methods(owner)]


@in_three_sizes
@for_each(("owner", "method"), WAYS)
def test_every_way_to_give_an_argument_is_taken_as_it_is_meant_or_refused_in_words(
    owner: type, method: str, share: Share
) -> None:
    """The sample has one variant of each way."""
    played = swept(owner, method, lambda count: share.of(range(count), 1))
    found = [f"{step}: {failure!r}" for step, failure in played if failure is not None]

    assert not found, f"{len(found)}, the first: " + "\n".join(found[:10])


@a_sample(3, more=12)
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_taken_or_refused_in_words(option: str, tmp_path: Path) -> None:
    player = Player(tmp_path, is_async=False, is_restored=True)
    for n in range(sum(map(len, OPTIONS[option]))):
        player.step(Opened(option, n))
    player.end()


INTERRUPTS = (KeyboardInterrupt, FromAHandler)
# What is not awaited, gives back without a wait, or is done by threads whatever the face is.
NEVER_WAITS = {"extend", "release", "release with a delay", "taking that is left", "add through a socket"}
SHORT = {"release"}  # ten places, which the sample has all


@in_two_sizes
@for_each("kind", INTERRUPTS)
@for_each("what", SWEPT)
def test_an_interrupt_leaves_a_call_whole_or_not_at_all(what: str, kind: type[BaseException], share: Share) -> None:
    if what in SHORT:
        places = [(1, 1)] if share is Share.SAMPLE else [(26, 26)]
    else:
        places = [(3, 624)] if share is Share.SAMPLE else [(315, 624), (159, 312), (81, 156), (29, 78)]
    played = [one for first, every in places for one in swept_places(what, first, every, kind)]

    assert played or share is Share.REST, "no place was reached"
    assert [f"{steps[-1]}: {failure!r}" for steps, failure in played if failure is not None] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", INTERRUPTS)
@pytest.mark.parametrize("what", SWEPT)
def test_an_interrupt_at_any_place_leaves_a_call_whole_or_not_at_all(what: str, kind: type[BaseException]) -> None:
    played = list(swept_places(what, kind=kind))

    assert played, "no place was reached"
    assert [f"{steps[-1]}: {failure!r}" for steps, failure in played if failure is not None] == []


@for_each("what", SWEPT)
def test_a_cancellation_at_any_wait_leaves_a_call_whole_or_not_at_all(what: str) -> None:
    played = list(swept_waits(what))

    assert bool(played) == (what not in NEVER_WAITS), "a call waits, or does not"
    assert [f"{steps[-1]}: {failure!r}" for steps, failure in played if failure is not None] == []


@for_each("name", FAULTS)
def test_every_sweep_that_a_fault_names_plays_something(name: str) -> None:
    for sweep in FAULTS[name].swept:
        assert any(True for _ in islice(CAMPAIGN.sweep(sweep, FAULTS[name].face), 1)), sweep


def test_a_sweep_that_does_not_exist_is_no_find_and_is_said() -> None:
    misnamed = dataclasses.replace(FAULTS["a-bool-is-a-number"], swept=["the end of taking"])

    with pytest.raises(ValueError, match="'the end of taking' of 'a-bool-is-a-number' plays nothing as threads"):
        search(CAMPAIGN, misnamed)


@a_sample(1)
@pytest.mark.parametrize("face", FACES)
def test_scripts_of_calls_do_what_the_model_says(face: str) -> None:
    found = seed_played(CAMPAIGN, face, 14, examples=SCRIPTS)

    if found.failure is not None:
        lines = traceback.format_exception(found.failure)
        pytest.fail("\n".join([*lines, *getattr(found.failure, "__notes__", ())]))


@a_sample(2)
@pytest.mark.parametrize("name", SOON)
def test_a_fault_at_the_entrance_is_found(name: str) -> None:
    assert search(CAMPAIGN, FAULTS[name]) is not None, FAULTS[name].text


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in SOON])
def test_a_fault_at_the_entrance_that_takes_longer_is_found(name: str) -> None:
    assert search(CAMPAIGN, FAULTS[name]) is not None, FAULTS[name].text


def test_every_deliberate_fault_fits_the_product() -> None:
    """One that cannot be made would count as found: what cannot be made raises."""
    for each in FAULTS.values():
        with each.made():
            pass


def test_there_are_deliberate_faults_enough() -> None:
    assert len(FAULTS) >= 10
    assert set(SOON) <= set(FAULTS)


def test_a_step_can_be_read_back() -> None:
    step = Block(None, (Call("add", (("queue", Argument("queue", "plain-text", 0)),)),))

    assert eval(repr(step)) == step  # what is printed of a failing script can be played
