"""The routes for operators: `GET /info/{OBJECT}`, `POST /command`, and what there is to be asked and said."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.admin.commands import COMMANDS, REFUSED, SELECTORS
from oms_journal.broker.admin.subjects import REFUSED as REFUSED_SUBJECTS
from oms_journal.broker.admin.subjects import SUBJECTS
from oms_journal.broker.block_json import BadBlock, parse_json
from oms_journal.broker.codes import Code
from oms_journal.broker.rights import Identity
from oms_journal.broker.server.admin.administration import Administration, refused_order, refused_page
from oms_journal.broker.server.http.listener import shown
from oms_journal.broker.server.http.openapi import (
    COMMAND,
    COMMANDS_THERE,
    INFORMATION,
    INFORMATION_THERE,
    described,
    described_each,
)

_STATUSES = {
    CommandCode.NOT_AUTHORIZED: 403,
    CommandCode.INVALID_SELECTOR: 400,
    CommandCode.SUBJECT_MISSING: 400,
    CommandCode.INVALID_SUBJECT: 404,
    CommandCode.INVALID_COMMAND: 404,
    CommandCode.PARTICIPANT_NOT_FOUND: 404,
    CommandCode.SERVICE_NOT_FOUND: 404,
    CommandCode.CONVERSATION_NOT_FOUND: 404,
    CommandCode.WRONG_RUN_MODE: 503,
    CommandCode.CONNECT_FAILED: 503,
    CommandCode.DISCONNECT_FAILED: 503,
}
_MISSING = (Code.UOW_NOT_FOUND.value,)
_AWAY = (Code.UOW_NOT_PERSISTED.value, Code.STATUS_NOT_PERSISTED.value, Code.DURABLE_WITHOUT_STORE.value)


def admin_routes() -> list[Route]:
    """Return the routes for operators."""
    return [
        Route("/info", subjects, methods=["GET"]),
        Route("/info/{subject}", information, methods=["GET"]),
        Route("/command", commands, methods=["GET"]),
        Route("/command", command, methods=["POST"]),
    ]


def administration_of(request: Request) -> Administration:
    """Return the server's administration, made when it is first asked for."""
    state = request.app.state
    if not hasattr(state, "administration"):
        state.administration = Administration(state.served)
    found: Administration = state.administration
    return found


def identity_of(request: Request) -> Identity:
    """Return who asks."""
    found = request.state.identity
    assert isinstance(found, Identity), "the guard has seen every request"
    return found


@described(INFORMATION_THERE)
async def subjects(_: Request) -> Response:
    """Say what can be asked, with which selectors, and what cannot."""
    there = [
        {
            "object": each.name,
            "number": each.number,
            "says": each.says,
            "selectors": list(each.selectors),
            "columns": list(each.columns),
        }
        for each in SUBJECTS.values()
    ]
    return JSONResponse({"objects": there, "refused": dict(REFUSED_SUBJECTS)})


@described_each(INFORMATION)
async def information(request: Request) -> Response:
    """Answer a question."""
    name = request.path_params["subject"]
    administration = administration_of(request)
    try:
        answer = await administration.information(identity_of(request), name, request.query_params.multi_items())
    except CisRefused as refused:
        return JSONResponse(refused_page(name, refused), status_of(refused))
    return JSONResponse(answer)


@described(COMMANDS_THERE)
async def commands(_: Request) -> Response:
    """Say what can be commanded, and what cannot."""
    there = [
        {
            "command": each.name,
            "number": each.number,
            "says": each.says,
            "objects": list(each.targets),
            "options": [option for option in each.options if option],
            "destroys": each.destroys,
        }
        for each in COMMANDS.values()
    ]
    return JSONResponse({"commands": there, "selectors": list(SELECTORS), "refused": dict(REFUSED)})


@described(COMMAND)
async def command(request: Request) -> Response:
    """Carry out a command."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"a command comes as application/json, not as {shown(kind) or 'nothing'}")
    try:
        said = parse_json(await request.body())
    except BadBlock as wrong:
        text = f'no command: {wrong}; write it as in {{"command": "PURGE", "uowid": "…"}}'
        raise HTTPException(400, text) from None
    try:
        return JSONResponse(await administration_of(request).command(identity_of(request), said))
    except CisRefused as refused:
        return JSONResponse(refused_order(said, refused), status_of(refused))


def status_of(refused: CisRefused) -> int:
    """Return the HTTP status of a refusal."""
    known = _STATUSES.get(refused.code)
    if known is not None:
        return known
    if refused.error_code in _MISSING:
        return 404
    if refused.error_code in _AWAY:
        return 503
    return 409
