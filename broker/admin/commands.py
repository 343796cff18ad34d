"""An operator's command as it is said, and the table of commands: what is carried out, and the rest with the reason.

    command           number  object        option        selected by
    NO-OPERATION      88      -             -             -
    SHUTDOWN          8       BROKER        -, IMMED      -
                              SERVER        IMMED,        client_id, or user_id and token; and the service, if not all
                              SERVICE       QUIESCE       server_class, server_name, service; and who, if not all
                              PARTICIPANT   likewise      client_id, or user_id and token
                              CONVERSATION  likewise      conv_id
    PURGE             12      PSF           -             uowid
    SET-UOW-STATUS    42      PSF           ACCEPTED,     uowid
                                            CANCELLED
    RELEASE           -       PSF           -             uowid, identifiers, conv_id, user_id, token, the service,
                                                          older, newer, all
                              SUBSCRIBER    -             topic, user_id, token, uowid, identifiers, older, newer, all
    DISCARD           -       as RELEASE    PROCESSED,    likewise
                                            DISCARDED
    CLEANUP           -       PSF           -             -
    SUBSCRIBE         15      TOPIC         -             topic, user_id, token
    UNSUBSCRIBE       16      TOPIC         -             topic, user_id, token
    …

(EntireX 10.3, Command and Information Services, "Commands". CLEANUP is ours: of the data files of the store. So are
RELEASE and DISCARD: of what is held since the store was restored from a backup. `older` and `newer` are ages, as 90S
or 2H; `identifiers` is a list, and of publications, as `uowid`, it has PUBLICATION-IDs. A selector that is not for its
object is refused: without it, more would be decided about than was said.)
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any

from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.admin.questions import SHOWN_MAX
from oms_journal.broker.block import FIELDS, SERVICE_FIELDS

_OF_SERVERS = ("client_id", "user_id", "token", *SERVICE_FIELDS, "exclude_attach")
_HELD = ("uowid", "identifiers", "user_id", "token", "older", "newer", "all")
_HELD_BY_OBJECT = {"PSF": (*_HELD, "conv_id", *SERVICE_FIELDS), "SUBSCRIBER": (*_HELD, "topic")}
_SHUT_BY_OBJECT = {
    "BROKER": (),
    "SERVER": _OF_SERVERS,
    "SERVICE": _OF_SERVERS,
    "PARTICIPANT": ("client_id", "user_id", "token"),
    "CONVERSATION": ("conv_id",),
}
TEXT_MAX = 255
IDENTIFIERS_MAX = 1000
# Who is subscribed by an operator has to be able to log on.
_NAMES = ("user_id", "token", "topic", *SERVICE_FIELDS)
WIDTHS = {each.attribute: each.width for each in FIELDS.values() if each.attribute in _NAMES}  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A command: its objects, the first of which is meant where none is said, its options, and what it goes by."""

    name: str
    number: int
    says: str
    targets: Sequence[str] = ("BROKER",)
    options: Sequence[str] = ("",)
    by: Mapping[str, Sequence[str]] = field(default_factory=dict)  # selectors, by object
    destroys: bool = False  # something is lost that nobody can bring back, or somebody is cut off

    @property
    def has_no_default_target(self) -> bool:
        return self.name == "SHUTDOWN"

    def options_of(self, target: str) -> Sequence[str]:
        if self.name != "SHUTDOWN":
            return self.options
        return ("", "IMMED") if target == "BROKER" else ("IMMED", "QUIESCE")

    def selectors_of(self, target: str) -> Sequence[str]:
        return self.by.get(target, ())


