"""The control block: the fields of a call and of its answer. Every call of the broker is one.

A field of characters holds what is printable, is never padded, and "" where nothing is said; a number
is 0 where nothing is said. FIELDS has every field with its width, who sets it, and since which API
version. Beside the block go the message itself (`body`), its `properties`, the producer's
identifier of a unit of work (`producer`), which one of several subscriptions of its caller to one
topic is meant (`subscription`, as `state/topics.py` says), and whether what a BACKOUT gives back was only got
ahead, which then does not count as an attempt (`is_untried`).

Request and Reply are values: made once, never changed afterwards. They are not frozen, since making
a frozen one takes as long as half of a call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum, IntEnum
from typing import Any

from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status

ServiceName = tuple[str, str, str]  # CLASS, SERVER, SERVICE
SERVICE_FIELDS = ("server_class", "server_name", "service")  # of a control block

API_VERSION_MAX = 13


class Function(IntEnum):
    """What the caller wants."""

    SEND = 1
    RECEIVE = 2
    UNDO = 4
    EOC = 5
    REGISTER = 6
    DEREGISTER = 7
    VERSION = 8
    LOGON = 9
    LOGOFF = 10
    SET = 11
    GET = 12
    SYNCPOINT = 13
    KERNELVERS = 14
    LOCTRANS = 15
    SETSSLPARMS = 16
    SEND_PUBLICATION = 17
    RECEIVE_PUBLICATION = 18
    SUBSCRIBE = 19
    UNSUBSCRIBE = 20
    CONTROL_PUBLICATION = 21
    REPLY_ERROR = 22


class Option(IntEnum):
    """How the caller wants it; NONE where nothing is said."""

    NONE = 0
    MSG = 1
    HOLD = 2
    IMMED = 3
    QUIESCE = 4
    EOC = 5
    CANCEL = 6
    LAST = 7
    NEXT = 8
    PREVIEW = 9
    COMMIT = 10
    BACKOUT = 11
    SYNC = 12
    ATTACH = 13
    DELETE = 14
    EOCCANCEL = 15
    QUERY = 16
    SETUSTATUS = 17
    ANY = 18
    TERMINATE = 19
    DURABLE = 20
    CHECKSERVICE = 21
    EXTENDED = 22


class ConvStat(IntEnum):
    """Whether a received message began a conversation, went on with one, or stands alone."""

    NEW = 1
    OLD = 2
    NONE = 3


class Store(IntEnum):
    """Whether a unit of work is persistent; UNSAID where the caller leaves it to the attributes."""

    UNSAID = 0
    OFF = 1
    BROKER = 2


class Reception(IntEnum):
    """What a RECEIVE answers as UOWSTATUS: the message's place in its unit of work."""

    RECV_NONE = 0
    RECV_FIRST = 9
    RECV_MIDDLE = 10
    RECV_LAST = 11
    RECV_ONLY = 12


BEGINNINGS = (Reception.RECV_FIRST, Reception.RECV_ONLY)  # what the first message of a unit of work says
UWSTATP_DEFAULT = 0  # of the service, else of the broker
UWSTATP_MAX = 254  # 1 to 254: multiples of the lifetime
UWSTATP_NO = 255  # not persistent, whatever the attributes say

NEW, OLD, ANY, NONE, BOTH = "NEW", "OLD", "ANY", "NONE", "BOTH"  # CONV-ID, PUBLICATION-ID and UOWID in words


class Kind(Enum):
    """What a field holds."""

    CHARACTERS = "A"
    BYTES = "B"
    NUMBER = "I"


