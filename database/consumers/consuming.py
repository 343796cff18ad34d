"""Going through a queue with `for` and taking one message with `with`, in threads and in tasks.

A message that its block has neither delivered nor released is given back when the block is left. Only what is still in
the hands of that very call: what the block has released may be somebody else's by then.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType

from oms_journal.database.consumers.consumers import TakenMessage
from oms_journal.database.consumers.handing import Handing
from oms_journal.journal.errors import DatabaseClosed, OutsideBlock
from oms_journal.journal.reading.message import Message


class _InLoop:
    """The message that a loop is at. It goes back when the loop goes on, or is left: who has the loop lets go of it."""

    _current: TakenMessage | None = None

    def __init__(self, handing: Handing) -> None:
        self._handing = handing

    def close(self) -> None:
        """Give back the message that was handed out last, if nobody has delivered or released it."""
        if self._current is not None:
            # First: where an interrupt comes next, it is given back again, to no effect.
            self._handing.release_if_held(self._current)
            self._current = None

    def __del__(self) -> None:
        if self._current is not None:
            self._handing.give_up_loop(self._current)


class Consuming(_InLoop, Iterator[Message]):
    """The messages of a queue, one after another, as they come. It ends when the database is closed."""

    def __init__(self, take: Callable[[float], TakenMessage | None], handing: Handing) -> None:
        super().__init__(handing)
        self._take = take

    def __next__(self) -> Message:
        self.close()
        try:
            self._current = self._take(math.inf)
        except DatabaseClosed:
            raise StopIteration from None
        assert self._current is not None, "it waits until there is one"
        return self._current


class AsyncConsuming(_InLoop, AsyncIterator[Message]):
    """The same for tasks. Leaving the loop gives the message back at once: it is no generator, which would not."""

    def __init__(self, take: Callable[[float], Awaitable[TakenMessage | None]], handing: Handing) -> None:
        super().__init__(handing)
        self._take = take

    async def __anext__(self) -> Message:
        self.close()
        try:
            self._current = await self._take(math.inf)
        except DatabaseClosed:
            raise StopAsyncIteration from None
        assert self._current is not None, "it waits until there is one"
        return self._current


class _Block:
    """The message of a block, which can be entered once.

    Where an interrupt comes before the end of the block has begun, it comes back when nobody has the block any more.
    """

    _message: TakenMessage | None = None
    _is_entered = False

    def __init__(self, handing: Handing) -> None:
        self._handing = handing

    def __del__(self) -> None:
        if self._message is not None:
            self._handing.drop(self._message)

    def _give_up(self) -> None:
        """Give back a message that an interrupt has kept from the block."""
        if self._message is not None:
            self._handing.release_if_held(self._message)
            self._message = None

    def _enter(self) -> None:
        if self._is_entered:
            raise OutsideBlock("this `taking` was entered before; it takes one message: begin another one")
        self._is_entered = True


class Taking(_Block, AbstractContextManager[Message | None]):
    """One message for a `with` block: delivered at its end, given back where an exception leaves it."""

    def __init__(
        self,
        take: Callable[[], TakenMessage | None],
        deliver: Callable[[TakenMessage], object],
        handing: Handing,
    ) -> None:
        super().__init__(handing)
        self._take = take
        self._deliver = deliver

    def __enter__(self) -> Message | None:
        self._enter()
        try:
            self._message = self._take()
            return self._message
        except BaseException:
            self._give_up()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._message is not None and kind is None:
            try:
                self._deliver(self._message)
            except BaseException as failed:
                self._handing.let_go(self._message, failed)
                self._message = None
                raise
        elif self._message is not None:
            self._handing.release_if_held(self._message)
        self._message = None


class AsyncTaking(_Block, AbstractAsyncContextManager[Message | None]):
    """The same for tasks."""

    def __init__(
        self,
        take: Callable[[], Awaitable[TakenMessage | None]],
        deliver: Callable[[TakenMessage], Awaitable[object]],
        handing: Handing,
    ) -> None:
        super().__init__(handing)
        self._take = take
        self._deliver = deliver

    async def __aenter__(self) -> Message | None:
        self._enter()
        try:
            self._message = await self._take()
            return self._message
        except BaseException:
            self._give_up()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._message is not None and kind is None:
            try:
                await self._deliver(self._message)
            except BaseException as failed:
                self._handing.let_go(self._message, failed)
                self._message = None
                raise
        elif self._message is not None:
            self._handing.release_if_held(self._message)
        self._message = None
