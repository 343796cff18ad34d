"""The ways in which the model may go on, when something has come in the middle of what the broker was doing.

the end of the process      a call that nobody was told of is done, or was never made
the loss of the store       what was told is done, what was refused is not; yet who starts another process may find
                            it, unless this one connects the store again first: such states are `doubts`
a full disk                 what was refused is not done, and no new units of work are taken from then on; what nobody
                            can be refused is done, and the store is `untold` of it until a tick after there is room
"""

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product

from oms_journal.broker.block import Function, Option
from oms_journal.broker.codes import Code
from tests.support.broker.model import WITHOUT_STORE
from tests.support.broker.oracle_play import State, Way
from tests.support.broker.words import Answer, Ask

AT_ONCE_MAX = 3  # units of work of one conversation whose time is over with one tick
NOBODY = 0  # who hears of what is given back
NOT_TAKEN = (*WITHOUT_STORE, Code.NO_NEW_UOWS)


def nothing(_: State) -> None:
    """The model stays as it is."""


def gone(connection: int) -> Way:
    def way(state: State) -> None:
        state.model.gone(connection)

    return way


def called(handles: Sequence[int], asks: Sequence[Ask], order: Sequence[int]) -> Way:
    """Return the way in which these of the calls are carried out, in this order."""

    def way(state: State) -> None:
        for at in order:
            state.model.call(handles[at], state.in_its_words(asks[at]))
            _give_back(state)

    return way


def in_any_order(handles: Sequence[int], asks: Sequence[Ask]) -> list[Way]:
    return [called(handles, asks, order) for order in permutations(range(len(asks)))]


def some_of_them(handles: Sequence[int], asks: Sequence[Ask]) -> Iterator[Way]:
    """Yield the ways in which some of the calls are carried out, in any order."""
    for order in permutations(range(len(asks))):
        for done in product((False, True), repeat=len(asks)):
            yield called(handles, asks, [at for at in order if done[at]])


# Messages that could not be read.


def unreadable(way: Way, asks: Mapping[int, Ask], *, may_fail: bool) -> Iterator[Way]:
    """Yield the ways in which what these calls received could not be read, and is given back for that.

    At once; or behind the rest, when something was on its way to the store. Or that has failed, with the store or the
    process: who opens the store next may find it done.
    """

    def at_once(state: State) -> None:
        state.unread = dict(asks)
        way(state)
        _give_back(state)
        state.unread = {}

    def behind(state: State) -> None:
        way(state)
        state.unread = dict(asks)
        _give_back(state)
        state.unread = {}

    def in_vain(state: State) -> None:
        way(state)
        stored = copy.deepcopy(state.model.stored)
        for handle, ask in asks.items():
            answer = state.model.answers.get(handle, {})
            if stored is not None and "body" in answer:
                stored.only(NOBODY, _taken_back(ask, answer))
            state.model.answers[handle] = {"code": WITHOUT_STORE}
        if stored is not None:
            state.doubts = [*state.doubts, stored]

    yield from (at_once, behind, in_vain) if may_fail else (at_once, behind)


def _give_back(state: State) -> None:
    """Let the receivers of what could not be read back it out."""
    model = state.model
    for handle, ask in list(state.unread.items()):
        answer = model.answers.get(handle, {})
        if "body" in answer:
            del state.unread[handle]
            model.call(NOBODY, _taken_back(ask, answer))
            model.answers.pop(NOBODY, None)
            model.answers[handle] = {"code": WITHOUT_STORE}


def _taken_back(ask: Ask, answer: Answer) -> Ask:
    if "uow" in answer:
        return Ask(ask.who, Function.SYNCPOINT, Option.BACKOUT, uow=answer["uow"])
    return Ask(ask.who, Function.CONTROL_PUBLICATION, Option.BACKOUT, publication=answer["publication"])


# Time.


def passed(seconds: int, now: int) -> Way:
    def way(state: State) -> None:
        state.model.now = now
        state.model.tick(seconds)
        if not (state.model.is_lost or state.model.is_forbidden):
            state.untold = {}

    return way


def passed_unwritten(seconds: int, now: int) -> Way:
    """Return the way in which time passes for what is not stored."""

    def way(state: State) -> None:
        model = state.model
        model.is_lost = model.topics.is_lost = True
        passed(seconds, now)(state)
        model.is_lost = model.topics.is_lost = False

    return way


def passed_partly(seconds: int, now: int) -> Iterator[Way]:
    """Yield the ways in which some units of work of a conversation have ended, and others not yet: one in a commit."""
    for places in range(1, (1 << AT_ONCE_MAX) - 1):

        def way(state: State, places: int = places) -> None:
            whole = copy.deepcopy(state)
            passed(seconds, now)(whole)
            after, ended = whole.model.uows, defaultdict[int, list[int]](list)
            for number, unit in state.model.uows.items():
                if unit.is_stored and after.get(number) != unit:
                    ended[unit.talk].append(number)
            spared: set[int] = set()
            for numbers in ended.values():
                left = {number for place, number in enumerate(numbers) if places >> place & 1}
                spared |= left if len(left) < len(numbers) else set()
            state.model.now = now
            state.model.tick(seconds, spared)

        yield way


def clock_written(seconds: int, now: int) -> Way:
    """Return the way in which nothing of a tick is written but the pseudo-clock: that goes first."""

    def way(state: State) -> None:
        passed_unwritten(seconds, now)(state)
        state.model.clock += seconds
        state.model.topics.clock, state.model.unwritten = state.model.clock, 0

    return way


