"""The server that loads a store: it waits for the one that unloads, and takes in what it sends."""

import asyncio
import logging
import secrets
from typing import Any

from oms_journal.broker.migration.agreement import MoveRefused, StoreOffer, encode_offer
from oms_journal.broker.migration.load import Loading
from oms_journal.broker.migration.stream import NotAReplica, Tally, told
from oms_journal.broker.server.migration.exchange import (
    ExchangeRefused,
    MoveFailed,
    MoveProgress,
    check_in,
    hello_in,
)
from oms_journal.broker.server.migration.partner import MoveSide
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.broker.store.start import StartRefused, StoreError

_log = logging.getLogger("oms.server")
LOOK_SECONDS = 1.0  # between two looks at how far it is, for the terminal
LINGER_SECONDS = 10.0  # for the partner to ask again how the comparison went, where the answer was lost


class LoadSide(MoveSide[Loading]):
    """This server's side of a load."""

    def __init__(self, served: ServerState, telling: MoveProgress, report: str | None) -> None:
        super().__init__(served, telling, report, "unload")
        self._load = ""  # which load this is, as the partner has to name it
        self._next = 0  # number of the chunk that is wanted
        self._source: StoreOffer | None = None
        self._checking: asyncio.Task[list[str]] | None = None
        self._checked = (0, 0)  # parts compared, of how many
        self._summary: dict[str, Tally] = {}
        self._result: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    # The side itself.

    async def run(self) -> str:
        await self._open(Loading.open)
        while True:
            self._telling.say(*self._where())
            done, _ = await asyncio.wait((self._result,), timeout=LOOK_SECONDS)
            if done:
                break
        try:
            text = self._result.result()
        except MoveFailed as failure:
            _log.error("the store was not loaded: %s", failure)
            raise
        _log.info("%s", text)
        return text

    def _where(self) -> tuple[str, int, int]:
        if self._checking is not None:
            return "comparing what was loaded", *self._checked
        if self._source is None or self._store is None:
            return f"waiting for the unload broker at {self._partner.address}", 0, 0
        return f"loading {self._source}", self._store.parts, self._source.parts

    def _partner_failed(self, text: str) -> None:
        self._fail(text)

    def _fail(self, text: str) -> None:
        if not self._result.done():
            self._result.set_exception(MoveFailed(text))

    # What the partner asks.

    async def _answer(self, verb: str, names: tuple[str, ...], body: bytes) -> dict[str, Any]:
        if self._store is None or self._turn.locked() or self._result.done():
            raise ExchangeRefused(503, "the load broker is at work: ask again")
        if verb == "hello":
            return await self._hello(body)
        if not names or names[0] != self._load:
            raise ExchangeRefused(409, "no such load: it has to begin anew")
        if verb == "chunk" and len(names) == 2 and names[1].isdecimal():
            return await self._chunk(int(names[1]), body)
        if verb == "check":
            return await self._check(body)
        if verb == "end":
            return self._end()
        return await super()._answer(verb, names, body)

    async def _hello(self, body: bytes) -> dict[str, Any]:
        nonce, source = hello_in(body)
        await self._partner.see_confirmed(nonce)
        async with self._turn:
            self._checking, self._load = None, ""
            loading = self._store
            assert loading is not None, "the store is open while it is asked"
            try:
                is_new = await asyncio.to_thread(loading.begin, source)
            except MoveRefused as refused:
                self._fail(str(refused))
                raise ExchangeRefused(422, str(refused)) from None
            except (StoreError, StartRefused) as failure:
                self._fail(f"the load cannot begin: {failure}")
                raise ExchangeRefused(422, f"the load cannot begin: {failure}") from None
            self._load, self._next, self._source = secrets.token_hex(8), 0, source
        _log.info("%s: %s", "the load begins" if is_new else "loaded before, and only compared", source)
        return {"load": self._load, "is_new": is_new, "offer": encode_offer(loading.offer)}

    async def _chunk(self, number: int, body: bytes) -> dict[str, Any]:
        if number == self._next - 1:  # its answer was lost
            return {"next": self._next}
        if number != self._next:
            raise ExchangeRefused(409, f"chunk {number} comes out of turn: {self._next} was expected")
        async with self._turn:
            loading = self._store
            assert loading is not None, "the store is open while it is asked"
            try:
                await asyncio.to_thread(loading.take, body)
            except (StoreError, NotAReplica, StartRefused) as failure:
                self._fail(f"the store cannot be loaded: {failure}")
                raise ExchangeRefused(422, f"the store cannot be loaded: {failure}") from None
            self._next += 1
        return {"next": self._next}

    async def _check(self, body: bytes) -> dict[str, Any]:
        if self._checking is None:
            self._summary, last = check_in(body)
            self._checking = asyncio.ensure_future(self._compare(last))
        await asyncio.wait((self._checking,), timeout=LOOK_SECONDS)
        if not self._checking.done():
            done, total = self._checked
            return {"state": "comparing", "done": done, "total": total}
        try:
            found = self._checking.result()
        except (StoreError, NotAReplica) as failure:
            self._fail(f"what was loaded cannot be compared: {failure}")
            raise ExchangeRefused(422, f"what was loaded cannot be compared: {failure}") from None
        if found:
            text = "what was loaded is not what was unloaded: " + "; ".join(found)
            self._fail(text)
            raise ExchangeRefused(422, text)
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self._end)
        return {"state": "equal"}

    async def _compare(self, last: int) -> list[str]:
        loop = asyncio.get_running_loop()

        def progress(done: int, total: int) -> None:
            if done % 1000 == 0:
                loop.call_soon_threadsafe(self._note, done, total)

        loading = self._store
        assert loading is not None, "the store is open while it is asked"
        return await asyncio.to_thread(loading.check, self._summary, last, progress)

    def _note(self, done: int, total: int) -> None:
        self._checked = done, total

    def _end(self) -> dict[str, Any]:
        is_equal = self._checking is not None and self._checking.done() and not self._checking.cancelled()
        if not is_equal:
            raise ExchangeRefused(409, "it has not been compared yet")
        if not self._result.done():
            owner = "" if self._source is None else self._source.owner
            start = f"start it with PSTORE=HOT and BROKER-ID={owner}, and never beside the old one"
            self._result.set_result(f"loaded, and equal on both sides: {told(self._summary)}; {start}")
        return {"state": "ended"}
