"""The built-in services of every broker: CLASS SAG, SERVER ETBCIS, to which an operator's program SENDs what it wants.

    SERVICE               the message, JSON                              is answered, JSON
    INFO                  {"object": "PSF", "status": ["ACCEPTED"], …}   the page, as `GET /info/PSF` has it
    USER-INFO             the same                                       what belongs to the USER-ID who asks
    CMD                   {"command": "PURGE", "uowid": "…"}             the outcome, as `POST /command` has it
    PARTICIPANT-SHUTDOWN  the same, SHUTDOWN of a PARTICIPANT            likewise

One SEND with CONV-ID=NONE and its answer. (EntireX 10.3, Command and Information Services. The messages are ours: there
they are structures in binary, and information comes in a conversation.)
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from oms_journal.broker.admin.codes import Cis, CisRefused
from oms_journal.broker.admin.subjects import subject_of
from oms_journal.broker.answers import Answered
from oms_journal.broker.block import NONE, Function, Reply, Request
from oms_journal.broker.codes import Code
from oms_journal.broker.rights import Identity
from oms_journal.broker.server.admin.administration import Administration, refused_order, refused_page

NAMES = ("SAG", "ETBCIS")
_INFORMATION, _OWN, _COMMAND, _SHUTDOWN = "INFO", "USER-INFO", "CMD", "PARTICIPANT-SHUTDOWN"


def is_internal(request: Request) -> bool:
    """Say whether a call is a SEND to a built-in service."""
    return request.function is Function.SEND and (request.server_class, request.server_name) == NAMES


async def answered(administration: Administration, identity: Identity, request: Request) -> Answered:
    """Return the answer of a built-in service. The guard has let the call through."""
    names: dict[str, Any] = {"server_class": NAMES[0], "server_name": NAMES[1], "service": request.service}
    if request.conv_id.upper() != NONE:
        return Answered(Reply(code=Code.CONV_ID_NONE_REQUIRED, **names))
    if request.service not in (_INFORMATION, _OWN, _COMMAND, _SHUTDOWN):
        return Answered(Reply(code=Code.SERVICE_UNDEFINED, **names))
    said = _said(request.body)
    if request.service in (_INFORMATION, _OWN):
        document = await _information(administration, identity, said, is_own=request.service == _OWN)
    else:
        document = await _command(administration, identity, said, is_any=request.service == _COMMAND)
    body = json.dumps(document).encode()
    return Answered(Reply(return_length=len(body), **names), body)


def begin(
    administration: Administration, identity: Identity, request: Request, then: Callable[[Answered], None]
) -> asyncio.Task[None]:
    """Begin a call whose answer goes to `then`. The guard has let it through."""

    async def ask() -> None:
        then(await answered(administration, identity, request))

    return asyncio.get_running_loop().create_task(ask())


def _said(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


async def _information(administration: Administration, identity: Identity, said: object, *, is_own: bool) -> Any:
    words = dict(said) if isinstance(said, Mapping) else {}
    name = str(words.pop("object", ""))
    pairs = [
        (str(key), str(each))
        for key, value in words.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    try:
        if not is_own:
            return await administration.information(identity, name, pairs)
        if "user_id" not in subject_of(name).selectors:
            raise CisRefused(Cis.INVALID_SUBJECT, f"{name} does not belong to a user")
        if any(key == "user_id" for key, _ in pairs):
            raise CisRefused(Cis.INVALID_SELECTOR, "user_id is who asks")
        mine = Identity(identity.user, identity.peer)  # who may look at everything of its own
        return await administration.information(mine, name, [*pairs, ("user_id", identity.user)])
    except CisRefused as refused:
        return refused_page(name, refused)


async def _command(administration: Administration, identity: Identity, said: object, *, is_any: bool) -> Any:
    try:
        if not is_any and (
            not isinstance(said, Mapping) or (said.get("command"), said.get("object")) != ("SHUTDOWN", "PARTICIPANT")
        ):
            raise CisRefused(Cis.INVALID_COMMAND, "this service takes SHUTDOWN of a PARTICIPANT")
        return await administration.command(identity, said)
    except CisRefused as refused:
        return refused_order(said, refused)
