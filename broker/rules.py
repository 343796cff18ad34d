"""The rules for a call: which fields go together, what each may hold, and the return code of each violation.

Checked before anything is done, in this order; the first that is wrong answers:

    what is wrong                                              code
    a field is too long, or holds what cannot be printed       00200181, 00200183, 00200186, 00200216, 00200312
    a pattern in CLASS, SERVER or SERVICE                      00200212
    a number or duration is none, or out of range              00200189, 00200229, 00200311, 00200312
    properties are too long                                    00200218
    the function                                               00200182
    the API version, or one that does not know this yet        00200208
    the option; the option with this function                  00200188; 00200187
    the CONV-ID for a client                                   00200199 ANY, 00200200 NEW
    the CONV-ID with this function; with this option           00200185; 00200191
    the WAIT; with this function; with this option             00200031; 00200193; 00200194
    DEREGISTER by who is not a server                          00200195
    no USER-ID; no LOGON                                       00200181; 00200134
    no UOWID, or BOTH without COMMIT                           00780351
    REPLY_ERROR without an error code, or an odd one           00200532; 00200533

A caller is a server where it is registered for the service that it names; in a conversation that it
names, where it is not the one who began it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from operator import attrgetter
from typing import Any, NamedTuple

from oms_journal.broker import durations
from oms_journal.broker.block import API_VERSION_MAX, BOTH, FIELDS, UWSTATP_NO, Function, Kind, Option, Request, Store
from oms_journal.broker.codes import Code

PRODUCER_BYTES_MAX = 255
PROPERTIES_BYTES_MAX = 60 << 10  # the journal takes 64 KiB; the rest is for what the broker notes there
WORDS = frozenset({"NEW", "OLD", "ANY", "NONE"})  # of CONV-ID and PUBLICATION-ID
BLANK, ID = "blank", "n"
ID_WIDTH, USTATUS_WIDTH = FIELDS["CONV-ID"].width, FIELDS["USTATUS"].width


class Refusal(NamedTuple):
    """Why a call is not carried out: the code, and what is special about this case."""

    code: Code
    detail: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What goes with a function and an option."""

    conv_ids: frozenset[str]
    server_conv_ids: frozenset[str]
    may_wait: bool
    api: int
    needs: frozenset[str]


def _rows(text: str) -> Iterator[tuple[tuple[Function, Option], Rule]]:
    for line in text.strip().splitlines():
        function, options, client, server, wait, api, *needs = line.split()
        client_ids = frozenset(client.split(","))
        server_ids = client_ids if server == "same" else frozenset(server.split(","))
        rule = Rule(client_ids, server_ids, wait == "any", int(api), frozenset(needs))
        yield from (((Function[function], Option[option]), rule) for option in options.split(","))


# The CONV-IDs of who is no server, those of a server (n: an identifier), WAIT, the first API version, what is needed.
RULES: Mapping[tuple[Function, Option], Rule] = dict(
    _rows("""
    SEND                NONE               NEW,NONE,n same          any 1 user
    SEND                SYNC,COMMIT        NEW,n      same          NO  3 user logon
    SEND                EOC                NEW,n      same          NO  3 user logon
    RECEIVE             NONE,MSG           n          NEW,OLD,ANY,n any 1 user
    RECEIVE             SYNC,ANY           n          NEW,OLD,ANY,n any 3 user logon
    UNDO                NONE,LAST          n          same          NO  2 user
    EOC                 NONE,CANCEL        n          same          NO  1 user
    REGISTER            NONE,ATTACH        blank,NONE same          NO  1 user
    DEREGISTER          NONE,QUIESCE,IMMED blank,NONE same          NO  1 server user
    VERSION             NONE               blank,NONE same          NO  2
    LOGON               NONE               blank,NONE same          NO  2 user
    LOGOFF              NONE               blank,NONE same          NO  2 user
    SYNCPOINT           COMMIT             blank,n    same          NO  3 user logon uowid both
    SYNCPOINT           BACKOUT,CANCEL     blank,n    same          NO  3 user logon uowid
    SYNCPOINT           EOC,EOCCANCEL      blank,n    same          NO  3 user logon uowid
    SYNCPOINT           DELETE,QUERY       blank,n    same          NO  3 user logon uowid
    SYNCPOINT           SETUSTATUS         blank,n    same          NO  3 user logon uowid
    SYNCPOINT           LAST               blank,n    same          NO  3 user logon
    KERNELVERS          NONE,EXTENDED      blank,NONE same          NO  4
    SEND_PUBLICATION    SYNC,COMMIT        blank,NONE same          NO  8 user logon publication new
    RECEIVE_PUBLICATION NONE,SYNC          blank,NONE same          any 8 user logon publication new
    CONTROL_PUBLICATION BACKOUT,COMMIT     blank,NONE same          NO  8 user logon publication
    CONTROL_PUBLICATION QUERY,SETUSTATUS   blank,NONE same          NO  8 user logon publication
    CONTROL_PUBLICATION LAST               blank,NONE same          NO  8 user logon
    SUBSCRIBE           NONE,DURABLE       blank,NONE same          NO  8 user logon
    UNSUBSCRIBE         NONE,DURABLE       blank,NONE same          NO  8 user logon
    REPLY_ERROR         NONE               n          same          NO  8 user error
    """)
)


