"""What two brokers on one store ask each other: `GET /peer/ping`, and `POST /peer/hello` of a standby.

Neither needs a log-on. A ping tells nothing but the run mode and the owner number of the store, or the lot that a
standby has drawn which sees that nobody ever had it; an introduction proves
that both have the same security settings, and tells nobody what they are. So does the header of a standby's ping, with
which it shows that it sees the store's owner count: anybody may ask; only the standby is remembered as having asked.
"""

import asyncio
import hmac
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oms_journal.broker.block_json import BadBlock, parse_json
from oms_journal.broker.drivers.open import spool_directory
from oms_journal.broker.server.runtime.partner import PING_HEADER, introduction, ping_header, sees_no_store
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import JournalError
from oms_journal.journal.lock import read_holder

HELLO = frozenset(("version", "platform", "security", "nonce", "port"))
NONCE_MAX = 64
_PING = re.compile(r"([1-9][0-9]{0,18}) ([1-9][0-9]{0,8}) [0-9a-f]{64}", re.ASCII)
_WORDS = ("version", "platform", "security", "nonce")


def peer_routes() -> list[Route]:
    """Return the routes for the other broker of two on one store."""
    return [Route("/peer/ping", _ping, methods=["GET"]), Route("/peer/hello", _hello, methods=["POST"])]


async def _ping(request: Request) -> Response:
    served: ServerState = request.app.state.served
    state = await _state(served)
    address = served.attributes.broker.partner_cluster_address
    seen = _seen_by_standby(served, request.headers.get(PING_HEADER, ""))
    if address is not None and served.heard < seen <= (state.get("owner", 0), state.get("count", 0)):
        served.heard = seen
        peer = request.client.host if request.client is not None else ""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        served.partner = f"standby {address}, asked last from {peer} at {now}"
    return JSONResponse(state)


def _seen_by_standby(served: ServerState, said: str) -> tuple[int, int]:
    """Return the owner and the count that a ping proves the standby to have seen; (0, 0) where it proves nothing."""
    found = _PING.fullmatch(said)
    if found is None:
        return 0, 0
    seen = int(found[1]), int(found[2])
    try:
        ours = ping_header(served.attributes, *seen)
    except OSError:  # the users file is away
        return 0, 0
    return seen if hmac.compare_digest(ours, said) else (0, 0)


async def _state(served: ServerState) -> dict[str, Any]:
    """Return the run mode, and what the lock file says when the store is this broker's."""
    state: dict[str, Any] = {"run_mode": served.run_mode, "is_ready": served.broker is not None}
    if served.run_mode == "STANDARD" and served.attributes.broker.pstore_type == "JOURNAL":
        with suppress(JournalError):  # what cannot be read is not told: the partner looks for itself
            holder = await asyncio.to_thread(read_holder, RealDisk(), spool_directory(served.attributes))
            if served.broker is not None and holder is not None:
                state |= {"owner": holder.number, "count": holder.count}
    elif served.run_mode == "STANDBY" and await sees_no_store(served.attributes):
        state["lot"] = served.lot
    return state


async def _hello(request: Request) -> Response:
    served: ServerState = request.app.state.served
    try:
        said = parse_json(await request.body())
    except BadBlock as failure:
        raise HTTPException(400, str(failure)) from None
    if not isinstance(said, dict) or said.keys() != HELLO or not all(_is_word(said[name]) for name in _WORDS):
        raise HTTPException(400, f"an introduction says {', '.join(sorted(HELLO))}")
    if not 16 <= len(said["nonce"]) <= NONCE_MAX:
        raise HTTPException(400, f"a nonce has 16 to {NONCE_MAX} characters")
    return JSONResponse({**await _state(served), "faults": _faults(served, said)})


def _is_word(said: object) -> bool:
    return isinstance(said, str) and said.isascii()


def _faults(served: ServerState, said: dict[str, Any]) -> list[str]:
    """Return why whoever introduces itself is no standby for this broker."""
    attributes = served.attributes
    ours = introduction(attributes, said["nonce"])
    faults = [
        f"its {what} is {ours[what]}, the standby's {said[what]}"
        for what in ("version", "platform")
        if said[what] != ours[what]
    ]
    if not hmac.compare_digest(ours["security"].encode(), said["security"].encode()):
        faults.append("its security settings are not the standby's")
    address = attributes.broker.partner_cluster_address
    if served.run_mode != "STANDARD":
        faults.append(f"its RUN-MODE is {served.run_mode}")
    if address is None:
        faults.append("it has no PARTNER-CLUSTER-ADDRESS, which must name the standby")
    elif address.rsplit(":", 2)[1] != str(said["port"]):
        faults.append(f"its PARTNER-CLUSTER-ADDRESS is {address}, but the standby answers at port {said['port']}")
    return faults
