"""Conversations as rows, in the order of their identifiers; those that sleep with what they wait for are among them."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from oms_journal.broker.admin.questions import (
    STEP_LOOKS,
    STEP_ROWS,
    Page,
    PageSteps,
    Query,
    Row,
    cursor_of,
    time_of,
)
from oms_journal.broker.admin.services import ServiceFilter
from oms_journal.broker.kernel.state.conversation import CLIENT, SERVER, Conversation
from oms_journal.broker.kernel.state.unit_records import service_of_record
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.tables.dormant_units import WAITING
from oms_journal.broker.records import Flag, identifier

STEP_ASLEEP = 500  # identifiers of conversations that sleep, taken at once


class ConversationRow(NamedTuple):
    """A conversation. What waits is units of work, or messages where its type is MESSAGE.

    `server_user` is None before a server has received from it; `bound` when it is that server's for good. `begun` is
    the commit of its first unit of work, `uows` how many were begun in it since it was woken, `idle` the seconds since
    the last call about it; both are not known of one that sleeps.
    """

    conv_id: str
    type: str
    server_class: str
    server_name: str
    service: str
    client_user: str
    client_token: str
    server_user: str | None
    server_token: str | None
    bound: bool
    state: str
    waiting_for_server: int
    waiting_for_client: int
    begun: str | None
    uows: int
    idle: float | None
    asleep: bool


def conversations(world: World, question: Query) -> PageSteps:
    """Return the conversations, by CONV-ID."""
    after = question.after_identifier()
    is_wanted, total = _choice(question), None if question.selectors else question.total(world.talk_count)
    rows: list[Row] = []
    effort, last = 0, ""
    for conv_id in _identifiers(world, question, after):
        found = _row(world, conv_id) if conv_id else None
        effort += 1
        if found is not None and is_wanted(found) and question.sees(row := found._asdict()):
            if len(rows) == question.limit:
                return Page(rows=rows, total=total, next=cursor_of(last))
            rows.append(row)
            last = conv_id
            effort += STEP_LOOKS // STEP_ROWS
        if effort * 10 >= STEP_LOOKS or not conv_id:
            effort = 0
            yield
    return Page(rows=rows, total=total)


def _choice(question: Query) -> Callable[[ConversationRow], bool]:
    is_service = ServiceFilter(question)
    names = ("conv_id", "type", "user_id", "token")
    is_one, is_type, is_user, is_token = (question.fits(name) for name in names)

    def is_wanted(row: ConversationRow) -> bool:
        return (
            is_one(row.conv_id)
            and is_type(row.type)
            and is_service((row.server_class, row.server_name, row.service))
            and (
                (is_user(row.client_user) and is_token(row.client_token))
                or (row.server_user is not None and is_user(row.server_user) and is_token(row.server_token or ""))
            )
        )

    return is_wanted


def _identifiers(world: World, question: Query, after: str) -> Iterator[str]:
    """Yield the identifiers of what is awake and of what sleeps, in order; "" where there may be a pause."""
    one = question.one("conv_id")
    if one is not None:
        yield one if one > after else ""
        return
    awake = sorted([conv_id for conv_id in world.conversations if conv_id > after])
    number, at = int(after, 16) if after else 0, 0
    while True:
        asleep = [identifier(each) for each in world.units.conversations_behind(number, STEP_ASLEEP)]
        end = len(awake) if len(asleep) < STEP_ASLEEP else bisect_right(awake, asleep[-1])
        yield from sorted({*asleep, *awake[at:end]})
        if len(asleep) < STEP_ASLEEP:
            return
        at, number = end, int(asleep[-1], 16)
        yield ""


def _row(world: World, conv_id: str) -> ConversationRow | None:
    talk = world.conversations.get(conv_id)
    return _awake_row(world, talk) if talk is not None else _sleeping_row(world, conv_id)


def _awake_row(world: World, talk: Conversation) -> ConversationRow:
    server_class, server_name, service = talk.service.name
    waiting = [len(line) if talk.is_uow else len(plain) for line, plain in zip(talk.lines, _plain(talk), strict=True)]
    return ConversationRow(
        conv_id=talk.conv_id,
        type="UOW" if talk.is_uow else "MESSAGE",
        server_class=server_class,
        server_name=server_name,
        service=service,
        client_user=talk.client[0],
        client_token=talk.client[1],
        server_user=talk.server[0] if talk.server is not None else None,
        server_token=talk.server[1] if talk.server is not None else None,
        bound=talk.is_bound,
        state=talk.state.name,
        waiting_for_server=waiting[SERVER],
        waiting_for_client=waiting[CLIENT],
        begun=time_of(talk.begun),
        uows=talk.unit_count,
        idle=(world.clocks.volatile - talk.used) / 1_000_000,
        asleep=False,
    )


def _plain(talk: Conversation) -> Sequence[Sequence[object]]:
    return talk.plain or ((), ())


def _sleeping_row(world: World, conv_id: str) -> ConversationRow | None:
    """Return the conversation of a unit of work that sleeps; None where only a status is left of it."""
    records = filter(None, map(world.units.find, world.units.of_conversation(conv_id)))
    found = next((record for record in records if record.status in WAITING), None)
    if found is None:
        return None
    server_class, server_name, service = service_of_record(found)
    to_client = bool(found.flags & Flag.FROM_SERVER)
    client = (found.receiver_user, found.receiver_token) if to_client else (found.sender_user, found.sender_token)
    server = (found.sender_user, found.sender_token) if to_client else (found.receiver_user, found.receiver_token)
    is_bound = bool(found.flags & Flag.BOUND)
    return ConversationRow(
        conv_id=conv_id,
        type="UOW",
        server_class=server_class,
        server_name=server_name,
        service=service,
        client_user=client[0],
        client_token=client[1],
        server_user=server[0] if is_bound else None,
        server_token=server[1] if is_bound else None,
        bound=is_bound,
        state=found.state.name,
        waiting_for_server=0 if to_client else 1,
        waiting_for_client=1 if to_client else 0,
        begun=time_of(found.begun),
        uows=1,
        idle=None,
        asleep=True,
    )
