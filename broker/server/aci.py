"""`POST /aci`: the control block over HTTP, as JSON."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from broker.server.served import Served


def aci_routes() -> list[Route]:
    """Return the routes of the control block."""
    return [Route("/aci", _call, methods=["POST"])]


async def _call(request: Request) -> Response:
    served: Served = request.app.state.served
    code = served.refusal
    return JSONResponse({"error_code": code.value, "error_text": code.text})
