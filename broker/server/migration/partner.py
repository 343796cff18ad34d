"""One side of a move, and the server of the other side: asked over HTTP at the address that the attributes name."""

import asyncio
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from oms_journal.journal.extras import brought_by

with brought_by("server"):
    import httpx

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.migration.agreement import StoreOffer, decode_offer, encode_offer
from oms_journal.broker.migration.load import Loading
from oms_journal.broker.migration.unload import Unloading, own_offer
from oms_journal.broker.reachability import reason_of
from oms_journal.broker.server.migration.exchange import ExchangeRefused, MoveFailed, MoveProgress, failure_in, nonce_in
from oms_journal.broker.server.runtime.partner import answer_of, partner_client, partner_url
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.broker.store.start import StartRefused

S = TypeVar("S", Loading, Unloading)
_log = logging.getLogger("oms.server")
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0  # for one chunk
HELLO_SECONDS = 600.0  # an unfinished load may have to be erased first


class Unreachable(Exception):
    """Nobody answers there, or not to the end."""


class PartnerSays(Exception):
    """The partner's answer is no; with its status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Partner:
    """Asks the other server; `side` is what that one does: load or unload."""

    def __init__(self, attributes: Attributes, side: str) -> None:
        self.address = partner_url(attributes).partition("//")[2]
        self._path = f"/peer/{side}/"
        self._client = partner_client(attributes, timeout=ANSWER_SECONDS)
        self._nonces: set[str] = set()  # of what was asked, and may be confirmed

    async def ask(
        self, path: str, content: bytes | dict[str, Any], *, seconds: float = ANSWER_SECONDS
    ) -> dict[str, Any]:
        """Return the answer. Unreachable, PartnerSays."""
        body = {"content": content} if isinstance(content, bytes) else {"json": content}
        timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        try:
            asked = self._client.build_request("POST", self._path + path, timeout=timeout, **body)
            status, document = await answer_of(self._client, asked)
        except httpx.HTTPError as failure:
            raise Unreachable(reason_of(failure)) from failure
        if document is None:
            raise PartnerSays(status, f"status {status}, and not in JSON")
        if status != httpx.codes.OK:
            raise PartnerSays(status, str(document.get("error", status)))
        return document

    async def ask_confirmed(self, path: str, content: dict[str, Any], *, seconds: float) -> dict[str, Any]:
        """Ask with a nonce, which the partner sees confirmed at the address that it has of this server."""
        nonce = secrets.token_hex(16)
        self._nonces.add(nonce)
        try:
            return await self.ask(path, content | {"nonce": nonce}, seconds=seconds)
        finally:
            self._nonces.discard(nonce)

    def confirm(self, nonce: str) -> dict[str, Any]:
        """Answer a partner that asks whether it was this server. ExchangeRefused."""
        if nonce not in self._nonces:
            raise ExchangeRefused(409, "it was not this broker that asked")
        return {}

    async def see_confirmed(self, nonce: str) -> None:
        """See that a request came from the partner that this server's own attributes name. ExchangeRefused."""
        try:
            await self.ask("confirm", {"nonce": nonce})
        except Unreachable as failure:
            text = f"the partner at {self.address} cannot be reached to confirm it: {failure}"
        except PartnerSays as says:
            text = f"PARTNER-CLUSTER-ADDRESS={self.address} names another broker: {says}"
        else:
            return
        _log.warning("a request that said to be the partner's is not answered: %s", text)
        raise ExchangeRefused(503, text)

    async def farewell(self, text: str, mine: StoreOffer) -> StoreOffer | None:
        """Say that this side has failed, so that the other one stops too; return what that one has, if it answers."""
        try:
            said = {"text": text, "offer": encode_offer(mine)}
            answer = await self.ask_confirmed("failed", said, seconds=CONNECT_SECONDS)
            return decode_offer(answer["offer"])
        except (Unreachable, PartnerSays, KeyError, ValueError) as failure:
            _log.info("the partner at %s does not hear of it: %s", self.address, failure)
            return None

    async def close(self) -> None:
        await self._client.aclose()


class MoveSide(ABC, Generic[S]):
    """This server's side of a move. `other` is what the partner does: load or unload."""

    def __init__(self, served: ServerState, telling: MoveProgress, report: str | None, other: str) -> None:
        self._attributes = served.attributes
        self._telling = telling
        self._report = report
        self._other = other
        self._partner = Partner(served.attributes, other)
        self._offer = own_offer(served.attributes)
        self._store: S | None = None  # once it is open
        self._turn = asyncio.Lock()  # of who works with the store, in a thread

    @abstractmethod
    async def run(self) -> str:
        """Move the store; return what was moved, for people. MoveFailed, StartRefused."""

    async def _open(self, opened: Callable[..., S]) -> S:
        """Return the store, opened. Where it cannot be, the partner is told."""
        try:
            self._store = await asyncio.to_thread(opened, self._attributes, report=self._report)
        except StartRefused as refused:
            theirs = await self._partner.farewell(refused.text, self._offer)
            if theirs is not None and self._offer.is_same_store(theirs):
                raise MoveFailed(f"both brokers have the same store, {self._offer}") from refused
            raise
        return self._store

    async def close(self) -> None:
        """Let go of the store."""
        async with self._turn:
            if self._store is not None:
                await asyncio.to_thread(self._store.close)
                self._store = None
        await self._partner.close()

    async def answer(self, verb: str, names: tuple[str, ...], body: bytes) -> dict[str, Any]:
        """Answer a request of the partner. ExchangeRefused."""
        if verb == "confirm":
            return self._partner.confirm(nonce_in(body))
        if verb == "failed":
            text, nonce = failure_in(body, self._offer)
            await self._partner.see_confirmed(nonce)
            self._partner_failed(f"the {self._other} broker has failed: {text}")
            return {"offer": encode_offer(self._offer)}
        return await self._answer(verb, names, body)

    async def _answer(self, verb: str, _names: tuple[str, ...], _body: bytes) -> dict[str, Any]:
        """Answer what only this side is asked."""
        raise ExchangeRefused(404, f"no such request: {verb}")

    @abstractmethod
    def _partner_failed(self, text: str) -> None:
        """Let the move fail."""