_ALL = [
    CommandSpec(name="NO-OPERATION", number=88, says="say that the broker is there"),
    CommandSpec(
        name="SHUTDOWN",
        number=8,
        says="end the broker, a server, all servers of a service, a participant or a conversation",
        targets=tuple(_SHUT_BY_OBJECT),
        options=("", "IMMED", "QUIESCE"),
        by=_SHUT_BY_OBJECT,
        destroys=True,
    ),
    CommandSpec(
        name="PURGE",
        number=12,
        says="remove a unit of work and its status",
        targets=("PSF",),
        by={"PSF": ("uowid",)},
        destroys=True,
    ),
    CommandSpec(
        name="SET-UOW-STATUS",
        number=42,
        says="let a unit of work that waits be received, or never",
        targets=("PSF",),
        options=("ACCEPTED", "CANCELLED"),
        by={"PSF": ("uowid",)},
        destroys=True,
    ),
    CommandSpec(
        name="RELEASE",
        number=0,
        says="let what is held since a restore be received",
        targets=tuple(_HELD_BY_OBJECT),
        by=_HELD_BY_OBJECT,
        destroys=True,
    ),
    CommandSpec(
        name="DISCARD",
        number=0,
        says="end what is held since a restore: it was PROCESSED, or is to be DISCARDED",
        targets=tuple(_HELD_BY_OBJECT),
        by=_HELD_BY_OBJECT,
        options=("PROCESSED", "DISCARDED"),
        destroys=True,
    ),
    CommandSpec(
        name="ALLOW-NEWUOWMSGS",
        number=13,
        says="take new units of work again, once the store has made what room it can",
    ),
    CommandSpec(name="FORBID-NEWUOWMSGS", number=14, says="take no new units of work, so that the store empties"),
    CommandSpec(
        name="CLEANUP",
        number=0,
        says="let go of the store's data files that nothing needs, moving what little old ones hold",
        targets=("PSF",),
    ),
    CommandSpec(name="CONNECT-PSTORE", number=17, says="go on with the persistent store"),
    CommandSpec(name="DISCONNECT-PSTORE", number=18, says="go on without the persistent store", destroys=True),
    CommandSpec(
        name="SUBSCRIBE",
        number=15,
        says="subscribe a user to a topic, durably",
        targets=("TOPIC",),
        by={"TOPIC": ("topic", "user_id", "token")},
    ),
    CommandSpec(
        name="UNSUBSCRIBE",
        number=16,
        says="end a user's durable subscription",
        targets=("TOPIC",),
        by={"TOPIC": ("topic", "user_id", "token")},
        destroys=True,
    ),
    CommandSpec(name="PRODUCE-STATISTICS", number=25, says="log what was counted, and answer it"),
    CommandSpec(name="STATUS", number=36, says="answer where the broker listens", targets=("TRANSPORT",)),
]
COMMANDS: Mapping[str, CommandSpec] = {known.name: known for known in _ALL}

# What the manual has and this broker has not.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("SET-CMDLOG-FILTER", "CLEAR-CMDLOG-FILTER", "ENABLE-CMDLOG-FILTER", "DISABLE-CMDLOG-FILTER"),
            *("ENABLE-CMDLOG", "DISABLE-CMDLOG", "SWITCH-CMDLOG"),
        ),
        "there is no command log; every command of an operator is logged",
    ),
    **dict.fromkeys(
        ("ENABLE-ACCOUNTING", "DISABLE-ACCOUNTING"), "there is no accounting; /metrics counts, by service and topic"
    ),
    "RESET-USER": "a user who failed to log on too often is let in again by itself, after a while",
    **dict.fromkeys(
        ("SUSPEND", "RESUME", "STOP", "START"),
        "a port is open as long as the broker runs; SHUTDOWN PARTICIPANT ends one",
    ),
    "TRAP-ERROR": "there are no dumps to be written at an error; the log has every mistake with its place",
    **dict.fromkeys(
        ("TRACE-ON", "TRACE-OFF", "TRACE-FLUSH"),
        "there is no trace; STATISTICS counts calls, commits and refusals, by code",
    ),
    **dict.fromkeys(("DISABLE-DYN-WORKER", "ENABLE-DYN-WORKER"), "there are no workers"),
    "SET-SINGLE-CONVERSATION": "it is for clients of older stubs, which this broker has none of",
    "DISPLAY-REQUESTS": "see PARTICIPANT: calls_waiting",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """What an operator says. "" is nothing said."""

    command: str
    target: str = ""  # said as `object`
    option: str = ""
    uowid: str = ""
    conv_id: str = ""
    user_id: str = ""
    token: str | None = None
    client_id: int = 0
    server_class: str = ""
    server_name: str = ""
    service: str = ""
    topic: str = ""
    exclude_attach: bool = False
    older: str = ""
    newer: str = ""
    everything: bool = False  # said as `all`
    identifiers: tuple[str, ...] = ()

    @property
    def known(self) -> CommandSpec:
        return COMMANDS[self.command]

    @property
    def is_immediate(self) -> bool:
        return self.option == "IMMED"

    @property
    def names(self) -> tuple[str, str, str]:
        return (self.server_class, self.server_name, self.service)


