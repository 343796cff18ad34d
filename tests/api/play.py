"""Plays a script on a real database and holds every answer, and what is there after it, against the model."""

import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from oms_journal import (
    CommitFailed,
    DatabaseClosed,
    DatabaseLocked,
    DatabaseView,
    JournalError,
    Message,
    MessageDatabase,
    QueueClient,
    QueueOptions,
    QueueServer,
    back_up,
    connect_queue,
    serve_queue,
)
from oms_journal.database.backup.restore import RestoreOptions, restore
from oms_journal.database.commits.limited import LimitedLedger
from tests.api.arguments import WORDS, Argument, Given, Hand, Oops, way
from tests.api.face import Face, TaskFace, ThreadFace, plain
from tests.api.model import (
    MESSAGE_BYTES_MAX,
    MOST,
    Change,
    Expected,
    Model,
    New,
    Raised,
    Receipt,
    Shown,
    Value,
    are_refused,
    placed,
)
from tests.api.moments import Hung, Interrupt, MeddledDisk, Outcome
from tests.api.options_given import OPTIONS
from tests.api.surface import (
    ANY_QUEUE,
    LOOKS,
    Block,
    Call,
    Consume,
    Fork,
    Opened,
    Restart,
    Step,
    TakeFor,
    ThroughDoor,
    Together,
)
from tests.api.together import at_once
from tests.api.words import check_words
from tests.fuzz.target import MEMORY
from tests.support.attack import IsOver, OutOfTime
from tests.support.disks.watched_disk import HandClock
from tests.support.forking import forked
from tests.support.journals.descriptions import hashed
from tests.support.journals.java_reader import HAS_JAVA, java_reader

NUMBERS_END = 2**63 - 1  # from here on no message has a number
RECEIPTS_KEPT = 8
PROBE = "probe"  # a key that is put to see whether commits are accepted
RENAMED = {"keys": "keys_with", "held": "held_back", "taken": "taken_of"}  # where the model cannot have the API's name


class Broken(AssertionError):
    """A promise does not hold."""


class MeddledClock(HandClock):
    """A clock on whose every reading a caller's things may change."""

    meddle: Callable[[], None] = staticmethod(lambda: None)

    def __call__(self) -> int:
        self.meddle()
        return super().__call__()