class Way(Enum):
    """Who sets a field."""

    IN = "in"
    OUT = "out"
    BOTH = "in and out"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the control block; `attribute` is its name in Request and Reply, "" in neither."""

    name: str
    attribute: str
    kind: Kind
    width: int  # bytes
    way: Way
    api: int  # the first version that has it


def _fields(kind: Kind, way: Way, rows: str) -> list[Field]:
    """Return the fields of rows "NAME attribute width version"."""
    found = []
    for row in rows.strip().splitlines():
        name, attribute, width, api = row.split()
        found.append(Field(name, attribute.strip("-"), kind, int(width), way, int(api)))
    return found


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in [
        *_fields(
            Kind.NUMBER,
            Way.IN,
            """
            API-TYPE          api_type          1  1
            API-VERSION       api_version       1  1
            FUNCTION          function          1  1
            OPTION            option            1  1
            SEND-LENGTH       -                 4  1
            RECEIVE-LENGTH    receive_length    4  1
            ERRTEXT-LENGTH    errtext_length    4  1
            UWSTATP           uwstatp           1  3
            DATA-ARCH         -                 1  4
            ENCRYPTION-LEVEL  -                 1  6
            """,
        ),
        *_fields(
            Kind.NUMBER,
            Way.OUT,
            """
            RETURN-LENGTH     return_length     4  1
            ADCOUNT           adcount           4  2
            CONV-STAT         conv_stat         1  2
            STATUS            -                 1  2
            UOWSTATUS         uow_status        1  3
            CLIENT-ID         client_id         4  9
            """,
        ),
        *_fields(Kind.NUMBER, Way.BOTH, "STORE store 1 2"),
        *_fields(
            Kind.CHARACTERS,
            Way.IN,
            """
            BROKER-ID         broker_id         32 1
            USER-ID           user_id           32 1
            PASSWORD          password          32 1
            TOKEN             token             32 1
            WAIT              wait              8  1
            UWTIME            uwtime            8  3
            LOCALE            locale            40 4
            FORCE-LOGON       force_logon       1  6
            KERNEL-SECURITY   -                 1  7
            COMPRESS          -                 1  7
            UWSTAT-LIFETIME   uwstat_lifetime   8  8
            """,
        ),
        *_fields(
            Kind.CHARACTERS,
            Way.OUT,
            """
            ERROR-CODE        code              8  1
            CLIENT-UID        client_uid        32 2
            COMMITTIME        commit_time       17 7
            PARTNER-BROKER-ID partner_broker_id 32 9
            """,
        ),
        *_fields(
            Kind.CHARACTERS,
            Way.BOTH,
            """
            SERVER-CLASS      server_class      32 1
            SERVER-NAME       server_name       32 1
            SERVICE           service           32 1
            CONV-ID           conv_id           16 1
            MSGTYPE           msgtype           16 2
            UOWID             uowid             16 3
            USTATUS           ustatus           32 3
            TOPIC             topic             96 8
            PUBLICATION-ID    publication_id    16 8
            """,
        ),
        *_fields(
            Kind.BYTES,
            Way.BOTH,
            """
            SECURITY-TOKEN    security_token    32 1
            USER-DATA         user_data         16 2
            MSGID             msgid             32 2
            """,
        ),
    ]
}


@dataclass(kw_only=True)
class Request:
    """What a caller says. The lengths of the message and of its text are those of `body`."""

    function: Function
    option: Option = Option.NONE
    api_type: int = 1
    api_version: int = API_VERSION_MAX
    broker_id: str = ""
    user_id: str = ""
    token: str = ""
    password: str = ""
    security_token: bytes = b""
    server_class: str = ""
    server_name: str = ""
    service: str = ""
    conv_id: str = ""
    wait: str = ""
    uowid: str = ""
    ustatus: str = ""
    store: Store = Store.UNSAID
    uwtime: str = ""
    uwstatp: int = UWSTATP_DEFAULT
    uwstat_lifetime: str = ""
    topic: str = ""
    publication_id: str = ""
    msgtype: str = ""
    msgid: bytes = b""
    user_data: bytes = b""
    locale: str = ""
    force_logon: str = ""
    receive_length: int = 0  # 0: as long as the message is
    errtext_length: int = 0
    error_code: str = ""  # what REPLY_ERROR tells the partner
    body: bytes = b""
    properties: Mapping[str, str] | None = None
    producer: str = ""
    subscription: str = ""
    is_untried: bool = False  # with BACKOUT by a receiver: it was not at it, and no attempt counts (`redelivery.py`)
    parts: Sequence["Request"] = ()  # with SYNCPOINT COMMIT of BOTH: what is committed together (`joint_commit.py`)


def _say(request: Request, *, function: Function, option: Option = Option.NONE, **said: Any) -> None:
    """Make a request as the `__init__` of its data class would. But what is not said stays with the class.

    To set thirty fields of each takes as long as a tenth of a call.
    """
    if not FIELDS_OF_REQUEST.issuperset(said):
        raise TypeError(f"a request has no field {', '.join(sorted(said.keys() - FIELDS_OF_REQUEST))}")
    said["function"], said["option"] = function, option
    request.__dict__.update(said)


Request.__init__ = _say  # type: ignore[method-assign,assignment]
FIELDS_OF_REQUEST = frozenset(field.name for field in fields(Request))


@dataclass(kw_only=True)
class Reply:
    """What a caller is answered; `text` is the code's with what is special about this case.

    `blank` is the cheap way to one of which little is said: the others of so many fields stay with the class.
    """

    code: Code = Code.OK
    text: str = ""
    security_token: bytes = b""
    server_class: str = ""
    server_name: str = ""
    service: str = ""
    conv_id: str = ""
    conv_stat: ConvStat | None = None
    uowid: str = ""
    uow_status: Status | Reception | None = None
    ustatus: str = ""
    store: Store = Store.UNSAID
    adcount: int = 0
    client_uid: str = ""
    client_id: int = 0
    commit_time: str = ""  # YYYYMMDDhhmmssmmm UTC, of the conversation's first unit of work
    topic: str = ""
    publication_id: str = ""
    msgtype: str = ""
    msgid: bytes = b""
    user_data: bytes = b""
    return_length: int = 0
    partner_broker_id: str = ""
    versions: str = ""  # what VERSION and KERNELVERS tell

    @staticmethod
    def blank() -> "Reply":
        """Return a reply that says nothing, to be filled in."""
        return Reply.__new__(Reply)
