"""Who the caller of a connection is, once that is found out, and what it may; nothing of it where nobody asks."""

import asyncio
from collections.abc import Callable

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import Reply, Request
from oms_journal.broker.rights import Guard, Identity, LogonRefused

LoggedOn = Callable[[LogonRefused | None], None]


class Login:
    """The login of one connection, with a guard that is not open."""

    __slots__ = ("_guard", "_identity", "_task")

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._identity: Identity | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, user: str, password: str, peer: str, then: LoggedOn) -> None:
        """Find out who it is; `then` is told None, or why it is refused."""

        async def ask() -> None:
            try:
                self._identity = await self._guard.log_on(user, password, peer)
            except LogonRefused as refused:
                then(refused)
            else:
                then(None)

        self._task = asyncio.get_running_loop().create_task(ask())

    @property
    def identity(self) -> Identity:
        """Who it is; only once that is known."""
        assert self._identity is not None, "who has not logged on calls nobody"
        return self._identity

    @property
    def is_stale(self) -> bool:
        """Whether the user has changed since it logged on."""
        return self._identity is not None and not self._identity.is_current

    def refusal(self, request: Request) -> Answered | None:
        """Return what a call is answered that the user may not make."""
        refused = self._guard.check_call(self.identity, request)
        return None if refused is None else Answered(Reply(code=refused[0], text=refused[1]))

    def told(self, request: Request, answered: Answered) -> Answered:
        """Return what the user is told of an answer."""
        return self._guard.told(self.identity, request, answered)

    def cancel(self) -> None:
        """Let nobody be told any more."""
        if self._task is not None:
            self._task.cancel()


def peer_of(transport: asyncio.BaseTransport | None) -> str:
    """Return the address at the other end, "" where there is none."""
    found = transport.get_extra_info("peername") if transport is not None else None
    return str(found[0]) if isinstance(found, tuple) and found else ""
