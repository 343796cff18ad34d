"""The requests of the two servers of a move to one another: POST /peer/load/…, /peer/unload/…"""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oms_journal.broker.migration.stream import CHUNK_BYTES
from oms_journal.broker.server.migration.exchange import ExchangeRefused
from oms_journal.broker.server.runtime.state import ServerState

_SIDES = {"load": "PSTORE-LOAD", "unload": "PSTORE-UNLOAD"}


def moving_routes() -> list[Route]:
    """Return the routes."""
    return [Route("/peer/{side:str}/{rest:path}", _answer, methods=["POST"])]


async def _answer(request: Request) -> Response:
    served: ServerState = request.app.state.served
    side, rest = request.path_params["side"], request.path_params["rest"]
    if side not in _SIDES:
        raise HTTPException(404, f"no such side of a move: {side}")
    if served.moving is None or served.run_mode != _SIDES[side]:
        raise HTTPException(409, f"this broker runs with RUN-MODE={served.run_mode}, not with {_SIDES[side]}")
    body = bytearray()
    async for data in request.stream():
        body += data
        if len(body) > CHUNK_BYTES:
            raise HTTPException(413, f"a chunk is at most {CHUNK_BYTES:,} bytes")
    verb, *names = rest.split("/")
    try:
        return JSONResponse(await served.moving.answer(verb, tuple(names), bytes(body)))
    except ExchangeRefused as refused:
        raise HTTPException(refused.status, str(refused)) from None
