"""`oms send --broker` and `oms receive --broker`: sends units of work to a running broker, and receives them."""

import getpass
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from oms_journal.broker.block import Option, ServiceName
from oms_journal.broker.client.connect import connect
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.destinations import ToService, parse_destination
from oms_journal.broker.reachability import checked_url
from oms_journal.broker.service_text import service_of_queue
from oms_journal.broker.sessions.requests import Message, unit_status
from oms_journal.broker.sessions.sessions import Session
from oms_journal.cli.failures import ExitCode, Failure, Usage

_USER, _PASSWORD, _CA_FILE = "OMS_USER", "OMS_PASSWORD", "OMS_CA_FILE"  # variables of the environment
_MEANING = {"0008": ExitCode.NO, "0020": ExitCode.USAGE}  # of classes of return codes: denied, and a mistake of ours


def send_unit(
    url: str, name: str, payload: bytes, *, properties: Mapping[str, str], producer: str | None
) -> dict[str, Any]:
    """Send a unit of work of one message, durably; return what it is. Its conversation ends with it."""
    service = _service(name)
    beside = {"properties": dict(properties), "producer": producer or ""}
    with _logged_on(url) as session:
        speaker = session._speaker
        sent = unit_status(session.ask(speaker.send(Option.EOC, speaker.to(service, None), payload, beside)))
    return {
        "uowid": sent.uowid,
        "conv_id": sent.conv_id,
        "status": sent.status.name,
        "service": "/".join(sent.service),
        "length": len(payload),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How much to receive."""

    count: int | None  # messages, and the rest of the last one's unit of work
    wait: float | bool  # seconds for each unit; True: as long as it takes


def receive_units(url: str, name: str, wanted: Wanted, printing: Callable[[Message], None]) -> int:
    """Print the messages of units of work, commit each unit once it was printed; return how many messages there were.

    What ends the command before that, a closed pipe or Ctrl-C, leaves the unit to be received again.
    """
    service, received = _service(name), 0
    with _logged_on(url) as session:
        session.register(service)
        while wanted.count is None or received < wanted.count:
            unit = session.receive_unit(service, wait=wanted.wait)
            if unit is None:
                break
            with unit:
                for message in unit:
                    printing(message)
                    received += 1
                sys.stdout.flush()
    return received


def document(message: Message) -> dict[str, Any]:
    """Return the message as JSON has it, the payload as base64."""
    return {
        "uowid": message.uowid,
        "conv_id": message.conv_id,
        "uow_status": message.reception.name,
        "service": "/".join(message.service),
        "sender": message.sender,
        "delivery_count": message.delivery_count,
        "user_status": message.user_status,
        "properties": dict(message.properties),
        "length": len(message.body),
        "payload": message.body,
    }


def _service(name: str) -> ServiceName:
    try:
        found = parse_destination(name) if name.startswith("/") else ToService(service_of_queue(name))
    except BrokerError as refused:
        raise Usage(refused.text) from None
    if not isinstance(found, ToService):
        raise Usage(f"{name} is no queue and no service; write NAME or /service/CLASS/SERVER/SERVICE")
    return found.names


@contextmanager
def _logged_on(url: str) -> Iterator[Session]:
    """Log on for the block, as OMS_USER or who runs the command; what the broker refuses is the command's failure."""
    if find_spec("httpx") is None:
        raise Failure("--broker takes an extra: pip install 'oms-journal[server]'", ExitCode.UNUSABLE)
    try:
        checked_url(url)
    except ValueError as wrong:
        raise Usage(f"--broker: {wrong}") from None
    password, ca_file = os.environ.get(_PASSWORD, ""), os.environ.get(_CA_FILE, "")
    try:
        there = connect(url, ca_file=ca_file)
    except ValueError as wrong:
        raise Usage(f"{_CA_FILE}: {str(wrong).removeprefix('ca_file: ')}") from None
    try:
        with there as broker:
            user = os.environ.get(_USER) or getpass.getuser()[:32]
            fields = {"password": password} if password else {}
            with broker.session(user, **fields) as session:
                yield session
    except ValueError as wrong:
        raise Usage(str(wrong)) from None
    except BrokerError as refused:
        code = _MEANING.get(refused.code.error_class, ExitCode.UNUSABLE)
        is_who = refused.code is Code.PASSWORD_WRONG
        advice = f"{_USER} and {_PASSWORD} say who you are" if is_who else refused.code.advice
        raise Failure(f"{refused}; {advice}", code, error=refused.code.value) from refused


def refuse_beside(**said: object) -> None:
    """Refuse options that are about a spool directory."""
    for name, value in said.items():
        if value:
            raise Usage(f"--{name.replace('_', '-')} does not go with --broker (or OMS_BROKER)")
