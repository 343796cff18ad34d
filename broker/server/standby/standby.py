"""RUN-MODE=STANDBY: wait for the standard broker, shake hands, ping it, and take the store over when it is gone.

(EntireX 8.0, Concepts of Persistent Messaging, "Standby": initialization, handshake, ping, takeover.) What decides is
not the ping but who owns the store (`watching.py`), and the engine sees to it that there is one owner only. Where
nobody ever had the store, as two standbys see it that answer each other, one of them begins it.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.codes import BrokerError
from oms_journal.broker.drivers.open import spool_directory
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.server.runtime.partner import (
    PING_HEADER,
    PartnerSilent,
    ask,
    introduction,
    partner_client,
    ping_header,
    sees_no_store,
)
from oms_journal.broker.server.runtime.state import PortRefused, ServerState
from oms_journal.broker.server.standby.watch import PartnerWatch, Verdict
from oms_journal.broker.store.start import StartRefused
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DatabaseLocked, JournalError
from oms_journal.journal.lock import Holder, read_holder

_log = logging.getLogger("oms.standby")
STEP_SECONDS = 0.5  # between two looks at the lock file, and two pings of a partner that does not answer
PING_SECONDS = 2.0  # a ping that takes longer is not answered
OTHERS_MAX = 3  # one answer may come in the middle of a change of owners
PAUSE_SECONDS = 5.0  # between two attempts to take over
_STEPS = 4  # in a CONTROL-INTERVAL, at least; a ping has the time of one of them


class Take(Protocol):
    """What takes the store over, from a silent owner too, or begins one where there is none."""

    async def __call__(self, passing: Holder | None, *, begins: bool) -> None:
        """Return when this is the standard broker. StartRefused, PortRefused."""
        ...


class StandbyEnds(Exception):
    """The standby cannot be one: the partner is not, or the takeover has failed too often. Says why."""


class Standby:
    """A standby, from its start to the end of a takeover."""

    def __init__(self, served: ServerState, port: int) -> None:
        self._served = served
        self._attributes: Attributes = served.attributes
        self._port = port  # where this broker answers its partner
        broker = served.attributes.broker
        self._interval = broker.control_interval / MICROSECONDS
        self._step = min(STEP_SECONDS, self._interval / _STEPS)
        self._directory = spool_directory(served.attributes)
        self._client = partner_client(served.attributes, timeout=min(PING_SECONDS, self._interval / _STEPS))
        self._name = broker.partner_cluster_address or ""
        self._watch = PartnerWatch(self._interval, asyncio.get_running_loop().time())
        self._others = 0  # answers in a row that told of another store
        self._is_heard = False
        self._said: set[str] = set()  # what was logged of this silence

    async def run(self, take: Take) -> None:
        """Return when `take` has made a standard broker of this one. StandbyEnds."""
        try:
            if self._attributes.broker.handshake:
                await self._shake_hands()
            await self._take_over(take)
        finally:
            await self._client.aclose()

    # The handshake.

    async def _shake_hands(self) -> None:
        """Return when the standard broker is there, and is the right one. StandbyEnds."""
        self._say(f"standby: waiting for the standard broker {self._name}")
        while True:
            try:
                found = await ask(self._client, "/peer/ping")
                if found.get("run_mode") == "STANDARD" and found.get("owner"):
                    await self._introduce()
                    return
                if found.get("run_mode") == "STANDBY":
                    await self._draw(found)
                    if self._watch.drawn:
                        return  # nobody is there to shake hands with, until the store is begun here
                    if self._watch.drawn is None:
                        self._say(
                            f"standby: {self._name} is a standby too; start one of the two with RUN-MODE=STANDARD, or "
                            "both with HANDSHAKE=NO: then the first one up becomes standard"
                        )
                    else:
                        self._say(f"standby: {Verdict.LEFT.value}")
            except PartnerSilent as failure:
                _log.debug("%s", failure)
            await asyncio.sleep(self._step)

    async def _introduce(self) -> None:
        nonce = secrets.token_hex(16)
        body = {**introduction(self._attributes, nonce), "nonce": nonce, "port": self._port}
        before = await self._look()
        found = await ask(self._client, "/peer/hello", body)
        faults = [str(fault) for fault in found.get("faults", ["its answer is none of a broker"])]
        if not is_same_store(before, found, await self._look()):
            faults.append(f"its store is not the one in {self._directory}")
        if faults:
            raise StandbyEnds(f"no standby for {self._name}: {'; '.join(faults)}")
        self._watch.hear(asyncio.get_running_loop().time())
        _log.info("standby: handshake with %s done; ping every %g s", self._name, self._interval)

    # Pings.

    async def _look(self) -> Holder | None:
        """Return who owns the store; None when nobody ever did, or when it cannot be seen."""
        with suppress(JournalError, OSError):
            return await asyncio.to_thread(read_holder, RealDisk(), self._directory)
        return None

    async def _silence(self) -> Verdict:
        """Return when the store is to be taken over, and how. StandbyEnds."""
        now, watch = asyncio.get_running_loop().time, self._watch
        due, is_silent = 0.0 if watch.heard is None else watch.heard + self._interval, False
        ping: asyncio.Task[bool] | None = None
        try:
            while True:
                watch.look(await self._look(), now())
                if ping is not None and ping.done():
                    is_silent = not ping.result()
                    due = now() if is_silent else now() + self._interval
                    ping = None
                verdict = watch.verdict(now()) if is_silent else Verdict.NOT_YET
                if verdict in (Verdict.TAKE, Verdict.PASS, Verdict.BEGIN):
                    return verdict
                if verdict is not Verdict.NOT_YET:
                    self._say(f"standby: no takeover: {verdict.value}", logging.WARNING)
                if ping is None and now() >= due:
                    ping = asyncio.create_task(self._is_answered())
                    await asyncio.wait([ping], timeout=self._step)
                else:
                    await asyncio.sleep(self._step)
        finally:
            if ping is not None:
                ping.cancel()

    async def _is_answered(self) -> bool:
        """Ping; say whether the standard broker has answered. StandbyEnds when it has another store."""
        watch, now = self._watch, asyncio.get_running_loop().time
        before = watch.holder
        watch.is_closed = False
        try:
            found = await ask(self._client, "/peer/ping", headers=self._proof(before))
        except PartnerSilent as failure:
            self._say(f"standby: {self._name} does not answer: {failure}", logging.WARNING)
            found, self._is_heard, watch.is_closed = {}, False, failure.is_closed
        watch.look(await self._look(), now())
        await self._draw(found)
        if found.get("run_mode") != "STANDARD":
            return False
        self._check_store(before, found)
        watch.hear(now())
        if not self._is_heard:
            self._is_heard = True
            self._said.clear()
            _log.info("standby: %s is the standard broker, and answers", self._name)
        self._served.partner = f"standard broker {self._name}, which answers"
        return True

    async def _draw(self, found: Mapping[str, object]) -> None:
        """Note which of two standbys that see no store begins it, by what the other has answered. StandbyEnds."""
        lot, ours = found.get("lot"), self._served.lot
        if found.get("run_mode") != "STANDBY" or not isinstance(lot, str) or not await sees_no_store(self._attributes):
            self._watch.drawn = None
        elif lot == ours:
            raise StandbyEnds(f"PARTNER-CLUSTER-ADDRESS={self._name} is this broker itself; say where the other one is")
        else:
            self._watch.drawn = ours < lot

    def _proof(self, seen: Holder | None) -> dict[str, str]:
        """Return what shows the standard broker that it is its standby that pings, where that can be shown."""
        if seen is None or not seen.count:
            return {}
        try:
            return {PING_HEADER: ping_header(self._attributes, seen.number, seen.count)}
        except OSError:  # the users file is away, which is no reason not to ping
            return {}

    def _check_store(self, before: Holder | None, said: dict[str, Any]) -> None:
        """Raise StandbyEnds when the partner has told of another owner than the one in the lock file, several times."""
        is_other = "owner" in said and not is_same_store(before, said, self._watch.holder)
        self._others = self._others + 1 if is_other else 0
        if self._others >= OTHERS_MAX:
            raise StandbyEnds(f"no standby for {self._name}: its store is not the one in {self._directory}")

    # The takeover.

    async def _take_over(self, take: Take) -> None:
        attempts, most = 0, self._attributes.broker.max_takeover_attempts
        while True:
            verdict = await self._silence()
            passed = self._watch.holder if verdict is Verdict.PASS else None
            begins = verdict is Verdict.BEGIN
            silence = "is a standby too" if begins else "does not answer"
            self._served.partner = f"{self._name}, which {silence}"
            _log.warning("standby: takeover: %s %s, and %s", self._name, silence, verdict.value)
            try:
                await take(passed, begins=begins)
            except (BrokerError, PortRefused) as failure:
                if isinstance(failure, StartRefused) and isinstance(failure.__cause__, DatabaseLocked):
                    self._say(f"standby: no takeover: {failure}", logging.WARNING)
                    continue
                attempts += 1
                of = "" if most is None else f" of {most}"
                _log.error("standby: takeover attempt %d%s failed: %s", attempts, of, failure)
                if most is not None and attempts >= most:
                    raise StandbyEnds(f"MAX-TAKEOVER-ATTEMPTS={most}: {failure}") from failure
                await asyncio.sleep(min(PAUSE_SECONDS, self._interval))
            else:
                _log.warning("standby: RUN-MODE is STANDARD now")
                return

    def _say(self, text: str, level: int = logging.INFO) -> None:
        """Log it, once for as long as the partner's state does not change."""
        if text not in self._said:
            self._said.add(text)
            _log.log(level, "%s", text)


def is_same_store(before: Holder | None, said: Mapping[str, object], after: Holder | None) -> bool:
    """Say whether who answered sees the lock file that is seen here: its count lies between two looks at it."""
    owner, count = said.get("owner"), said.get("count")
    if before is None or after is None or not isinstance(owner, int) or not isinstance(count, int):
        return False
    return (before.number, before.count) <= (owner, count) <= (after.number, after.count)