def play(script: Sequence[Step], *, is_async: bool, is_restored: bool = False, is_over: IsOver = lambda: False) -> None:
    """Play the script; Broken, or any exception that nobody promised, where a promise does not hold. OutOfTime."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="oms-api-") as home:
        player = Player(Path(home), is_async=is_async, is_restored=is_restored)
        try:
            for step in script:
                if is_over():
                    raise OutOfTime
                player.step(step)
            player.step(Restart())
        finally:
            player.end()


@cache
def _restored() -> tuple[dict[str, bytes], Model]:
    """Return the files of a database whose messages are all held back, since it was restored, and its model."""
    model, clock = Model(), MeddledClock()  # no later than the script's: else nothing that it delays would wait
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="oms-api-") as folder:
        home = Path(folder)
        with MessageDatabase.open(home / "first", max_data_file_size=65_536, cleanup_interval=0, clock=clock) as db:
            for queue in ("a", "b", "a", "a"):
                number = db.add(queue, b"held")
                model.messages[number] = (number, queue, b"held", {})
            db.put("a", b"kept")
        back_up(home / "first", home / "backup")
        restore(home / "backup", home / "restored", RestoreOptions(hold=True, data_file_bytes_max=65_536, clock=clock))
        files = {path.name: path.read_bytes() for path in (home / "restored").iterdir() if path.is_file()}
    model.keys["a"], model.held, model.highest = b"kept", set(model.messages), max(model.messages)
    return files, model


class Player:
    """One database on its way through a script, with the model of what it should hold."""

    def __init__(self, home: Path, *, is_async: bool, is_restored: bool) -> None:
        self.directory = home / "spool"
        self.model = Model()
        if is_restored:
            files, model = _restored()
            self.directory.mkdir(parents=True)
            for name, data in files.items():
                (self.directory / name).write_bytes(data)
            self.model = model.copy()
        self.clock, self.disk = MeddledClock(), MeddledDisk()
        self.is_async = is_async
        self.options: dict[str, Any] = {
            "max_data_file_size": 65_536,
            "max_message_size": MESSAGE_BYTES_MAX,
            "cleanup_interval": 0,
            "duplicate_age": 1e9,
            "clock": self.clock,
            "queues": {queue: QueueOptions(max_messages=most) for queue, most in MOST.items()},
            "steady": lambda: 1,  # no lease ends, and no delay
        }
        self.was_reached = False  # the moment of the last step
        self.receipts: list[Receipt] = []
        self.tokens = count(1)
        self.door: tuple[QueueServer, QueueClient] | None = None
        self.face: Face = self._opened()

    def _opened(self) -> Face:
        return (TaskFace if self.is_async else ThreadFace)(self.directory, self.options, self.disk)

    def end(self) -> None:
        """Let go of all."""
        self._meddled(None)
        self._shut()
        if not self.face.is_ended:
            with suppress(JournalError):
                self.face.close()
            self.face.end()

    def _meddled(self, hand: Hand | None) -> None:
        """Have what was handed in change while the database is at work."""
        caller = threading.get_ident()
        has_begun = False  # the call has had its first step, in which it copies what it is given

        def meddle() -> None:
            # Not what the maintenance writes: it does at any time, also before the call has copied anything. Nor what
            # the thread that commits still does for the call before this one.
            is_ours = threading.get_ident() == caller
            if hand is not None and (is_ours or (has_begun and "commit" in threading.current_thread().name)):
                hand.meddle()

        def begin() -> None:
            nonlocal has_begun
            has_begun = True
            meddle()

        self.disk.meddle = self.clock.meddle = meddle
        if isinstance(self.face, TaskFace):
            self.face.meddle = begin

    def step(self, step: Step) -> None:
        self.was_reached = False
        match step:
            case Call():
                self.call(step)
            case Block():
                self.block(step)
            case Consume():
                self.consume(step)
            case TakeFor():
                self.take_for(step)
            case ThroughDoor(call):
                self.call_through(call)
            case Restart():
                self.restart(step)
            case Fork():
                self.fork(step)
            case Opened():
                self.opened(step)
            case Together():
                at_once(self.face, step, self.model)
        self.is_as_the_model()

    def _promise(self, holds: object, what: str) -> None:
        if not holds:
            raise Broken(what)

    # Calls.

    def hand(self) -> Hand:
        return Hand(self.model, inner=self._inner, receipts=self.receipts)

    def _inner(self, n: int) -> None:
        """Use the database, from within an argument of a call. An interrupt is the outer call's, not this one's.

        Nothing that was handed in changes meanwhile: the outer call is still copying it.
        """
        tracing, meddle = sys.gettrace(), self.disk.meddle
        sys.settrace(None)
        self._meddled(None)
        try:
            self._used_within(n)
        finally:
            self.disk.meddle = self.clock.meddle = meddle
            sys.settrace(tracing)

    def _used_within(self, n: int) -> None:
        db = self.face.db
        if isinstance(db, MessageDatabase) and n % 4 == 0:
            number = db.add("inner", b"inner")
            self.model.apply(Change(added=[New("inner", b"inner")]), [number])
        elif isinstance(db, MessageDatabase) and n % 4 == 1:
            db.release(-1)
            self._promise(
                [plain(one) for one in db.held()] == self.model.held_back().answer, "what is held, from within"
            )
        else:
            self._promise(db.undelivered_count() == len(self.model.messages), "a count from within an argument")

    def given(self, call: Call, hand: Hand) -> dict[str, Given]:
        """Return the arguments of a call, made now."""
        made = {name: way(one.kind, one.way)(hand, one.n) for name, one in call.arguments}
        for name, one in call.arguments:
            if call.method in LOOKS and one.way in ("no-name", "the-engines"):
                made[name].may, made[name].wrong = made[name].wrong, ()
                made[name].means = made[name].value
            if call.method in ANY_QUEUE and name == "queue" and made[name].value is None:
                made[name] = Given(None, None)
        return made

    def call(self, call: Call) -> None:
        hand = self.hand()
        made = self.given(call, hand)
        self._meddled(hand)
        by_place, by_name = _as_passed(call, made)
        outcome = self.face.call(call.method, by_place, by_name, call.moment)
        self.was_reached = bool(outcome.where)
        hand.meddle()
        self._meddled(None)
        expect: Callable[..., Expected] = getattr(self.model, RENAMED.get(call.method, call.method))
        means = {name: one.means for name, one in made.items()}
        is_wrong = any(one.wrong for one in made.values())
        expected = Expected() if is_wrong else expect(**means)
        self.judge(call, made, expected, outcome)
        if call.method in ("take", "take_many") and outcome.failure is None and outcome.raw:
            is_leased = "lease" in made and made["lease"].value is not None
            self._noted_receipts(outcome.raw if isinstance(outcome.raw, list) else [outcome.raw], is_leased=is_leased)
        if call.method == "peek":
            self.audit("after a peek")

    def _noted_receipts(self, messages: Sequence[Message], *, is_leased: bool) -> None:
        for message in messages:
            self.model.leases.pop(message.number, None)
            token = next(self.tokens) if is_leased else 0
            if token:
                self.model.leases[message.number] = token
            self.receipts.append(Receipt(message, token))
        del self.receipts[:-RECEIPTS_KEPT]

    def judge(self, call: Call, made: dict[str, Given], expected: Expected, outcome: Outcome) -> None:
        """Hold an outcome against what is expected, and take over its change."""
        failure = outcome.failure
        if isinstance(failure, Hung):
            raise Broken(f"{call.method} hangs") from failure
        if outcome.is_cut:
            self.resolve(expected, f"{call.method}, {outcome.where}")
            return
        wrong: Raised = tuple(kind for one in made.values() for kind in (*one.wrong, *one.may))
        if failure is not None:
            if isinstance(failure, Oops) and Oops in wrong:
                return
            if wrong and _is_of_two(failure, made):
                return
            self._promise(isinstance(failure, (*wrong, *expected.raises)), _said(call, "raised", failure))
            if isinstance(failure, wrong) and not isinstance(failure, expected.raises or ()):
                words = [WORDS[dict(call.arguments)[name].kind] for name, one in made.items() if one.wrong or one.may]
                check_words(failure, words, {name for name, one in made.items() if one.wrong or one.may})
            return
        must = [name for name, one in made.items() if one.wrong]
        is_nothing = call.method.endswith("_many") and outcome.answer in (0, range(0), None)
        self._promise(
            not must or (is_nothing and self._gives_nothing(made)), _said(call, f"took a wrong {must}", outcome.answer)
        )
        self._promise(must or not expected.raises, _said(call, f"{expected.raises} expected", outcome.answer))
        for one in made.values():
            if one.used_up is not None:
                one.used_up()
        if not must:
            self.answered(call.method, expected, outcome.answer)

    def _gives_nothing(self, made: dict[str, Given]) -> bool:
        return any(one.means == [] for one in made.values())

    def answered(self, what: str, expected: Expected, answer: Any) -> None:
        """Check an answer, and make the change in the model."""
        change = expected.change
        numbers: Sequence[int] = ()
        if change.added:
            numbers = [answer] if isinstance(answer, int) else answer
            self._promise(answer.is_repeat is False, f"{what} answered {answer!r}, and that it was a repeat")
        elif expected.says is not None:
            self._promise(expected.says(answer), f"{what} answered {answer!r}")
        else:
            same = type(answer) is type(expected.answer) and answer == expected.answer
            same &= getattr(answer, "is_repeat", None) == getattr(expected.answer, "is_repeat", None)
            self._promise(same, f"{what} answered {answer!r}, not {expected.answer!r}")
        self.model.apply(change, numbers)

    def resolve(self, expected: Expected, what: str) -> None:
        """After a call that was cut off: find out whether it is there whole or not at all."""
        self._settled()
        messages, keys, held = self.look()
        change, before = expected.change, self.model
        extra = sorted(messages.keys() - before.messages.keys())
        states = [before]
        if change.is_durable and len(extra) == len(change.added):
            states.append(before.copy())
            states[-1].apply(change, extra)
        there = [state for state in states if (messages, keys, held) == (state.messages, state.keys, state.held)]
        self._promise(
            there, f"{what}: neither whole nor not at all: {_differences(before, messages, keys)}, held {held}"
        )
        self.model = there[0]
        if change.released and not change.released & self._takeable(before.queue_names):
            (number,) = change.released
            if not self._answer("release", number):
                self._promise(number in change.delayed, f"{what}: {number} is neither given back nor taken")
                self.model.away.add(number)
        self.model.taken -= change.released
        self.audit(what)

    def _settled(self) -> None:
        """Wait until nothing goes on, and see whether commits are accepted; open again where they are not."""
        self.face.settle()
        done = self.face.call("put", (PROBE, b""), {})
        if isinstance(done.failure, CommitFailed):
            self._reopened()
            done = self.face.call("put", (PROBE, b""), {})
        if done.failure is not None:
            raise Broken(f"after a call that was cut off, put raised {done.failure!r}") from done.failure
        self.model.keys[PROBE] = b""

    # Looks.

    def look(self) -> tuple[dict[int, Shown], dict[str, bytes], set[int]]:
        """Return the messages, the values, and which messages are held back, as the database says them."""
        held = self._listed("held")
        found = [*self._listed("undelivered"), *held]
        messages: dict[int, Shown] = {message[0]: message for message in found}
        self._promise(len(messages) == len(found), f"a message is listed twice: {found}")
        keys = {key: self._answer("get", key) for key in self._answer("keys")}
        return messages, keys, {message[0] for message in held}

    def _listed(self, method: str) -> list[Shown]:
        found: list[Shown] = self._answer(method)
        self._promise([one[0] for one in found] == sorted(one[0] for one in found), f"{method} is not in order")
        return found

    def _answer(self, method: str, *given: Any) -> Any:
        outcome = self.face.call(method, given, {})
        if outcome.failure is not None:
            raise Broken(f"{method} raised {outcome.failure!r}") from outcome.failure
        return outcome.answer

    def is_as_the_model(self) -> None:
        messages, keys, held = self.look()
        self._promise(
            (messages, keys) == (self.model.messages, self.model.keys), _differences(self.model, messages, keys)
        )
        self._promise(held == self.model.held, f"held back is {held}, not {self.model.held}")
        ledger = (self.face.db._database if isinstance(self.face, TaskFace) else self.face.db)._ledger
        assert isinstance(ledger, LimitedLedger)
        self._promise(not ledger.limits._rooms, f"room of {[*ledger.limits._rooms]} is spoken for, and by nobody")

    def _takeable(self, queues: Sequence[str]) -> set[int]:
        found = set()
        for queue in queues:
            while (message := self._answer("take", queue)) is not None:
                found.add(message[0])
        for number in found:
            self._promise(self._answer("release", number), f"release({number}) after take")
        return found

    def audit(self, what: str) -> None:
        """Check that every undelivered message is takeable, taken by a living holder, or held back."""
        for queue in self.model.queue_names:
            there, free = self._takeable([queue]), set(self.model.free(queue))
            self._promise(
                there == free,
                f"{what}: of {queue!r} {sorted(free - there)} belong to nobody, {sorted(there - free)} to two",
            )
        for number in self.model.gone[-5:]:
            self._promise(self._answer("release", number) is False, f"{what}: {number} is gone and can be released")

    # Blocks.

    def block(self, step: Block) -> None:
        hand = self.hand()
        made = [way(step.producer.kind, step.producer.way)(hand, step.producer.n)] if step.producer else []
        outcome = self.face.block([one.value for one in made])
        call = Call("commit", (("producer_id", step.producer),) if step.producer else ())
        if outcome.failure is not None or (made and made[0].wrong):
            self.judge(call, {"producer_id": made[0]} if made else {}, Expected(), outcome)
            return
        begun, face = outcome.answer, self.face
        entered = self.face.enter(begun)
        change = Change(producer_id=made[0].means if made else None)
        self._meddled(hand)
        for each in step.calls:
            self.within(each, entered, change, hand)
        if step.within is not None:
            self._meddled(None)
            self.block(step.within)
            self._meddled(hand)
        self._left(step, begun, entered, change, is_reopened=self.face is not face)
        hand.meddle()
        self._meddled(None)
        self._again(step, begun, entered)

    def within(self, call: Call, block: Any, change: Change, hand: Hand) -> None:
        """Make one call of a block, and note in the block's change what it does."""
        made = self.given(call, hand)
        by_place, by_name = _as_passed(call, made)
        outcome = ThreadFace.call(self.face, call.method, by_place, by_name, None, block)  # type: ignore[arg-type]
        hand.meddle()
        if any(one.wrong for one in made.values()):
            is_covered = change.producer_id is not None and "producer_id" in made  # that is wrong too
            self.judge(call, made, Expected(raises=(ValueError,) if is_covered else ()), outcome)
            return
        noted, expected = _noted(self.model, change, call.method, {name: one.means for name, one in made.items()})
        self.judge(call, made, expected, outcome)
        if outcome.failure is None:
            change.added, change.removed, change.values = noted.added, noted.removed, noted.values

    def _left(self, step: Block, begun: Any, entered: Any, change: Change, *, is_reopened: bool) -> None:
        failure = Oops() if step.raises else None
        outcome = self.face.leave(begun, failure, step.moment)
        self.was_reached = bool(outcome.where)
        is_empty = not (change.added or change.removed or change.values)
        expected = Expected() if step.raises or is_empty else self.model.commit(change)
        if is_reopened and not (step.raises or is_empty):  # what was interrupted within has closed its database
            expected = Expected(raises=(DatabaseClosed, *expected.raises))
        if outcome.is_cut:
            self.resolve(expected, f"a block, {outcome.where}")
            return
        if outcome.failure is not None or expected.raises:
            self.judge(Call("commit"), {}, expected, outcome)
            return
        numbers = entered.numbers
        is_repeat = isinstance(expected.answer, range)
        self._promise(entered.is_repeat is is_repeat, f"a block says is_repeat={entered.is_repeat}, not {is_repeat}")
        if isinstance(expected.answer, range):
            self._promise(numbers == expected.answer, f"a repeated block answered {numbers}, not {expected.answer}")
        else:
            self._promise(isinstance(numbers, range), f"numbers are {numbers!r}")
            self.model.apply(expected.change, numbers)

    def _again(self, step: Block, begun: Any, entered: Any) -> None:
        """Check that a block that was left can be used for nothing more."""
        is_left = not (isinstance(step.moment, Interrupt) and step.moment.place == 1)  # else no line of it has run
        if not step.again or not is_left:
            return
        given: dict[str, tuple[Any, ...]] = {
            "add": ("a", b"late"), "add_many": ("a", [b"late"]), "put": ("a", b"late"), "drop": ("a",), "enter": (),
            "deliver": (1,), "delete": (1,), "deliver_many": ([],), "delete_many": ([],),
        }  # fmt: skip
        try:
            if step.again == "enter":
                self.face.enter(begun)
            else:
                getattr(entered, step.again)(*given[step.again])
        except (JournalError, RuntimeError, ValueError) as failure:
            check_words(failure, [("block", "commit")], set())
        else:
            raise Broken(f"a block that was left took {step.again}")

    # Loops and blocks that take.

    def _begun(self, method: str, given: Sequence[tuple[str, Argument]]) -> tuple[dict[str, Given], Any]:
        """Return what was given, and the loop or the block that came of it; None where it was refused."""
        call = Call(method, tuple(given))
        made = self.given(call, self.hand())
        by_place, by_name = _as_passed(call, made)
        outcome = self.face.played(lambda: (getattr(self.face.db, method)(*by_place, **by_name),), None)
        if outcome.failure is not None or any(one.wrong for one in made.values()):
            self.judge(call, made, Expected(), outcome)
            return made, None
        return made, outcome.raw[0]

    def _first_free(self, made: dict[str, Given]) -> int | None:
        means = made["queue"].means
        queues = [means] if isinstance(means, str) else means
        return next((number for queue in queues for number in self.model.free(queue)), None)

    def _handed(self, outcome: Outcome, number: int | None, made: dict[str, Given], what: str) -> Message | None:
        """Check which message was handed out, and return it."""
        if outcome.failure is not None:
            raise Broken(f"{what} raised {outcome.failure!r}") from outcome.failure
        shown = None if number is None else self.model.messages[number]
        self._promise(outcome.answer == shown, f"{what} has {outcome.answer!r}, not {shown!r}")
        message: Message | None = outcome.raw
        if message is not None:
            self.model.apply(Change(taken={message.number}), ())
            self._noted_receipts([message], is_leased="lease" in made and made["lease"].value is not None)
        return message

    def _done_with(self, message: Message, body: str) -> None:
        """Do what a body does with its message."""
        number, what = message.number, f"{body} of {message.number} that was taken"
        if body.startswith("extend"):
            expected = self.model.extend(self.receipts[-1], 5)
            outcome = self.face.call("extend", (message, 5), {})
            allowed = (expected.raises or type(None)) if self.receipts[-1].token else ValueError
            self._promise(isinstance(outcome.failure, allowed), f"{what}: {outcome.failure!r}")
        if body == "release":
            self._promise(self._answer("release", message) is True, what)
            self.model.apply(Change(released={number}), ())
        if "deliver" in body:
            self._promise(self._answer("deliver", message) is True, what)
            self.model.apply(Change(removed={number}), ())
        if body == "deliver twice":
            self._promise(self._answer("deliver", message) is False, what)

    def consume(self, step: Consume) -> None:
        made, going = self._begun("consume", step.given)
        message: Message | None = None
        for place, body in enumerate(step.bodies if going is not None else ()):
            self._given_back(message)
            number = self._first_free(made)
            if number is None:
                break  # it would wait
            outcome = self.face.following(going, step.moment if place == step.at else None)
            self.was_reached |= bool(outcome.where)
            if outcome.is_cut:
                _forget_frames(outcome)
                del going, outcome
                self.resolve(Expected(), f"a loop that was interrupted at {step.moment}")
                return
            message = self._handed(outcome, number, made, "a loop")
            del outcome
            assert message is not None
            self._done_with(message, body)
        del going
        self._given_back(message)
        self.audit("after a loop")

    def _given_back(self, message: Message | None) -> None:
        if message is not None and message.number in self.model.taken:
            self.model.apply(Change(released={message.number}), ())

    def take_for(self, step: TakeFor) -> None:
        made, block = self._begun("taking", step.given)
        if block is None:
            return
        entered = self.face.entered(block, step.moment if step.is_of_entering else None)
        self.was_reached = bool(entered.where)
        if entered.is_cut:
            _forget_frames(entered)
            del entered, block
            self.resolve(Expected(), f"a block that takes, whose beginning was interrupted at {step.moment}")
            return
        message = self._handed(entered, self._first_free(made), made, "a block")
        if message is not None:
            self._done_with(message, step.body)
        change = Change()
        if message is not None and message.number in self.model.taken:
            change = Change(released={message.number}) if step.raises else Change(removed={message.number})
        moment = None if step.is_of_entering else step.moment
        outcome = self.face.leave(block, Oops() if step.raises else None, moment)
        self.was_reached |= bool(outcome.where)
        if outcome.is_cut:
            self.model.taken -= change.removed | change.released  # it is gone, or nobody's
            _forget_frames(outcome)
            del outcome, block, entered
            self.resolve(Expected(change=Change(removed=change.removed)), f"a block's end, interrupted at {moment}")
            return
        self._promise(outcome.failure is None, f"a block's end raised {outcome.failure!r}")
        self.model.apply(change, ())
        self.audit("after a block that takes")

    # Through the socket.

    def _client(self) -> QueueClient:
        if self.door is None:
            path = self.directory.with_name("door")
            server = serve_queue(self.face.db, path)
            self.door = server, connect_queue(path)
        return self.door[1]

    def _shut(self) -> None:
        if self.door is not None:
            server, client = self.door
            self.door = None
            client.close()
            server.close()  # what it has begun it ends

    def call_through(self, call: Call) -> None:
        hand = self.hand()
        made = self.given(call, hand)
        by_place, by_name = _as_passed(call, made)
        client = self._client()
        outcome = ThreadFace.call(self.face, call.method, by_place, by_name, call.moment, client)  # type: ignore[arg-type]
        self.was_reached = bool(outcome.where)
        hand.meddle()
        if outcome.is_cut:
            self._shut()
        means = {name: one.means for name, one in made.items()}
        is_wrong = any(one.wrong for one in made.values())
        self.judge(call, made, Expected() if is_wrong else getattr(self.model, call.method)(**means), outcome)

    # Closing, opening, forking.

    def restart(self, step: Restart) -> None:
        self._shut()
        if step.crashes:
            crashed = self.directory.with_name(self.directory.name + "+")
            ignored = shutil.ignore_patterns("omsmsg.reserve", "omsmsg.index*", "*.new")
            shutil.copytree(self.directory, crashed, ignore=ignored)
        closed = self.face.close(step.moment)
        if closed.failure is not None and not closed.is_cut:
            raise Broken(f"close raised {closed.failure!r}") from closed.failure
        self.was_reached = bool(closed.where)
        again = self.face.close()
        self._promise(again.failure is None, f"close after {closed.where} raised {again.failure!r}")
        if step.closed is not None:
            self._after_close(step.closed)
        self.face.end()
        if step.crashes:
            shutil.rmtree(self.directory)
            self.directory = crashed
        elif not closed.is_cut:
            self._files_are_right()
        self.face = self._reopened_face(closed.where)
        self.model.restart(is_killed=step.crashes)
        self.is_as_the_model()
        self.audit("after a restart")

    def _reopened(self) -> None:
        self._shut()
        self.face.close()
        self.face.end()
        self.face = self._reopened_face("")
        self.model.restart(is_killed=False)

    def _reopened_face(self, where: str) -> Face:
        try:
            return self._opened()
        except DatabaseLocked as failure:
            raise Broken(f"after a close that was interrupted at {where or 'no place'}: {failure}") from failure

    def _after_close(self, call: Call) -> None:
        hand = self.hand()
        made = self.given(call, hand)
        if any(one.may or one.wrong for one in made.values()) or hand.is_inner:
            return
        by_place, by_name = _as_passed(call, made)
        outcome = self.face.call(call.method, by_place, by_name)
        is_nothing = self._gives_nothing(made) and outcome.failure is None
        failure = outcome.failure
        is_of_two = failure is not None and _is_of_two(failure, made)
        is_right = is_nothing or is_of_two or isinstance(failure, DatabaseClosed)
        self._promise(is_right, f"after close {call.method} raised {outcome.failure!r} or answered {outcome.answer!r}")

    def _files_are_right(self) -> None:
        """Check that the reader in Java, where it can run, and a view find in the files what the model has."""
        if HAS_JAVA:
            self._java_reader_agrees()
        with DatabaseView.open(self.directory) as view:
            seen = {one.number: plain(one) for one in (*view.undelivered(), *view.held())}
            self._promise(seen == self.model.messages, "a view finds something else")

    def _java_reader_agrees(self) -> None:
        read = java_reader().read(self.directory)
        damaged = [one for one in (*read["files"], *read["operations"]) if one.get("verdict", "clean") != "clean"]
        damaged += [one for one in read["operations"] if one["damaged"]]
        self._promise(not read["refused"] and not damaged, f"the reader in Java finds damage: {damaged}")
        added = {one["number"]: one for one in read["operations"] if one["kind"] == "ADD"}
        told = {n: (queue, added[n]["payload"], added[n]["properties"] or {}) for n, queue in read["undelivered"]}
        known = {
            n: (queue, hashed(payload), properties) for n, queue, payload, properties in self.model.messages.values()
        }
        keys = {key: hashed(value) for key, value in self.model.keys.items()}
        self._promise((told, read["keys"]) == (known, keys), "the reader in Java finds something else")

    def fork(self, step: Fork) -> None:
        self._shut()
        hand = self.hand()
        made = self.given(step.call, hand)
        if any(one.may or one.wrong for one in made.values()) or hand.is_inner:
            return
        by_place, by_name = _as_passed(step.call, made)

        def in_the_child() -> int:
            outcome = self.face.call(step.call.method, by_place, by_name)
            is_nothing = self._gives_nothing(made) and outcome.failure is None
            return 0 if is_nothing or isinstance(outcome.failure, DatabaseClosed) else 1

        status = forked(in_the_child)
        self._promise(status == 0, f"{step.call.method} in the child of a fork: {status}")

    def opened(self, step: Opened) -> None:
        """Open the closed directory with an option that is right, or that must be refused, and as before again."""
        right, wrong = OPTIONS[step.option]
        self._shut()
        self.face.close()
        self.face.end()
        before = sorted((path.name, path.stat().st_size) for path in self.directory.iterdir())
        value = (*right, *wrong)[step.n % (len(right) + len(wrong))]
        is_right = step.n % (len(right) + len(wrong)) < len(right)
        try:
            with self._database_with(step.option, value) as db:
                self._promise(is_right, f"open took {step.option}={value!r}")
                self._promise(
                    db.undelivered_count() == len(self.model.messages), f"opened with {step.option}={value!r}"
                )
        except Exception as failure:
            if isinstance(failure, Broken):
                raise
            self._promise(
                not is_right and isinstance(failure, TypeError | ValueError),
                f"open({step.option}={value!r}): {failure!r}",
            )
            check_words(failure, [(step.option,)], {step.option})
            left = sorted((path.name, path.stat().st_size) for path in self.directory.iterdir())
            self._promise(left == before, f"a refused open({step.option}={value!r}) has changed files")
        self.face = self._opened()
        self.model.restart(is_killed=False)

    def _database_with(self, option: str, value: Any) -> MessageDatabase:
        named: dict[str, Any] = {"cleanup_interval": 0, "max_data_file_size": 65_536} | {option: value}
        if option == "options":
            return MessageDatabase.open(self.directory, options=value)
        if option == "directory":
            return MessageDatabase.open(value)
        return MessageDatabase.open(self.directory, **named)