def found(state: State) -> None:
    """The store is there again; what another process would find is known."""
    state.model.find()
    state.doubts, state.untold = [], {}


def found_with_clock(state: State) -> None:
    """The store is there again, and something that was written at once has taken the pseudo-clock along."""
    found(state)
    state.model.unwritten = 0


def found_untold(state: State) -> None:
    """The store is there again, and has served who waited; what it had not heard of is on its way to it."""
    stored = state.model.stored
    found(state)
    state.model.stored = stored


# The loss of the store.


def lost_among(handles: Sequence[int], asks: Sequence[Ask]) -> Iterator[Way]:
    """Yield the ways in which the store is lost among calls: one behind that is refused, or does without."""
    count = len(asks)
    for order in permutations(range(count)):
        for before in range(count + 1):
            for refused in product((False, True), repeat=count - before):
                yield _lost(handles, asks, order[:before], list(zip(order[before:], refused, strict=True)))


def _lost(
    handles: Sequence[int], asks: Sequence[Ask], before: Sequence[int], behind: Sequence[tuple[int, bool]]
) -> Way:
    def way(state: State) -> None:
        called(handles, asks, before)(state)
        doubts = []
        written = copy.deepcopy(state.model)
        for at, is_refused in behind:
            if is_refused:
                written.only(handles[at], state.in_its_words(asks[at]))
                doubts.append(copy.deepcopy(written))
        state.model.lose()
        state.doubts = doubts
        state.model.numbers = written.numbers  # what comes now is not what may be found
        for at, is_refused in behind:
            if is_refused:
                state.model.answers[handles[at]] = {"code": WITHOUT_STORE}
            else:
                state.model.call(handles[at], state.in_its_words(asks[at]))

    return way


def lost_around(way: Way) -> tuple[Way, Way]:
    """Return the ways in which the store is lost just after something that nobody is told of, or before it."""

    def after(state: State) -> None:
        way(state)
        state.model.lose()

    def before(state: State) -> None:
        written = copy.deepcopy(state)
        way(written)
        state.model.lose()
        state.doubts = [written.model]
        state.model.numbers = written.model.numbers
        way(state)

    return after, before


def lost_in_time(seconds: int, now: int) -> Iterator[Way]:
    """Yield the ways in which the store is lost by what a tick writes; the broker's own clock has gone on."""

    def before(state: State) -> None:
        stored, with_clock, whole = (copy.deepcopy(state) for _ in range(3))
        clock_written(seconds, now)(with_clock)
        passed(seconds, now)(whole)
        clock_written(seconds, now)(state)
        state.model.lose()
        state.model.stored = stored.model
        state.doubts = [with_clock.model, whole.model]

    def behind_the_clock(state: State) -> None:
        whole = copy.deepcopy(state)
        passed(seconds, now)(whole)
        clock_written(seconds, now)(state)
        state.model.lose()
        state.doubts = [whole.model]

    def behind(part: Way) -> Way:
        def way(state: State) -> None:
            whole = copy.deepcopy(state)
            passed(seconds, now)(whole)
            part(state)
            state.model.lose()
            state.doubts = [whole.model]

        return way

    yield from (before, behind_the_clock, lost_around(passed(seconds, now))[0])
    yield from map(behind, passed_partly(seconds, now))


# A full disk.


def full_among(handles: Sequence[int], asks: Sequence[Ask]) -> Iterator[Way]:
    """Yield the ways in which some of the calls are refused since there is no room.

    Or none, but what would be a dead letter is given back instead.
    """
    for order in permutations(range(len(asks))):
        yield _given_back(called(handles, asks, order))
        for taken in product((True, False), repeat=len(asks)):
            yield _full(handles, asks, list(zip(order, taken, strict=True)))


def _given_back(way: Way) -> Way:
    def without_room(state: State) -> None:
        state.model.forbid(is_forbidden=True)
        way(state)

    return without_room


def _full(handles: Sequence[int], asks: Sequence[Ask], order: Sequence[tuple[int, bool]]) -> Way:
    def way(state: State) -> None:
        for at, is_taken in order:
            if is_taken:
                state.model.call(handles[at], state.in_its_words(asks[at]))
            else:
                state.model.answers[handles[at]] = {"code": NOT_TAKEN}
                state.model.forbid(is_forbidden=True)

    return way


def full_around(way: Way) -> tuple[Way, Way]:
    """Return the ways in which something that nobody is told of was written, or there was no room for it."""

    def unheard(state: State) -> None:
        before = copy.deepcopy(state.model.uows)
        way(state)
        state.model.forbid(is_forbidden=True)
        after = copy.deepcopy(state.model.uows)
        changed = (number for number, unit in before.items() if unit.is_stored and after.get(number, unit) != unit)
        state.untold |= {number: (state.untold.get(number, (before[number],))[0], after[number]) for number in changed}

    return way, unheard


def full_in_time(seconds: int, now: int) -> Iterator[Way]:
    """Yield the ways in which there is room for all that a tick writes, or not for some of it."""
    yield passed(seconds, now)
    for way in (passed(seconds, now), passed_unwritten(seconds, now), clock_written(seconds, now)):
        yield _refused(way)


def _refused(way: Way) -> Way:
    def refused(state: State) -> None:
        untold = state.untold
        way(state)
        state.untold = untold
        state.model.forbid(is_forbidden=True)

    return refused
