"""The server that unloads a store: it looks for the one that loads, and sends it everything."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from oms_journal.broker.migration.agreement import (
    MoveRefused,
    decode_offer,
    encode_offer,
    encode_summary,
    partner_refusal,
)
from oms_journal.broker.migration.stream import told
from oms_journal.broker.migration.unload import Unloading
from oms_journal.broker.server.migration.exchange import MoveFailed, MoveProgress
from oms_journal.broker.server.migration.partner import HELLO_SECONDS, MoveSide, PartnerSays, Unreachable
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.broker.store.start import StoreError

_log = logging.getLogger("oms.server")
PAUSE_SECONDS = 1.0  # between two hellos
RETRY_SECONDS = 30.0  # that one chunk is sent again and again; then the load begins anew


class _Interrupted(Exception):
    """The load has to begin anew."""


class UnloadSide(MoveSide[Unloading]):
    """This server's side of an unload."""

    def __init__(self, served: ServerState, telling: MoveProgress, report: str | None) -> None:
        super().__init__(served, telling, report, "load")
        self._heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # that the partner has failed

    # The side itself.

    async def run(self) -> str:
        unloading = await self._open(Unloading.open)
        self._offer = unloading.offer
        moving = asyncio.ensure_future(self._move(unloading))
        try:
            await asyncio.wait((moving, self._heard), return_when=asyncio.FIRST_COMPLETED)
            if not moving.done():
                raise MoveFailed(self._heard.result())
            text = moving.result()
        except MoveFailed as failure:
            _log.error("the store was not unloaded: %s", failure)
            raise
        finally:
            moving.cancel()
            await asyncio.gather(moving, return_exceptions=True)
        _log.info("%s", text)
        return text

    def _partner_failed(self, text: str) -> None:
        if not self._heard.done():
            self._heard.set_result(text)

    # Moving.

    async def _move(self, unloading: Unloading) -> str:
        while True:
            load, is_new = await self._hello(unloading)
            try:
                await self._send(unloading, load, is_new=is_new)
                await self._compare(unloading, load)
            except _Interrupted as failure:
                _log.warning("the load was interrupted, and begins anew: %s", failure)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            except StoreError as failure:
                text = f"the store cannot be read: {failure}"
                await self._partner.farewell(text, unloading.offer)
                raise MoveFailed(text) from failure
            return (
                f"unloaded, and equal on both sides: {told(unloading.tallies.summary())}; {unloading.offer} is as it "
                "was: never start both"
            )

    async def _hello(self, unloading: Unloading) -> tuple[str, bool]:
        """Wait for the load broker, and agree with it; return which load it is, and whether it wants the data."""
        why = ""
        while True:
            self._telling.say(f"waiting for the load broker at {self._partner.address}{why}")
            try:
                document = {"offer": encode_offer(unloading.offer)}
                answer = await self._partner.ask_confirmed("hello", document, seconds=HELLO_SECONDS)
                theirs = decode_offer(answer["offer"])
                if refusal := partner_refusal(unloading.offer, theirs):
                    raise MoveRefused(refusal)
                return str(answer["load"]), bool(answer["is_new"])
            except Unreachable:
                why = ""
            except PartnerSays as says:
                if says.status == 422:
                    raise MoveFailed(f"the load broker refuses: {says}") from None
                if says.status in (404, 409):
                    await self._partner.farewell(f"{self._partner.address} is no load broker", unloading.offer)
                    raise MoveFailed(
                        f"the partner at {self._partner.address} does not run with RUN-MODE=PSTORE-LOAD: {says}"
                    ) from None
                why = f", which is not ready: {says}"
            except (MoveRefused, KeyError, ValueError) as refused:
                await self._partner.farewell(str(refused), unloading.offer)
                raise MoveFailed(f"the load broker at {self._partner.address} does not go with it: {refused}") from None
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send(self, unloading: Unloading, load: str, *, is_new: bool) -> None:
        """Read the store from its beginning; and send it, where it is wanted."""
        what = f"unloading {unloading.offer}" if is_new else f"comparing {unloading.offer}, which was loaded before"
        chunks, number = unloading.chunks(), 0
        while True:
            async with self._turn:
                data = await asyncio.to_thread(_next, chunks)
            self._telling.say(what, unloading.tallies.count, unloading.offer.parts)
            if data is None:
                return
            if is_new:
                await self._retried(f"chunk/{load}/{number}", data)
                number += 1

    async def _compare(self, unloading: Unloading, load: str) -> None:
        tallies = unloading.tallies
        document = {"summary": encode_summary(tallies.summary()), "last": tallies.last}
        while True:
            answer = await self._retried(f"check/{load}", document)
            if answer.get("state") == "equal":
                break
            self._telling.say("the load broker compares", int(answer.get("done", 0)), int(answer.get("total", 0)))
        try:
            await self._partner.ask(f"end/{load}", {})
        except (Unreachable, PartnerSays) as failure:  # it has compared, durably, and stops by itself
            _log.info("the load broker has stopped already: %s", failure)

    async def _retried(self, path: str, content: bytes | dict[str, Any]) -> dict[str, Any]:
        """Ask again while nobody answers. _Interrupted, MoveFailed."""
        loop = asyncio.get_running_loop()
        ends, pause = loop.time() + RETRY_SECONDS, 0.1
        while True:
            try:
                return await self._partner.ask(path, content)
            except PartnerSays as says:
                if says.status == 422:
                    raise MoveFailed(f"the load broker refuses: {says}") from None
                if says.status != 503 or loop.time() > ends:
                    raise _Interrupted(str(says)) from None
            except Unreachable as failure:
                if loop.time() > ends:
                    raise _Interrupted(str(failure)) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS)


def _next(chunks: Iterator[bytes]) -> bytes | None:
    return next(chunks, None)