def _is_of_two(failure: BaseException, made: dict[str, Given]) -> bool:
    """Say whether a refusal is of two arguments that do not go together: it may come before that of a wrong one."""
    text = str(failure)
    if {"delay", "at"} <= made.keys() and text.startswith("give delay or at, not both"):
        return isinstance(failure, ValueError)
    is_due = "expires" in made and ("delay" in made or "at" in made)
    return isinstance(failure, ValueError) and is_due and text.startswith("the message would expire before it is due")


def _forget_frames(outcome: Outcome) -> None:
    """Let go of what an exception has come through: a program has handled it by now."""
    failure = outcome.failure
    while failure is not None:
        failure = failure.with_traceback(None).__context__


def _as_passed(call: Call, made: dict[str, Given]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments by position and by name; what stands behind a left-out one goes by name."""
    by_place: list[Any] = []
    by_name = {name: one.value for name, one in made.items()}
    first = next(iter(by_name), None)
    if not call.is_named and first in ("queue", "payload", "number", "numbers", "key", "prefix"):
        by_place.append(by_name.pop(first))
    return by_place, by_name


def _said(call: Call, what: str, value: object) -> str:
    return f"{call.method}: {what}: {value!r}"


def _differences(model: Model, messages: dict[int, Shown], keys: dict[str, bytes]) -> str:
    lacking = {n: one for n, one in model.messages.items() if messages.get(n) != one}
    more = {n: one for n, one in messages.items() if model.messages.get(n) != one}
    values = {key for key in keys.keys() | model.keys.keys() if keys.get(key) != model.keys.get(key)}
    return f"lacking or different {lacking}, there instead {more}, keys that differ {values}"[:2000]


def _noted(model: Model, change: Change, method: str, means: dict[str, Any]) -> tuple[Change, Expected]:
    """Return what a block holds once it has taken a call, and what is expected of the call."""
    from oms_journal import LimitExceeded, NotUndelivered

    noted = Change([*change.added], change.producer_id, {*change.removed}, {**change.values})
    if method in ("add", "add_many"):
        payloads = means.get("payloads", [means.get("payload")])
        terms = {name: means[name] for name in ("delay", "at", "expires", "group") if name in means}
        of = means.get("properties"), means.get("producer_id")
        news = [New(means["queue"], one, *of, **placed(**terms)) for one in payloads]
        if are_refused(**terms):
            return change, Expected(raises=(ValueError, JournalError))
        if change.producer_id is not None and means.get("producer_id") is not None:
            return change, Expected(raises=(ValueError, JournalError))
        if any(new.size > MESSAGE_BYTES_MAX for new in news):
            return change, Expected(raises=(LimitExceeded,))
        noted.added += news
    elif method in ("put", "drop"):
        value = Value(means["value"], means.get("numbers_at") or {}) if method == "put" else None
        noted.values.pop(means["key"], None)
        noted.values[means["key"]] = value
    else:
        assert method in ("deliver", "deliver_many", "delete", "delete_many"), f"no model for {method}"
        numbers = means.get("numbers", [means.get("number")])
        is_known = change.producer_id is not None  # then leaving it says which are gone
        for number in numbers:
            may_be_gone = is_known and 0 < number < NUMBERS_END
            if number in noted.removed or not (number in model.messages or may_be_gone):
                return change, Expected(raises=(NotUndelivered,))
            noted.removed.add(number)
    return noted, Expected()
