"""The information objects: what can be asked, with which selectors, and what each row says; and what cannot, and why.

Most are answered by looking at the kernel's state; those without a `look` by who runs the broker. The numbers are those
of the request field; FILES and LATENCY are ours and have none. (EntireX 10.3, Command and Information Services.)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from oms_journal.broker.admin.broker import BROKER_COLUMNS, STATISTICS_COLUMNS
from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.admin.conversations import ConversationRow, conversations
from oms_journal.broker.admin.participants import PARTICIPANT_COLUMNS, clients, participants
from oms_journal.broker.admin.questions import LIMIT_DEFAULT, LIMIT_MAX, SHOWN_MAX, PageSteps, Query
from oms_journal.broker.admin.services import SERVER_COLUMNS, SERVICE_COLUMNS, servers, services
from oms_journal.broker.admin.topics import (
    PUBLICATION_COLUMNS,
    SUBSCRIBER_COLUMNS,
    TOPIC_COLUMNS,
    publications,
    subscribers,
    topics,
)
from oms_journal.broker.admin.uows import PSF_COLUMNS, UOW_STATISTICS_COLUMNS, uow_statistics, uows
from oms_journal.broker.block import SERVICE_FIELDS
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.store.stored import FILE_COLUMNS

_USER = ("user_id", "token")
_RECEIVER = ("receiver_user", "receiver_token")
Look = Callable[[World, Query], PageSteps]
LISTED = "`oms info` and GET /info list them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What can be asked. `look` is None where the kernel does not know it."""

    name: str
    number: int
    says: str
    columns: Sequence[str]
    selectors: Sequence[str] = ()
    look: Look | None = None


_ALL = [
    Subject(
        name="BROKER",
        number=7,
        says="the broker: what it is, what it holds, what its attributes say",
        columns=[*BROKER_COLUMNS],
    ),
    Subject(
        name="SERVICE",
        number=6,
        says="services: how much waits, how old it is, what has become of the rest",
        columns=[*SERVICE_COLUMNS],
        selectors=SERVICE_FIELDS,
        look=services,
    ),
    Subject(
        name="SERVER",
        number=1,
        says="who serves which service",
        columns=[*SERVER_COLUMNS],
        selectors=(*SERVICE_FIELDS, *_USER, "client_id"),
        look=servers,
    ),
    Subject(
        name="CLIENT",
        number=2,
        says="participants that serve nothing",
        columns=[*PARTICIPANT_COLUMNS],
        selectors=(*_USER, "client_id"),
        look=clients,
    ),
    Subject(
        name="PARTICIPANT",
        number=18,
        says="everybody who takes part",
        columns=[*PARTICIPANT_COLUMNS],
        selectors=(*_USER, "client_id"),
        look=participants,
    ),
    Subject(
        name="CONVERSATION",
        number=4,
        says="conversations, of units of work and of messages",
        columns=ConversationRow._fields,
        selectors=("conv_id", "type", *SERVICE_FIELDS, *_USER),
        look=conversations,
    ),
    Subject(
        name="PSF",
        number=9,
        says="units of work, and the statuses that are kept of complete ones",
        columns=[*PSF_COLUMNS],
        selectors=("uowid", "conv_id", "status", "held", "ustatus", *_USER, *_RECEIVER, *SERVICE_FIELDS),
        look=uows,
    ),
    Subject(
        name="UOW-STATISTICS",
        number=31,
        says="what the active units of work of a service add up to",
        columns=[*UOW_STATISTICS_COLUMNS],
        selectors=SERVICE_FIELDS,
        look=uow_statistics,
    ),
    Subject(
        name="TOPIC",
        number=17,
        says="topics, and how far the last of their subscribers is behind",
        columns=[*TOPIC_COLUMNS],
        selectors=("topic",),
        look=topics,
    ),
    Subject(
        name="SUBSCRIBER",
        number=14,
        says="subscribers, and how far each is behind",
        columns=[*SUBSCRIBER_COLUMNS],
        selectors=("topic", *_USER, "durable"),
        look=subscribers,
    ),
    Subject(
        name="PUBLICATION",
        number=16,
        says="publications that somebody has not acknowledged",
        columns=[*PUBLICATION_COLUMNS],
        selectors=("topic", "publication_id", *_USER, "status"),
        look=publications,
    ),
    Subject(name="STATISTICS", number=27, says="what was counted since the start", columns=[*STATISTICS_COLUMNS]),
    Subject(name="LATENCY", number=0, says="how long commits take, as a histogram", columns=("from", "to", "count")),
    Subject(
        name="FILES", number=0, says="the data files: live and dead bytes, and what keeps each", columns=FILE_COLUMNS
    ),
    Subject(
        name="RESOURCE-USAGE",
        number=26,
        says="memory, files, connections, and what else can run out",
        columns=("resource", "used", "limit", "unit"),
    ),
    Subject(
        name="TRANSPORT",
        number=29,
        says="where it listens, and who is connected",
        columns=("name", "address", "connections", "limit"),
    ),
]
SUBJECTS: Mapping[str, Subject] = {subject.name: subject for subject in _ALL}
ALIASES: Mapping[str, str] = {"POOL-USAGE": "RESOURCE-USAGE", "UOW": "PSF"}

