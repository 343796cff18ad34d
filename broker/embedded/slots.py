"""What waits on an event loop for a broker: a call for its answer, a barrier for its turn at the store."""

import asyncio
from collections.abc import Callable

from oms_journal.broker.answers import Physical
from oms_journal.broker.block import Request
from oms_journal.broker.kernel.state.effects import Answer, Input


class PendingCall:
    """A call under way, and the future that its task waits for."""

    __slots__ = ("answer", "caller", "future", "handle", "is_gone", "request")

    def __init__(self, request: Request, caller: Physical, handle: int) -> None:
        self.request = request
        self.caller = caller
        self.handle = handle
        self.answer: Answer | None = None
        self.future: asyncio.Future[None] | None = None
        self.is_gone = False  # its task was cancelled

    def wake(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


class Barrier:
    """Something to be done to the store between two commits, and what the kernel is told when it went well."""

    __slots__ = ("future", "run", "then")

    def __init__(self, run: Callable[[], object], future: "asyncio.Future[None]", then: Input | None) -> None:
        self.run = run
        self.future = future
        self.then = then
