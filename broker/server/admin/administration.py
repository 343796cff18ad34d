"""The command and information services of a server: who asks is held against its rights, then asked or done.

Information about a service or topic is for who may look at it; about the broker as a whole for who may look at that.
The figures of the data files are those of a moment ago, and gathered by one thread at a time, however many ask.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from oms_journal.broker.admin.broker import ServerFacts, broker_row, files, latency, sliced, statistics_row
from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.admin.commands import parse_command
from oms_journal.broker.admin.questions import Page, PageSteps, Query, Row, page_of, time_of
from oms_journal.broker.admin.subjects import Subject, question_of, subject_of
from oms_journal.broker.codes import BrokerError
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.rights import BROKER, Identity, Right, service_name, topic_name
from oms_journal.broker.server.admin.commands import Commands, Done
from oms_journal.broker.server.admin.resources import resources, transports
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.broker.store.latencies import Latencies
from oms_journal.broker.store.start import StoreError
from oms_journal.broker.store.stored import HasFiles, HasSyncs, MakesRoom
from oms_journal.database.stats import SyncStats

_log = logging.getLogger("oms.server")
REMEMBERED_SECONDS = 1.0  # that figures of files and free space are told again
AdminAnswer = Mapping[str, Any]


class Administration:
    """Answers operators. One for each server, on its loop."""

    def __init__(self, served: ServerState) -> None:
        self._served = served
        self._version = _version()
        self._remembered: dict[str, tuple[float, asyncio.Future[Any]]] = {}

    # Information.

    async def information(self, identity: Identity, name: str, said: Sequence[tuple[str, str]]) -> AdminAnswer:
        """Return the answer to a question about an information object. CisRefused."""
        subject = subject_of(name)
        question = question_of(subject, said)
        is_all = identity.may(Right.LOOK, BROKER)
        if (subject.look is None or subject.name in ("PARTICIPANT", "CLIENT")) and not is_all:
            raise CisRefused(CommandCode.NOT_AUTHORIZED, f"{identity.user} may not look at the broker")
        if not is_all:
            question = replace(question, may_see=lambda row: identity.may(Right.LOOK, _name_of(row)))
        page = await self.page(subject, question)
        code = CommandCode.DONE if page.rows or page.next else CommandCode.NOTHING_FOUND
        return {
            "object": subject.name,
            "code": int(code),
            "text": code.text,
            "time": now(),
            "rows": page.rows,
            "count": len(page.rows),
            "total": page.total,
            "next": page.next,
            "summary": page.summary,
        }

    async def page(self, subject: Subject, question: Query) -> Page:
        """Return a page of any information object, whoever asks. CisRefused where there is no broker to ask."""
        match subject.name:
            case "BROKER":
                row = await self.broker()
                return Page(rows=[self.outline() if row is None else row], total=1)
            case "TRANSPORT":
                return sliced(_all(transports(self._served)), question)
            case "RESOURCE-USAGE":
                return sliced(_all(resources(self._served, await self.broker())), question)
            case "FILES":
                return sliced(await self._remember("files", self._files), question)
            case "LATENCY":
                return sliced(latency(self._broker()._latencies), question)
            case "STATISTICS":
                around = await self._around()
                return await self.look(lambda world: _one(statistics_row(world, around)))
            case _:
                look = subject.look
                assert look is not None, "these are all others"
                return await self.look(lambda world: look(world, question))

    async def rows(self, name: str) -> Page:
        """Return the first page of an information object."""
        return await self.page(subject_of(name), Query())

    async def broker(self) -> Row | None:
        """Return what the broker is, None while there is none here."""
        if self._served.broker is None:
            return None
        around = await self._around()
        found: list[Row] = []

        def look(world: World) -> PageSteps:
            found.append(broker_row(world, around))
            return _one(found[0])

        with suppress(CisRefused):
            await self.look(look)
        return found[0] if found else None

    @property
    def latencies(self) -> Latencies:
        """How long commits have taken. CisRefused where there is no broker."""
        found: Latencies = self._broker()._latencies
        return found

    @property
    def syncs(self) -> SyncStats | None:
        """How long the store has waited for its disk, None where it cannot tell. CisRefused: there is no broker."""
        store = self._broker()._store
        return store.syncs() if isinstance(store, HasSyncs) else None

    def outline(self) -> Row:
        """Return what is known of the broker while there is none here."""
        served = self._served
        return {
            "broker_id": served.attributes.broker.broker_id,
            "version": self._version,
            "run_mode": served.run_mode,
            "started": time_of(round(served.started * 1_000_000)),
            "uptime": datetime.now(UTC).timestamp() - served.started,
            "partner": served.partner,
            "refusal": str(served.refusal),
        }

    def _broker(self) -> AsyncBroker:
        broker = self._served.broker
        if broker is None:
            refusal = self._served.refusal
            raise CisRefused(
                CommandCode.WRONG_RUN_MODE,
                f"there is no broker to ask at the moment, RUN-MODE is {self._served.run_mode}",
                error_code=str(refusal.value),
                error_text=refusal.text,
            )
        return broker

    async def look(self, look: Callable[[World], PageSteps]) -> Page:
        """Return what a look at the kernel's state finds. CisRefused where there is no broker."""
        try:
            found: Page = await self._broker()._look(look)
        except BrokerError as refused:
            text = "the broker is being stopped"
            error_code = str(refused.code.value)
            raise CisRefused(CommandCode.WRONG_RUN_MODE, text, error_code=error_code, error_text=refused.text) from None
        return found

    async def _around(self) -> ServerFacts:
        served, broker = self._served, self._broker()
        said = served.attributes
        is_sqlite = said.broker.pstore_type == "SQLITE"
        free = await self._remember("free", self._free_bytes)
        return ServerFacts(
            version=self._version,
            run_mode=served.run_mode,
            started=round(served.started * 1_000_000),
            now=round(datetime.now(UTC).timestamp() * 1_000_000),
            partner=served.partner,
            store_type=said.broker.pstore_type if broker._store is not None else None,
            free_bytes=free,
            min_free_space=(said.sqlite if is_sqlite else said.journal).min_free_space,
            refusal=None,
            calls=broker._call_count,
            latencies=broker._latencies,
        )

    async def _remember(self, what: str, find: Callable[[], Any]) -> Any:
        """Return what a thread finds, or has found a moment ago: however many ask, one thread is at it."""
        began, known = self._remembered.get(what, (0.0, None))
        if known is None or (known.done() and time.monotonic() - began > REMEMBERED_SECONDS):
            known = asyncio.ensure_future(asyncio.to_thread(find))
            self._remembered[what] = time.monotonic(), known
        return await asyncio.shield(known)

    @property
    def is_store_full(self) -> bool:
        """Whether the store refuses messages since there is no room, as far as that was seen."""
        store = self._served.broker._store if self._served.broker is not None else None
        return isinstance(store, MakesRoom) and store.is_full

    def _free_bytes(self) -> int | None:
        store = self._served.broker._store if self._served.broker is not None else None
        try:
            return store.free_bytes() if store is not None else None
        except StoreError:
            return None

    def _files(self) -> Page:
        store = self._broker()._store
        if not isinstance(store, HasFiles):
            raise CisRefused(CommandCode.INVALID_SUBJECT, "the store has no files")
        try:
            return files(store.files(), store.place, self._free_bytes())
        except StoreError as failure:
            raise CisRefused(CommandCode.CANNOT_EXECUTE, str(failure)) from None

    # Commands.

    async def command(self, identity: Identity, said: object) -> AdminAnswer:
        """Carry out a command and return what became of it. CisRefused."""
        words = said if isinstance(said, Mapping) else {}
        shown = " ".join(f"{name}={value!r}" for name, value in words.items() if value)[:500]
        who = f"{identity.user or 'an operator'}{' at ' + identity.peer if identity.peer else ''}"
        try:
            order = parse_command(said)
            done: Done = await Commands(self._served, identity, self.rows).carry_out(order)
        except CisRefused as refused:
            _log.warning(
                "command of %s refused, %d %s %s: %s", who, refused.code, refused.text, refused.error_text, shown
            )
            raise
        _log.info("command of %s done, %d affected: %s", who, done.affected, shown)
        return {
            "command": order.command,
            "object": order.target,
            "option": order.option,
            "code": int(CommandCode.DONE),
            "text": CommandCode.DONE.text,
            "error_code": "00000000",
            "error_text": "",
            "time": now(),
            "affected": done.affected,
            "rows": done.rows,
        }


