"""A store on its way from one server to another: what both sides have in common, and how a move ends.

    unload                                    load
    opens its store, unchanged                opens its store: empty, or of an unfinished load
    POST /peer/load/hello, until answered     waits for it; asks /peer/unload/confirm at its own partner's address
    POST /peer/load/chunk/LOAD/NUMBER, each   takes the chunks in, one after the other
    after the other is answered
    POST /peer/load/check/LOAD, until it      makes all of it durable, reads it, compares
    is compared
    POST /peer/load/end/LOAD                  stops
    stops

Whoever cannot go on for good says so (POST /peer/…/failed), and both stop. A connection that is lost ends nothing:
each waits for the other again, and the load begins anew. (EntireX 8.0, Concepts of Persistent Messaging, "Migrating the
Persistent Store": three steps, of which this is each.)
"""

import asyncio
from typing import Protocol

from oms_journal.broker.server.migration.load_side import LoadSide
from oms_journal.broker.server.migration.progress import MoveFailed, MoveProgress, Show, no_show
from oms_journal.broker.server.migration.unload_side import UnloadSide
from oms_journal.broker.server.runtime.state import Answering, ServerState


class Moving(Answering, Protocol):
    """One side of a move."""

    async def run(self) -> str:
        """Move the store; return what was moved, for people. MoveFailed, StartRefused."""
        ...

    async def close(self) -> None:
        """Let go of the store."""
        ...


def begun(served: ServerState, show: Show = no_show, *, report: str | None = None) -> Moving:
    """Return this server's side of a move; nothing of it has begun. `report` is where the report goes."""
    telling = MoveProgress(served, show)
    is_source = served.run_mode == "PSTORE-UNLOAD"
    moving: Moving = (UnloadSide if is_source else LoadSide)(served, telling, report)
    served.moving = moving
    return moving


async def run_until(moving: Moving, stopping: asyncio.Event) -> str:
    """Move the store, unless the server is stopped before; return what was moved. MoveFailed, StartRefused."""
    running, stopped = asyncio.ensure_future(moving.run()), asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise MoveFailed("the server was stopped before the store was moved; start both again, and it begins anew")
        return running.result()
    finally:
        for task in (running, stopped):
            task.cancel()
        await asyncio.gather(running, stopped, return_exceptions=True)
        await moving.close()