def check(request: Request, *, is_server: bool, is_logged_on: bool) -> Refusal | None:
    """Return why the call cannot be carried out, None when nothing speaks against it."""
    conv_id, uowid, publication_id = request.conv_id, request.uowid, request.publication_id
    joined = conv_id + uowid + publication_id + request.ustatus
    try:
        if joined.isascii() and joined.isprintable() and (len(joined) <= ID_WIDTH or _fit(request)):
            _check_whose(_whose(request))
            words = tuple(map(_SPELLINGS.get, (conv_id, uowid, publication_id)))
            _check_shape(_shape(request), words, is_server, is_logged_on)
            is_more = request.properties or request.producer or request.msgid or request.user_data
            return _check_beside(request) if is_more or request.subscription else None
    except _New:
        pass
    return _first_wrong(request, is_server=is_server, is_logged_on=is_logged_on)


# What callers say again and again is looked at once, and remembered; not what is wrong, which can be of any length.


class _New(Exception):
    """Something speaks against the call, or may be of any length: it is looked at anew each time."""


_SPELLINGS = {
    "".join(letters): word for word in (*WORDS, BOTH) for letters in product(*zip(word, word.lower(), strict=True))
} | {"": ""}
_WHOSE = ("user_id", "token", "password", "broker_id", "locale", "force_logon")
_SHAPE = (
    *("function", "option", "api_type", "api_version", "server_class", "server_name", "service", "wait", "topic"),
    *("store", "uwtime", "uwstatp", "uwstat_lifetime", "msgtype", "receive_length", "error_code"),
)
_whose = attrgetter(*_WHOSE)
_shape = attrgetter(*_SHAPE)


def _fit(request: Request) -> bool:
    """Return whether the fields that are others in most calls are no longer than they may be."""
    identifiers = (request.conv_id, request.uowid, request.publication_id)
    return max(map(len, identifiers)) <= ID_WIDTH and len(request.ustatus) <= USTATUS_WIDTH


@lru_cache(16384)
def _check_whose(texts: tuple[str, ...]) -> None:
    """Look at the fields that say who calls. _New."""
    said: dict[str, Any] = dict(zip(_WHOSE, texts, strict=True))
    request = Request(function=Function.LOGON, **said)
    if not request.user_id.strip() or _check_texts(request) is not None:
        raise _New


@lru_cache(16384)
def _check_shape(shape: tuple[Any, ...], words: tuple[str | None, ...], is_server: bool, is_logged_on: bool) -> None:
    """Look at what a call of somebody says beside that; an identifier is as good as any. _New."""
    said = dict(zip(_SHAPE, shape, strict=True))
    conv_id, uowid, publication_id = (ID if word is None else word for word in words)
    request = Request(user_id="X", conv_id=conv_id, uowid=uowid, publication_id=publication_id, **said)
    is_wrong = _first_wrong(request, is_server=is_server, is_logged_on=is_logged_on) is not None
    if is_wrong or len(request.error_code) > FIELDS["ERROR-CODE"].width:  # only REPLY_ERROR looks at that
        raise _New


def _first_wrong(request: Request, *, is_server: bool, is_logged_on: bool) -> Refusal | None:
    return (
        _check_texts(request)
        or _check_numbers(request)
        or _check_combination(
            _Said(
                request.function,
                request.option,
                _word(request.conv_id),
                _wait_kind(request.wait),
                request.api_version if request.api_type == 1 else 0,
                is_server,
            )
        )
        or _check_needs(request, is_logged_on=is_logged_on)
    )