def now() -> str:
    """Return the time as answers tell it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one(row: Row) -> PageSteps:
    return page_of(Query(), [0], lambda _: row, total=1)


def _all(rows: Sequence[Row]) -> Page:
    return Page(rows=rows, total=len(rows))


def _name_of(row: Row) -> str:
    """Return the name that rights on a row are given on."""
    if "server_class" in row:
        return service_name(row["server_class"], row["server_name"], row["service"])
    return topic_name(row["topic"])


def _version() -> str:
    try:
        return metadata.version("oms-journal")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def refused_page(name: str, refused: CisRefused) -> AdminAnswer:
    """Return what a question is answered that is refused."""
    nothing: dict[str, Any] = {"rows": [], "count": 0, "total": None, "next": None, "summary": None}
    return {"object": name.upper(), "code": int(refused.code), "text": refused.text, "time": now()} | nothing


def refused_order(said: object, refused: CisRefused) -> AdminAnswer:
    """Return what a command is answered that is refused."""
    words = said if isinstance(said, dict) else {}
    return {
        "command": _word(words.get("command")),
        "object": _word(words.get("object")),
        "option": _word(words.get("option")),
        "code": int(refused.code),
        "text": refused.text,
        "error_code": refused.error_code,
        "error_text": refused.error_text,
        "time": now(),
        "affected": 0,
        "rows": [],
    }


def _word(said: object) -> str:
    return said[:64] if isinstance(said, str) else ""
