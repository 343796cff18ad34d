"""`GET /openapi.json`: what can be asked over HTTP and how it is answered, from what the routes say of themselves.

A route that is to be in it has an endpoint `described` by an operation of OpenAPI 3.1, or `described_each` by one for
each thing that its path can name, where these take different parameters. What every operation may answer, errors among
it, is added here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

EndpointT = TypeVar("EndpointT", bound=Callable[..., Any])
Json = dict[str, Any]
_OPERATIONS: dict[Any, dict[str, Json]] = {}  # by endpoint and path ("": the route's); made once, where the routes are
PROBLEM: Json = {
    "type": "object",
    "description": "What is wrong outside of a control block.",
    "required": ["status", "error"],
    "properties": {
        "status": {"type": "integer", "description": "The HTTP status."},
        "error": {"type": "string", "description": "Why, for people."},
    },
    "additionalProperties": False,
}
_PROBLEMS: Mapping[int, str] = {
    400: "The request is not what is described here.",
    401: "User and password are needed.",
    403: "The user may not do that.",
    404: "There is no such thing.",
    405: "There is something, but not with this method.",
    408: "The request came too slowly.",
    413: "The request is too long.",
    415: "The body is of no type that is described here.",
    421: "The request is for another host.",
    429: "There have been too many attempts to log on.",
    500: "A mistake of the server itself.",
    503: "There is no room at the moment: try again.",
}


def described(operation: Json) -> Callable[[EndpointT], EndpointT]:
    """Say of an endpoint what OpenAPI is to say of it: summary, parameters, requestBody, and what is no error."""

    return described_each({"": operation})


def described_each(operations: Mapping[str, Json]) -> Callable[[EndpointT], EndpointT]:
    """Say of an endpoint what OpenAPI is to say of it, for each path that it answers."""

    def note(endpoint: EndpointT) -> EndpointT:
        _OPERATIONS[getattr(endpoint, "__func__", endpoint)] = dict(operations)
        return endpoint

    return note


def json_body(schema: Json, description: str = "Done.") -> Json:
    """Return a response of JSON."""
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def document(routes: Iterable[Any]) -> Json:
    """Return the document of all routes that are described."""
    from importlib import metadata

    paths: dict[str, Json] = {}
    schemas: Json = {"Problem": PROBLEM}
    for route in routes:
        endpoint = getattr(route, "endpoint", None)
        operations = _OPERATIONS.get(getattr(endpoint, "__func__", endpoint), {})
        if not isinstance(route, Route):
            continue
        for path, operation in operations.items():
            found = dict(operation)
            schemas |= found.pop("schemas", {})
            found["responses"] = {
                **{str(status): _problem(text) for status, text in _PROBLEMS.items()},
                **{str(status): response for status, response in operation["responses"].items()},
            }
            for method in sorted((route.methods or set()) - {"HEAD"}):
                paths.setdefault(path or route.path, {})[method.lower()] = found
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "A broker of units of work",
            "version": metadata.version("oms-journal"),
            "description": "The control block over HTTP, and what operators ask and say.",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _problem(text: str) -> Json:
    return json_body({"$ref": "#/components/schemas/Problem"}, text)


SELF: Json = {
    "operationId": "openapi",
    "summary": "This document.",
    "responses": {200: json_body({"type": "object", "required": ["openapi", "paths"]}, "The document.")},
}


def openapi_routes(routes: Iterable[Any]) -> list[Route]:
    """Return the route of the document about these routes and itself."""

    @described(SELF)
    async def answer(request: Request) -> Response:
        return JSONResponse(found)

    own = Route("/openapi.json", answer, methods=["GET"])
    found = document([*routes, own])
    return [own]