# What each field may hold.

_TEXTS = [field for field in FIELDS.values() if field.kind is Kind.CHARACTERS and hasattr(Request, field.attribute)]
_NAMES = {"SERVER-CLASS", "SERVER-NAME", "SERVICE"}
_CODE_OF = {
    **dict.fromkeys(_NAMES, Code.INVALID_SERVICE_NAME),
    "USER-ID": Code.INVALID_USER_ID,
    "BROKER-ID": Code.INVALID_BROKER_ID,
    "WAIT": Code.INVALID_WAIT,
}
_texts = attrgetter(*(field.attribute for field in _TEXTS))


def _check_texts(request: Request) -> Refusal | None:
    texts = _texts(request)
    for field, text in zip(_TEXTS, texts, strict=True):
        if not text.isprintable():
            return Refusal(_CODE_OF.get(field.name, Code.INVALID_CHARACTER), f"{field.name} cannot be printed")
        if len(text.encode()) > field.width:
            return Refusal(_CODE_OF.get(field.name, Code.OUT_OF_RANGE), f"{field.name} has at most {field.width} bytes")
        if field.name in _NAMES and "*" in text and request.function != Function.DEREGISTER:
            return Refusal(Code.PATTERN_IN_NAME, field.name)
    return None


def _check_numbers(request: Request) -> Refusal | None:
    if request.uwtime or request.uwstat_lifetime:
        for name, text in (("UWTIME", request.uwtime), ("UWSTAT-LIFETIME", request.uwstat_lifetime)):
            try:
                if text and not durations.parse_duration(text):
                    return Refusal(Code.OUT_OF_RANGE, f"{name}={text} is no time at all")
            except ValueError as failure:
                return Refusal(Code.INVALID_NUMBER, f"{name}: {failure}")
    if not 0 <= request.uwstatp <= UWSTATP_NO:
        return Refusal(Code.OUT_OF_RANGE, f"UWSTATP is 0 to {UWSTATP_NO}")
    if not 0 <= request.store <= Store.BROKER:
        return Refusal(Code.INVALID_STORE, str(request.store))
    if not 0 <= request.receive_length < 1 << 32:
        return Refusal(Code.INVALID_RECEIVE_LENGTH, str(request.receive_length))
    return _check_beside(request)


def _check_beside(request: Request) -> Refusal | None:
    """Check what few calls carry: fields of bytes, and what goes beside the block."""
    for name, data in (("MSGID", request.msgid), ("USER-DATA", request.user_data)):
        if len(data) > FIELDS[name].width:
            return Refusal(Code.OUT_OF_RANGE, f"{name} has at most {FIELDS[name].width} bytes")
    try:
        if len(request.producer.encode()) > PRODUCER_BYTES_MAX:
            return Refusal(Code.OUT_OF_RANGE, f"the producer's identifier has at most {PRODUCER_BYTES_MAX} bytes")
        texts = [text for pair in (request.properties or {}).items() for text in pair]
        if sum(len(text.encode()) + 2 for text in texts) > PROPERTIES_BYTES_MAX:
            return Refusal(Code.LENGTH_EXCEEDED, f"the properties have at most {PROPERTIES_BYTES_MAX} bytes")
    except (UnicodeEncodeError, AttributeError):  # half a character, or no text at all
        return Refusal(Code.INVALID_CHARACTER, "a property or the producer's identifier is not text")
    return _check_label(request) if request.subscription else None


def _check_label(request: Request) -> Refusal | None:
    """Check by what a subscription is told apart, as `state/topics.py` says; a durable one's is kept with its TOKEN."""
    label, is_durable = request.subscription, request.option is Option.DURABLE
    if not label.startswith("/" if is_durable else ("/", "\0")) or (is_durable and not label.isprintable()):
        return Refusal(Code.INVALID_CHARACTER, "the name of a subscription is / and text that can be printed")
    if is_durable and len((request.token + label).encode()) > (width := FIELDS["TOKEN"].width):
        return Refusal(Code.OUT_OF_RANGE, f"TOKEN and the name of a durable subscription have at most {width} bytes")
    return None


# What goes together.


class _Said(NamedTuple):
    function: Function
    option: Option
    conv_id: str
    wait: str
    api: int
    is_server: bool


_WAITING = {function for (function, _), rule in RULES.items() if rule.may_wait}