_OTHERWISE = {"target": "object", "everything": "all"}  # how an operator says what is a word of its own here
_SAID = {_OTHERWISE.get(each.name, each.name): each.name for each in fields(CommandRequest)}
SELECTORS = tuple(name for name in _SAID if name not in ("command", "object", "option"))


def parse_command(said: object) -> CommandRequest:
    """Return the order that a JSON document says, checked as far as it goes without the broker. CisRefused."""
    if not isinstance(said, Mapping):
        raise CisRefused(CommandCode.INVALID_SELECTOR, 'a command is a JSON object, as in {"command": "CLEANUP"}')
    unknown = sorted(set(said) - set(_SAID))
    if unknown:
        raise CisRefused(CommandCode.INVALID_SELECTOR, f"{_came(unknown[0])} is none of {', '.join(_SAID)}")
    values = {_SAID[name]: _checked(name, value) for name, value in said.items() if value is not None}
    order = CommandRequest(**({"command": ""} | values))
    command = order.command.strip().upper().replace("_", "-")
    known = COMMANDS.get(command)
    if known is None:
        why = REFUSED.get(command)
        code = CommandCode.INVALID_COMMAND if why is None else CommandCode.CANNOT_EXECUTE
        raise CisRefused(code, f"{command[:SHOWN_MAX]}: {why}" if why else _unknown(command))
    target = order.target.strip().upper() or (known.targets[0] if not known.has_no_default_target else "")
    if target not in known.targets:
        came = f", not {target[:SHOWN_MAX]}" if target else ": say which"
        raise CisRefused(CommandCode.INVALID_SUBJECT, f"the object of {command} is {' or '.join(known.targets)}{came}")
    option = order.option.strip().upper()
    if option not in known.options_of(target):
        has = " or ".join(each for each in known.options_of(target) if each) or "no option"
        of = f" {target}" if option in known.options else ""
        raise CisRefused(
            CommandCode.INVALID_OPTION,
            f"{command}{of} has {has}, {f'not {option[:SHOWN_MAX]}' if option else 'say one'}",
        )
    _check_selectors(known, target, said)
    return replace(order, command=command, target=target, option=option)


def _check_selectors(known: CommandSpec, target: str, said: Mapping[str, object]) -> None:
    taken = known.selectors_of(target)
    foreign = [name for name in SELECTORS if name not in taken and said.get(name)]
    if foreign:
        by = f"but by {', '.join(sorted(taken))}" if taken else "nor by anything else"
        raise CisRefused(CommandCode.INVALID_SELECTOR, f"{known.name} {target} is not by {foreign[0]}, {by}")


def _checked(name: str, value: object) -> Any:
    if name == "identifiers":
        return _identifiers(value)
    kind = {"client_id": int, "exclude_attach": bool, "all": bool}.get(name, str)
    if type(value) is not kind or (isinstance(value, str) and len(value) > TEXT_MAX):
        says = {int: "a number", bool: "true or false", str: f"a text of at most {TEXT_MAX} characters"}[kind]
        raise CisRefused(CommandCode.INVALID_SELECTOR, f"{name} is {says}, not {_came(value)}")
    width = WIDTHS.get(name)
    if width is not None and len(str(value).encode("utf-8", "surrogatepass")) > width:
        raise CisRefused(CommandCode.INVALID_SELECTOR, f"{name} has at most {width} bytes, not {_came(value)}")
    return value


def _came(value: object) -> str:
    """Return what an operator said, as an error tells it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_MAX and text.isprintable() else f"{text[:SHOWN_MAX]!r}…"


def _unknown(command: str) -> str:
    near = get_close_matches(command, COMMANDS, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    said = f"{command[:SHOWN_MAX]} is none" if command else "none is said"
    return f"{said}; {meant}`oms cmd` and GET /command list them"


def _identifiers(value: object) -> tuple[str, ...]:
    is_list = isinstance(value, list) and len(value) <= IDENTIFIERS_MAX
    if not is_list or not all(isinstance(each, str) and len(each) <= TEXT_MAX for each in value):  # type: ignore[attr-defined]
        text = f"identifiers is a list of at most {IDENTIFIERS_MAX} texts of at most {TEXT_MAX} characters"
        raise CisRefused(CommandCode.INVALID_SELECTOR, text)
    return tuple(value)  # type: ignore[arg-type]
