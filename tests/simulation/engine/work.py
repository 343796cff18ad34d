"""What the callers of the world "engine" do to a database, each commit entered into the account."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Protocol

from oms_journal.database.commits.block import CommitBlock
from oms_journal.database.options import Options
from oms_journal.journal.errors import (
    CommitFailed,
    DuplicateConflict,
    LimitExceeded,
    NoSuchMessage,
    OutcomeUnknown,
    QueueFull,
)
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import Draft
from tests.simulation.engine.account import Account, Doing, Identified, Scope
from tests.simulation.engine.steps import (
    Add,
    AddMany,
    Block,
    Discard,
    Drop,
    Group,
    LetGo,
    Purge,
    Put,
    Release,
    Remove,
    Resend,
)
from tests.simulation.world import PromiseBroken, Seen
from tests.support.crashes.crash_model import Change, Content, Unattended, state_of
from tests.support.disks.watched_disk import HandClock

AGAIN = "a repeat inside the window adds nothing and is answered as before"
HANDED = "a message is handed to one caller"
DECIDED = "what is decided of what is held back is done once, and of nothing else"
NOTHING_ELSE = "nothing is there that nobody sent"
LIMITED = "a queue takes what it has room for, and no more"
FENCED = "nothing of a former owner is acknowledged"
Commit = Add | AddMany | Remove | Put | Block
EDGE_MICROSECONDS = 5_000_000  # so near to the end of the window both answers are right


def payload_of(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


class Openings(Protocol):
    """Which opening the directory has."""

    database: Unattended | None

    def options(self) -> Options: ...


class Callers:
    """The callers of one database, whichever opening it has."""

    def __init__(self, openings: Openings, account: Account, clock: HandClock, seen: Seen) -> None:
        self._openings = openings
        self.account = account
        self.taken: dict[int, str] = {}
        self.unreadable = 0  # of the undelivered messages
        self._clock = clock
        self._seen = seen
        self._identifiers = count(1)

    # One commit.

    def add(self, database: Unattended, step: Add) -> None:
        content = self._content(step)
        producer = self._producer(step.has_producer)
        self._commit(
            database,
            Change(adds=[content]),
            lambda: [
                database.add(
                    content.queue, content.payload, properties=dict(content.properties) or None, producer_id=producer
                )
            ],
            (content.queue, producer) if producer else None,
        )

    def add_many(self, database: Unattended, step: AddMany) -> None:
        adds, producer = self._contents(step), self._producer(step.has_producer)
        queue, payloads = adds[0].queue, [content.payload for content in adds]
        self._commit(
            database,
            Change(adds=adds),
            lambda: database.add_many(queue, payloads, producer_id=producer),
            (queue, producer) if producer else None,
        )

    def remove(self, database: Unattended, step: Remove | Purge) -> None:
        if isinstance(step, Purge):
            self._purge(database, step)
            return
        numbers = self._numbers(step.places)
        call = database.deliver_many if step.delivers else database.delete_many
        self._commit(database, Change(removed=numbers), lambda: _nothing(call(numbers)))

    def put(self, database: Unattended, step: Put) -> None:
        key, value = f"key{step.key}", payload_of(step.size, step.seed)

        def put() -> Sequence[int]:
            database.put(key, value)
            return ()

        self._commit(database, Change(puts={key: value}), put)

    def drop(self, database: Unattended, step: Drop) -> None:
        key = f"key{step.key}"
        self._commit(database, Change(drops=[key]), lambda: _nothing(database.drop(key)))

    def block(self, database: Unattended, step: Block) -> None:
        change, producer = self._change(step), self._producer(step.has_producer)
        if _is_nothing(change):
            return

        def commit() -> Sequence[int]:
            with database.commit(producer_id=producer) as block:
                self._fill(block, step, change)
            return block.numbers

        scope = (change.adds[0].queue, producer) if producer and change.adds else None
        self._commit(database, change, commit, scope)

    def _fill(self, block: CommitBlock, step: Block, change: Change) -> None:
        adds, removed = iter(change.adds), set(change.removed)
        for part in step.parts:
            match part:
                case Add():
                    content = next(adds)
                    block.add(content.queue, content.payload, properties=dict(content.properties) or None)
                case Remove():
                    mine = [number for number in self._numbers(part.places) if number in removed]
                    removed -= set(mine)
                    (block.deliver_many if part.delivers else block.delete_many)(mine)
                case Put():
                    block.put(f"key{part.key}", payload_of(part.size, part.seed))
                case Drop():
                    block.drop(f"key{part.key}")

    def _commit(
        self, database: Unattended, change: Change, call: Callable[[], Sequence[int]], scope: Scope | None = None
    ) -> None:
        doing = Doing(change, scope, self._clock.now)
        self.account.pending = [doing]
        is_refused = self._is_refused(database, change, Counter())
        try:
            numbers = call()
        except (QueueFull, LimitExceeded) as failure:
            if database is not self._openings.database:
                raise  # it does not know what the new owner has done
            self.account.pending = []
            self._check_limited(change, failure, is_refused=is_refused)
            return
        if database is not self._openings.database:
            self._seen.checked[FENCED] += 1  # as where it has noticed
            raise PromiseBroken(f"{FENCED}\n{doing} was answered with {list(numbers)}")
        self.account.pending = []
        self._check_limited(change, None, is_refused=is_refused)
        self.account.done(doing, numbers)
        for number in change.removed:
            self.taken.pop(number, None)

    # Limits.

    def _is_refused(self, database: Unattended, change: Change, spoken: Counter[str]) -> bool | None:
        """Say whether a commit adds more to a queue than there is room for. None where nobody can know.

        The limit is the one of the opening at work: a process that took over during a close has that of before.
        `spoken` is what the commits before it in a group add; where there is room it adds to that.
        """
        most = database.options.max_messages
        if most is None or not change.adds:
            return False
        if self.unreadable:
            return None
        messages, more = self.account.state.messages, Counter(content.queue for content in change.adds)
        if not change.removed and max(more.values()) > most:
            return True
        more.subtract(messages[number].queue for number in change.removed)
        there = Counter(content.queue for content in messages.values())
        if any(new > 0 and there[queue] + spoken[queue] + new > most for queue, new in more.items()):
            return True
        spoken.update({queue: new for queue, new in more.items() if new > 0})
        return False

    def _check_limited(self, change: Change, failure: BaseException | None, *, is_refused: bool | None) -> None:
        """Check that a commit was refused for want of room where it had to be, and only there."""
        if is_refused is None:
            return
        self._seen.checked[LIMITED] += 1
        if is_refused != isinstance(failure, QueueFull | LimitExceeded):
            raise PromiseBroken(f"{LIMITED}\n{change} got {failure!r}")

    # Several callers at once.

    def group(self, database: Unattended, step: Group) -> None:
        """Hand in the commits of several callers, to be written together."""
        doing: list[Doing] = []
        drafts: list[Draft] = []
        removed: set[int] = set()
        for part in step.parts:
            change = self._without(self._change_of(part), removed)
            if _is_nothing(change):
                continue
            removed.update(change.removed)
            drafts.append(self._draft(database, part, change))
            doing.append(Doing(change, None, self._clock.now))
        if not drafts:
            return
        spoken: Counter[str] = Counter()
        refused = [self._is_refused(database, one.change, spoken) for one in doing]
        self.account.pending = [one for one, is_out in zip(doing, refused, strict=True) if not is_out]
        database._group.commit_many(drafts)
        failures = [draft.failure for draft in drafts]
        if database is not self._openings.database:
            self._check_fenced(doing, failures)
            raise failures[-1] or AssertionError("the last one came too late")
        for one, failure, is_refused in zip(doing, failures, refused, strict=True):
            if not isinstance(failure, CommitFailed):  # nobody looked whether there is room
                self._check_limited(one.change, failure, is_refused=is_refused)
        for one, draft in zip(doing, drafts, strict=True):
            if draft.failure is None:
                self.account.done(one, range(draft.first, draft.first + len(one.change.adds)))
                for number in one.change.removed:
                    self.taken.pop(number, None)
        in_doubt = [one for one in failures if isinstance(one, OutcomeUnknown)]
        self.account.pending = [
            one for one, failure in zip(doing, failures, strict=True) if isinstance(failure, OutcomeUnknown)
        ]
        for failure in (*in_doubt, *failures):
            if failure is not None and not isinstance(failure, QueueFull | LimitExceeded):
                raise failure

    def _check_fenced(self, doing: Sequence[Doing], failures: Sequence[BaseException | None]) -> None:
        """Check that nothing was acknowledged but what the new owner has found: a group may be written in parts."""
        for one, failure in zip(doing, failures, strict=True):
            if failure is None and not any(one is found for found in self.account.taken_in):
                self._seen.checked[FENCED] += 1
                raise PromiseBroken(f"{FENCED}\n{one}")

    def _draft(self, database: Unattended, part: Commit, change: Change) -> Draft:
        drafting = database._drafting
        match part:
            case Add(properties=0):
                return drafting.add(change.adds[0].queue, change.adds[0].payload)
            case AddMany():
                return _there(drafting.add_many(change.adds[0].queue, [one.payload for one in change.adds], None, None))
            case Remove(delivers=delivers):
                return _there(drafting.removal(Operation.DELIVER if delivers else Operation.DELETE, change.removed))
            case _:
                return self._gathered(database, change)

    @staticmethod
    def _gathered(database: Unattended, change: Change) -> Draft:
        drafting = database._drafting
        block = drafting.gathering(None)
        for content in change.adds:
            block.add(content.queue, content.payload, properties=dict(content.properties) or None)
        block.deliver_many(change.removed)
        for key, value in change.puts.items():
            block.put(key, value)
        for key in change.drops:
            block.drop(key)
        return drafting.operations(block._operations)

    # Repeats.

    def resend(self, database: Unattended, step: Resend) -> None:
        """Send once more what came under an identifier, or something else under it."""
        scopes = sorted(self.account.identified)
        if not scopes:
            return
        scope = scopes[step.place % len(scopes)]
        known = self.account.identified[scope]
        window = self._window()
        if window.get(scope):
            self._repeat(database, scope, known, differs=step.differs)

    def _window(self) -> dict[Scope, bool]:
        """Return the identifiers that the window holds; False where its end is so near that it may not."""
        options, now = self._openings.options(), self._clock.now
        order = sorted(self.account.identified.items(), key=lambda pair: pair[1].time)
        age = round(options.duplicate_age * 1_000_000)
        return {
            scope: now - known.time < age - EDGE_MICROSECONDS
            for scope, known in order[max(0, len(order) - options.duplicate_count) :]
            if now - known.time <= age + EDGE_MICROSECONDS
        }

    def _repeat(self, database: Unattended, scope: Scope, known: Identified, *, differs: bool) -> None:
        adds = list(known.adds)
        if differs:
            adds[-1] = Content(adds[-1].queue, adds[-1].payload + b"?", adds[-1].properties)
        try:
            with database.commit(producer_id=scope[1]) as block:
                for content in adds:
                    block.add(content.queue, content.payload, properties=dict(content.properties) or None)
            numbers: Sequence[int] = block.numbers
            if not block.is_repeat:
                raise PromiseBroken(f"{AGAIN}\n{scope} was not said to be a repeat")
        except DuplicateConflict:
            if not differs:
                raise
            numbers = range(known.first, known.first + len(adds))
        else:
            if differs:
                raise PromiseBroken(f"{AGAIN}\nanother payload under {scope} was taken as {numbers}")
        self._seen.checked[AGAIN] += 1
        if list(numbers) != list(range(known.first, known.first + len(adds))):
            raise PromiseBroken(f"{AGAIN}\n{scope} was answered with {numbers}, at first with {known.first}")

    # Taking.

    def take(self, database: Unattended, queue: int) -> None:
        name = f"q{queue}"
        next_one, ready = database.peek(name), database.ready_count(name)
        message = database.take(name)
        free = [
            number
            for number, content in self.account.state.messages.items()
            if content.queue == name and number not in self.taken and number not in self.account.state.held
        ]
        self._seen.checked[HANDED] += 1
        found = None if message is None else message.number
        if found != min(free, default=None):
            raise PromiseBroken(f"{HANDED}\n{found} was handed out, {min(free, default=None)} is the next one")
        if next_one != message or not len(free) <= ready <= len(free) + self.unreadable:
            raise PromiseBroken(
                f"{HANDED}\nbefore {found} of {len(free)} was handed out, peek was {next_one} of {ready}"
            )
        if found is not None:
            self.taken[found] = name

    def _purge(self, database: Unattended, step: Purge) -> None:
        name = f"q{step.queue}"
        numbers = [number for number, content in self.account.state.messages.items() if content.queue == name]
        if numbers:
            call = partial(database.purge, name)
            self._commit(database, Change(removed=numbers), lambda: self._counted(call(), numbers, self.unreadable))

    def _release(self, database: Unattended, place: int) -> None:
        if self.taken:
            number = sorted(self.taken)[place % len(self.taken)]
            del self.taken[number]
            if not database.release(number):
                raise PromiseBroken(f"{HANDED}\n{number} was handed out, and cannot be given back")

    # What is held back.

    def decide(self, database: Unattended, step: Release | LetGo | Discard) -> None:
        """Give back what was taken; let go of what is held back, or deliver it."""
        if isinstance(step, Release):
            self._release(database, step.place)
            return
        is_all = isinstance(step, LetGo) and step.is_all
        numbers = sorted(self.account.state.held) if is_all else self._held(step.places)
        if not numbers:
            return
        others = [number for number in self.account.state.messages if number not in self.account.state.held]
        wanted = sorted([*numbers, *others[:2]])  # what is not held is left alone
        if isinstance(step, LetGo):
            change, call = Change(let_go=numbers), partial(database.unhold, None if is_all else wanted)
        else:
            change, call = Change(removed=numbers), partial(database.discard_held, wanted)
        unseen = self.unreadable if is_all else 0  # they are let go too
        self._commit(database, change, lambda: self._counted(call(), numbers, unseen))

    def _held(self, places: Sequence[int]) -> list[int]:
        held = sorted(self.account.state.held)
        return sorted({held[place % len(held)] for place in places}) if held else []

    def _counted(self, count: int, numbers: Sequence[int], unseen: int) -> Sequence[int]:
        self._seen.checked[DECIDED] += 1
        if not len(numbers) <= count <= len(numbers) + unseen:
            raise PromiseBroken(f"{DECIDED}\n{count} were, and not {numbers}")
        return ()

    def look(self, database: Unattended) -> None:
        """Read everything, one by one too."""
        self.account.check(state_of(database))
        for number in list(self.account.state.messages)[:3]:
            database.read(number)
        self._seen.checked[NOTHING_ELSE] += 1
        try:
            database.read(self.account.highest + 1)
        except NoSuchMessage:
            return
        raise PromiseBroken(f"{NOTHING_ELSE}\na message of the next number")

    # Changes.

    def _content(self, step: Add) -> Content:
        properties = tuple((f"name{place}", f"{step.seed}\u2603{place}") for place in range(step.properties))
        return Content(f"q{step.queue}", payload_of(step.size, step.seed), properties)

    def _contents(self, step: AddMany) -> list[Content]:
        return [Content(f"q{step.queue}", payload_of(size, step.seed + place)) for place, size in enumerate(step.sizes)]

    def _producer(self, has_one: bool) -> str | None:
        return f"producer-{next(self._identifiers)}" if has_one else None

    def _numbers(self, places: Sequence[int]) -> list[int]:
        """Return the undelivered messages at the places, modulo how many there are, each once."""
        live = list(self.account.state.messages)
        return sorted({live[place % len(live)] for place in places}) if live else []

    def _change_of(self, part: Commit) -> Change:
        match part:
            case Add():
                return Change(adds=[self._content(part)])
            case AddMany():
                return Change(adds=self._contents(part))
            case Remove():
                return Change(removed=self._numbers(part.places))
            case Put():
                return Change(puts={f"key{part.key}": payload_of(part.size, part.seed)})
            case Block():
                return self._change(part)

    def _change(self, step: Block) -> Change:
        """Return what a block does: of one key the last word counts, a message is removed once."""
        adds: list[Content] = []
        removed: list[int] = []
        values: dict[str, bytes | None] = {}
        for part in step.parts:
            match part:
                case Add():
                    adds.append(self._content(part))
                case Remove():
                    removed += [number for number in self._numbers(part.places) if number not in removed]
                case Put():
                    values[f"key{part.key}"] = payload_of(part.size, part.seed)
                case Drop():
                    values[f"key{part.key}"] = None
        puts = {key: value for key, value in values.items() if value is not None}
        return Change(adds=adds, removed=removed, puts=puts, drops=[key for key in values if key not in puts])

    @staticmethod
    def _without(change: Change, removed: set[int]) -> Change:
        mine = [number for number in change.removed if number not in removed]
        return Change(adds=change.adds, removed=mine, puts=change.puts, drops=change.drops)


def _is_nothing(change: Change) -> bool:
    return not (change.adds or change.removed or change.puts or change.drops)


def _there(draft: Draft | None) -> Draft:
    assert draft is not None, "there is something to do"
    return draft


def _nothing(_: object) -> Sequence[int]:
    return ()