def _word(text: str) -> str:
    """Return what kind of CONV-ID or PUBLICATION-ID it is."""
    if not text:
        return BLANK
    return text.upper() if text.upper() in WORDS else ID


@lru_cache(1024)
def _wait_kind(text: str) -> str:
    """Return "NO", "any", or what is wrong."""
    try:
        return "NO" if durations.parse_wait(text) is durations.NO else "any"
    except ValueError as failure:
        return str(failure)


@lru_cache(4096)
def _check_combination(said: _Said) -> Refusal | None:
    function, option = said.function, said.option
    options = {each: rule for (its_function, each), rule in RULES.items() if its_function == function}
    if not options:
        return Refusal(Code.INVALID_FUNCTION, str(int(function)))
    name = Function(function).name
    if not 1 <= said.api <= API_VERSION_MAX:
        return Refusal(Code.INVALID_VERSION, f"the API type is 1, its versions 1 to {API_VERSION_MAX}")
    if option not in list(Option):
        return Refusal(Code.INVALID_OPTION, str(int(option)))
    rule = options.get(option)
    if rule is None:
        return Refusal(Code.FUNCTION_OPTION, f"{name}, {Option(option).name}")
    if said.api < rule.api:
        return Refusal(Code.INVALID_VERSION, f"{name}, {Option(option).name} came with version {rule.api}")
    return _check_conv_id(said, rule, options) or _check_wait(said, rule) or _check_role(said, rule)


_TO_SERVE = "REGISTER for the service first; a client names the CONV-ID of its conversation"


def _check_conv_id(said: _Said, rule: Rule, options: Mapping[Option, Rule]) -> Refusal | None:
    if said.conv_id in (rule.server_conv_ids if said.is_server else rule.conv_ids):
        return None
    if said.function == Function.RECEIVE and not said.is_server and said.conv_id in ("ANY", "NEW"):
        return Refusal(Code.RECEIVE_ANY_BY_CLIENT if said.conv_id == "ANY" else Code.RECEIVE_NEW_BY_CLIENT, _TO_SERVE)
    if any(said.conv_id in (other.server_conv_ids if said.is_server else other.conv_ids) for other in options.values()):
        return Refusal(Code.OPTION_CONV_ID, f"{Option(said.option).name}, CONV-ID={said.conv_id}")
    return Refusal(Code.FUNCTION_CONV_ID, f"{Function(said.function).name}, CONV-ID={said.conv_id}")


def _check_wait(said: _Said, rule: Rule) -> Refusal | None:
    if said.wait not in ("NO", "any"):
        return Refusal(Code.INVALID_WAIT, said.wait)
    if said.wait == "NO" or rule.may_wait:
        return None
    if said.function in _WAITING:
        return Refusal(Code.OPTION_WAIT, f"{Option(said.option).name} is said with WAIT=NO")
    return Refusal(Code.FUNCTION_WAIT, f"{Function(said.function).name} is said with WAIT=NO")


def _check_role(said: _Said, rule: Rule) -> Refusal | None:
    if "server" in rule.needs and not said.is_server:
        return Refusal(Code.DEREGISTER_BY_CLIENT, "you have not registered for it")
    return None


def _check_needs(request: Request, *, is_logged_on: bool) -> Refusal | None:
    needs = RULES[request.function, request.option].needs
    if "user" in needs and not request.user_id.strip():
        return Refusal(Code.INVALID_USER_ID, "USER-ID is missing")
    if "logon" in needs and not is_logged_on:
        return Refusal(Code.LOGON_REQUIRED, "")
    if "uowid" in needs and (not request.uowid or (request.uowid.upper() == BOTH and "both" not in needs)):
        return Refusal(Code.UOWID_REQUIRED, f"{Option(request.option).name}")
    if "publication" in needs and _word(request.publication_id) not in (ID, "NEW" if "new" in needs else ID):
        return Refusal(Code.OPTION_CONV_ID, f"{Option(request.option).name}, PUBLICATION-ID={request.publication_id}")
    if "error" in needs:
        return _check_error(request.error_code)
    return None


def _check_error(text: str) -> Refusal | None:
    if not text:
        return Refusal(Code.ERROR_CODE_MISSING, "")
    if len(text) != 8 or not (text.isascii() and text.isdecimal()) or text == Code.OK.value:
        return Refusal(Code.ERROR_CODE_INVALID, "it has eight digits")
    return None