# What the manual has and this broker has not.
REFUSED: Mapping[str, str] = {
    "WORKER": "there are no workers: one event loop decides, and a thread commits; see STATISTICS",
    "WORKER-USAGE": "there are no workers; see STATISTICS and LATENCY",
    "PSFMSG": "messages are their receivers'; `oms show` shows them on a stopped broker's store",
    "PSFDIV": "there is no DIV store; see FILES",
    "PSFADA": "there is no Adabas store; see FILES",
    "PSFFILE": "there is no B-tree store; see FILES",
    "PSFCTREE": "there is no c-tree store; see FILES",
    "PUBLISHER": "publishers are participants; see PARTICIPANT and PUBLICATION",
    "TCP": "see TRANSPORT",
    "SSL": "see TRANSPORT",
    "NET": "there is no Entire Net-Work; see TRANSPORT",
    "SECURITY": "users and rights are in the users file; see `oms user list`",
    "USER": "users and rights are in the users file; see `oms user list`, and PARTICIPANT for who is there",
    "CMDLOG-FILTER": "there is no command log; every command of an operator is logged",
}


def subject_of(name: str) -> Subject:
    """Return the subject of a name, in any case. CisRefused."""
    wanted = name.strip().upper().replace("_", "-")
    if not wanted:
        raise CisRefused(CommandCode.SUBJECT_MISSING, LISTED)
    found = SUBJECTS.get(ALIASES.get(wanted, wanted))
    if found is None:
        near = get_close_matches(wanted, SUBJECTS, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        why = REFUSED.get(wanted, f"there is none of this name; {meant}{LISTED}")
        raise CisRefused(CommandCode.INVALID_SUBJECT, f"{wanted[:SHOWN_MAX]}: {why}")
    return found


def question_of(subject: Subject, said: Sequence[tuple[str, str]]) -> Query:
    """Return the question of names and values, as an address has them behind the question mark. CisRefused."""
    selectors: dict[str, list[str]] = {}
    limit, cursor = LIMIT_DEFAULT, ""
    for name, value in said:
        if name == "limit":
            limit = _limit(value)
        elif name == "cursor":
            cursor = value
        elif name in subject.selectors:
            selectors.setdefault(name, []).append(value)
        else:
            known = ", ".join((*subject.selectors, "limit", "cursor"))
            raise CisRefused(
                CommandCode.INVALID_SELECTOR, f"{subject.name} has no selector {name[:SHOWN_MAX]!r}; it has {known}"
            )
    return Query(selectors=selectors, limit=limit, cursor=cursor)


def _limit(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10 and 1 <= int(value) <= LIMIT_MAX):
        raise CisRefused(
            CommandCode.INVALID_SELECTOR, f"limit={value[:20]!r} is not a whole number from 1 to {LIMIT_MAX}"
        )
    return int(value)
