"""The console: the operator's page, its style and its scripts, as they lie beside this module.

The page asks `/info` and `/command`.
Nothing of it comes from elsewhere: the browser is told to load, run and ask nothing but what this server has.
"""

from functools import cache
from hashlib import blake2b
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

PAGE = "index.html"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked for again each time, answered with a line while it is the same
}


def console_routes() -> list[Route]:
    """Return the routes of the console."""
    return [
        Route("/", _page),
        Route("/console", _to_page),
        Route("/console/{name}", _part),
    ]


@cache
def parts() -> dict[str, tuple[bytes, str]]:
    """Return everything that the console consists of by name: its bytes, and its entity tag."""
    found = {}
    for each in files("oms_journal.broker.server.http").joinpath("page").iterdir():
        if _kind(each.name):
            data = each.read_bytes()
            found[each.name] = (data, f'"{blake2b(data, digest_size=12).hexdigest()}"')
    return found


def _kind(name: str) -> str:
    return _KINDS.get(name[name.rfind(".") :], "")


async def _page(request: Request) -> Response:
    return _answer(request, PAGE)


async def _to_page(request: Request) -> Response:
    return RedirectResponse("/", 308)


async def _part(request: Request) -> Response:
    return _answer(request, request.path_params["name"])


def _answer(request: Request, name: str) -> Response:
    if name not in parts():
        raise HTTPException(404, f"the console has no {name}")
    data, tag = parts()[name]
    headers = {**HEADERS, "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=_kind(name))
