"""The two faces of a database, for threads and for asyncio, behind one: a call at a moment, and what came of it."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from oms_journal import AsyncMessageDatabase, CommitFailed, Message, MessageDatabase
from tests.api.moments import Cancel, Interrupt, Interrupted, Moment, Outcome, cancelled, watched

SETTLING_TURNS = 10  # of the loop, until what a cancelled call left behind is over


def _is_unknown(failure: BaseException) -> bool:
    return isinstance(failure, CommitFailed)


def plain(answer: Any) -> Any:
    """Return an answer as plain values: a message by what it says, an iterator as a list."""
    if isinstance(answer, Message):
        return (answer.number, answer.queue, answer.payload, dict(answer.properties))
    if inspect.isgenerator(answer) or (isinstance(answer, Iterator) and not isinstance(answer, str | bytes)):
        return [plain(each) for each in answer]
    if isinstance(answer, list):
        return [plain(each) for each in answer]
    return answer


class ThreadFace:
    """A MessageDatabase, called from this thread."""

    def __init__(self, directory: Path, options: Mapping[str, Any], disk: Any) -> None:
        self.is_ended = False
        self.db = MessageDatabase.open(directory, disk=disk, **options)

    def call(
        self, method: str, given: Sequence[Any], named: Mapping[str, Any], moment: Moment = None, of: Any = None
    ) -> Outcome:
        function = getattr(of if of is not None else self.db, method)
        return self.played(lambda: function(*given, **named), moment)

    def played(self, call: Callable[[], Any], moment: Moment) -> Outcome:
        """Return what comes of a call, an answer that is an iterator gone through."""
        interrupt = Interrupted(moment if isinstance(moment, Interrupt) else None)
        outcome = Outcome(is_unknown=_is_unknown)
        with watched():
            try:
                with interrupt:
                    answer = call()
                outcome.raw, outcome.answer = answer, plain(answer)
            except BaseException as failure:
                outcome.failure = failure
        outcome.where = interrupt.where
        return outcome

    def block(self, producer: Sequence[Any]) -> Outcome:
        named = {"producer_id": producer[0]} if producer else {}
        return self.played(lambda: self.db.commit(**named), None)

    def enter(self, block: Any) -> Any:
        return block.__enter__()

    def leave(self, block: Any, failure: BaseException | None, moment: Moment) -> Outcome:
        return self.played(lambda: block.__exit__(type(failure) if failure else None, failure, None), moment)

    def entered(self, block: Any, moment: Moment) -> Outcome:
        return self.played(block.__enter__, moment)

    def following(self, going: Any, moment: Moment) -> Outcome:
        """Return what a loop goes on with."""
        return self.played(going.__next__, moment)

    def settle(self) -> None:
        """Nothing of a call goes on once it has returned."""

    def close(self, moment: Moment = None) -> Outcome:
        return self.played(self.db.close, moment)

    def end(self) -> None:
        """Let go of what the face itself has."""
        self.is_ended = True


class TaskFace:
    """An AsyncMessageDatabase, called from the tasks of a loop that runs while a call does."""

    def __init__(self, directory: Path, options: Mapping[str, Any], disk: Any) -> None:
        self.is_ended = False
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._executor = ThreadPoolExecutor(1, "tests-loop")  # one: what comes later is done later
        self._loop.set_default_executor(self._executor)
        self.meddle: Callable[[], None] = lambda: None
        self.db = AsyncMessageDatabase.open(directory, disk=disk, **options)
        try:
            self._run(self.db.__aenter__(), None)
        except BaseException:
            self.end()
            raise

    def _run(self, coroutine: Any, moment: Moment) -> Any:
        async def run() -> Any:
            asyncio.get_running_loop().call_soon(self.meddle)  # between the call's first step and the turn's end
            if isinstance(moment, Cancel):
                return await cancelled(coroutine, moment)
            return await coroutine

        with watched():
            return self._runner.run(run())

    def call(
        self, method: str, given: Sequence[Any], named: Mapping[str, Any], moment: Moment = None, of: Any = None
    ) -> Outcome:
        function = getattr(of if of is not None else self.db, method)
        return self.played(lambda: function(*given, **named), moment)

    def played(self, call: Callable[[], Any], moment: Moment) -> Outcome:
        outcome = Outcome(is_unknown=_is_unknown)
        try:
            answer = call()
            if inspect.isasyncgen(answer):
                answer = self._run(_gone_through(answer), moment)
            elif inspect.iscoroutine(answer):
                answer = self._run(answer, moment)
            outcome.raw, outcome.answer = answer, plain(answer)
        except BaseException as failure:
            outcome.failure = failure
            outcome.where = repr(moment) if isinstance(failure, asyncio.CancelledError) else ""
        return outcome

    def block(self, producer: Sequence[Any]) -> Outcome:
        named = {"producer_id": producer[0]} if producer else {}
        return self.played(lambda: self.db.commit(**named), None)

    def enter(self, block: Any) -> Any:
        return self._run(block.__aenter__(), None)

    def leave(self, block: Any, failure: BaseException | None, moment: Moment) -> Outcome:
        return self.played(lambda: block.__aexit__(type(failure) if failure else None, failure, None), moment)

    def entered(self, block: Any, moment: Moment) -> Outcome:
        return self.played(block.__aenter__, moment)

    def following(self, going: Any, moment: Moment) -> Outcome:
        return self.played(going.__anext__, moment)

    def settle(self) -> None:
        """Wait until what a cancelled call left to a thread is over, and the loop has heard of it."""

        async def settle() -> None:
            for _ in range(SETTLING_TURNS):
                await asyncio.to_thread(lambda: None)
                await asyncio.sleep(0)

        self._run(settle(), None)

    def close(self, moment: Moment = None) -> Outcome:
        return self.played(self.db.close, moment)

    def together(self, coroutine: Any) -> Any:
        return self._run(coroutine, None)

    def end(self) -> None:
        self.is_ended = True
        self._runner.close()
        self._executor.shutdown()


Face = ThreadFace | TaskFace


async def _gone_through(answer: Any) -> list[Any]:
    return [each async for each in answer]
