"""Carrying out an operator's commands on the broker that is served: each with the code of what became of it.

RELEASE and DISCARD of what is held since the store was restored: found, held against the operator's rights, done.

What is asked for is found first, all of it, and then done in commits of bounded size, the oldest first. Who may not
administer one of the services or topics of it does nothing at all. What has come to its end meanwhile is passed over.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.admin.commands import CommandRequest
from oms_journal.broker.admin.conversations import conversations
from oms_journal.broker.admin.hold import CommitPeriod, held_counts, held_publications, held_uows
from oms_journal.broker.admin.participants import participants
from oms_journal.broker.admin.questions import LIMIT_MAX, Page, Query, Row
from oms_journal.broker.admin.services import servers
from oms_journal.broker.admin.uows import uows
from oms_journal.broker.block import SERVICE_FIELDS
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.durations import parse_duration
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.kernel.state.effects import (
    Command,
    DiscardHeld,
    DiscardPublications,
    Purge,
    ReleaseHeld,
    ReleasePublications,
    SetStatus,
    ShutConversation,
    ShutParticipant,
    ShutServer,
    SubscribeFor,
    UnsubscribeFor,
)
from oms_journal.broker.records import Status
from oms_journal.broker.rights import BROKER, Identity, Right, service_name, topic_name
from oms_journal.broker.server.runtime.log import event
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.broker.store.start import StoreError
from oms_journal.broker.store.stored import MakesRoom
from oms_journal.database.stats import CleanupReport

AT_ONCE = 250  # in one commit: who calls meanwhile waits for some 10 ms
_GONE = (Code.UOW_NOT_FOUND, Code.WRONG_STATUS)
_UNITS = ("conv_id", "user_id", *SERVICE_FIELDS)
_SUBSCRIPTIONS = ("topic", "user_id")


class ReleaseCommand:
    """One such command, of an operator who may do what `may` lets pass."""

    def __init__(self, broker: AsyncBroker, order: CommandRequest, may: Callable[[str], None]) -> None:
        """CisRefused for an order that does not say what it is about."""
        self.code = CommandCode.NOT_RELEASED if order.command == "RELEASE" else CommandCode.NOT_DISCARDED
        self._broker = broker
        self._order = order
        self._may = may
        self._between = _between(order)
        names = _UNITS if order.target == "PSF" else _SUBSCRIPTIONS
        said = {name: [getattr(order, name)] for name in names if getattr(order, name)}
        if order.token is not None:
            said["token"] = [order.token]
        uowids = {*order.identifiers, *([order.uowid] if order.uowid else [])}
        is_narrow = bool(said or uowids or not self._between.is_everything)
        if is_narrow == order.everything:
            text = "say which: identifiers, what they have in common, or all"
            raise CisRefused(CommandCode.INVALID_SELECTOR, text)
        if order.target == "PSF":
            said |= {"held": ["yes"], **({"uowid": sorted(uowids)} if uowids else {})}
        self._question = Query(selectors=said)
        self._identifiers = frozenset(uowids)

    async def carry_out(self) -> int:
        """Do it; return how much of what was held it has changed. CisRefused."""
        return await (self._units() if self._order.target == "PSF" else self._publications())

    async def _units(self) -> int:
        page = await self._broker._look(lambda world: held_uows(world, self._question, self._between))
        for name in {(row["server_class"], row["server_name"], row["service"]) for row in page.rows}:
            self._may(service_name(*name))
        uowids = [row["uowid"] for row in page.rows]
        count = 0
        for start in range(0, len(uowids), AT_ONCE):
            count += await self._some(uowids[start : start + AT_ONCE])
        return count

    async def _some(self, uowids: Sequence[str]) -> int:
        """Do it to some; where one of them is not held any more, to the others one by one."""
        try:
            await self._broker._administer(lambda handle: self._of_units(handle, tuple(uowids)))
        except BrokerError as refused:
            if refused.code not in _GONE:
                raise CisRefused(self.code, error_code=str(refused.code.value), error_text=refused.text) from refused
            return sum([await self._some([uowid]) for uowid in uowids]) if len(uowids) > 1 else 0
        return len(uowids)

    def _of_units(self, handle: int, uowids: tuple[str, ...]) -> Command:
        if self._order.command == "RELEASE":
            return ReleaseHeld(handle, uowids)
        return DiscardHeld(handle, uowids, Status[self._order.option])

    async def _publications(self) -> int:
        page = await self._broker._look(lambda world: held_publications(world, self._question, self._between))
        for topic in {row["topic"] for row in page.rows}:
            self._may(topic_name(topic))
        count = 0
        for row in page.rows:
            count += await self._of_subscription(row)
        return count

    async def _of_subscription(self, row: Row) -> int:
        wanted = [each for each in row["publication_ids"] if not self._identifiers or each in self._identifiers]
        if not wanted:
            return 0
        chosen = None if row["is_all"] and len(wanted) == len(row["publication_ids"]) else tuple(wanted)
        kind = ReleasePublications if self._order.command == "RELEASE" else DiscardPublications
        try:
            await self._broker._administer(lambda handle: kind(handle, row["subscription_id"], chosen))
        except BrokerError as refused:
            if refused.code in _GONE:
                return 0
            raise CisRefused(self.code, error_code=str(refused.code.value), error_text=refused.text) from refused
        return len(wanted)


async def tell_held(broker: AsyncBroker) -> None:
    """Log how much is held since the store was restored, where anything is."""
    page = await broker._look(held_counts)
    uows, publications = page.rows[0]["uows"], page.rows[0]["publications"]
    if uows or publications:
        said = event("held", uows=uows, publications=publications)
        text = "held since the store was restored, until RELEASE or DISCARD: units of work %d, publications %d"
        _log.warning(text, uows, publications, extra=said)


def _between(order: CommandRequest) -> CommitPeriod:
    """Return the times between which something must have been committed. CisRefused for what is no age."""
    now = time.time_ns() // 1000
    try:
        before = now - parse_duration(order.older) if order.older else None
        after = now - parse_duration(order.newer) if order.newer else None
    except ValueError as wrong:
        raise CisRefused(CommandCode.INVALID_SELECTOR, f"older and newer are ages: {wrong}") from None
    return CommitPeriod(after=after, before=before)


_log = logging.getLogger("oms.server")
CLEANUP_SECONDS = 20.0  # that an operator waits for a clean-up, which goes on then; `oms cmd` waits for 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command has done: to how many, and rows where it answers some."""

    affected: int = 0
    rows: tuple[Row, ...] = ()


ServerPages = Callable[[str], Awaitable[Page]]  # of an information object that the kernel does not know


class Commands:
    """The commands, for one operator."""

    def __init__(self, served: ServerState, identity: Identity, rows: ServerPages) -> None:
        self._served = served
        self._identity = identity
        self._rows = rows

    async def carry_out(self, order: CommandRequest) -> Done:
        """Carry out a command that was checked. CisRefused."""
        everywhere = {
            "NO-OPERATION": self._nothing,
            "STATUS": self._status,
        }
        if order.command == "SHUTDOWN" and order.target == "BROKER":
            return await self._stop()
        found = everywhere.get(order.command)
        return await found(order) if found is not None else await self._on_broker(order)

    def _may(self, name: str = BROKER) -> None:
        may = self._identity.may
        if not (may(Right.ADMINISTER, BROKER) or may(Right.ADMINISTER, name)):
            raise CisRefused(CommandCode.NOT_AUTHORIZED, f"{self._identity.user} may not administer {name}")

    @property
    def _broker(self) -> AsyncBroker:
        if self._served.broker is None:
            raise CisRefused(
                CommandCode.WRONG_RUN_MODE,
                f"there is no broker to command at the moment, RUN-MODE is {self._served.run_mode}",
                error_code=str(self._served.refusal.value),
                error_text=self._served.refusal.text,
            )
        return self._served.broker

    # Of the whole.

    async def _nothing(self, _: CommandRequest) -> Done:
        return Done()

    async def _status(self, _: CommandRequest) -> Done:
        self._may()
        page = await self._rows("TRANSPORT")
        return Done(affected=len(page.rows), rows=tuple(page.rows))

    async def _stop(self) -> Done:
        self._may()
        asyncio.get_running_loop().call_soon(self._served.stop, f"SHUTDOWN by {self._identity.user or 'an operator'}")
        return Done(affected=1)

    async def _on_broker(self, order: CommandRequest) -> Done:
        broker = self._broker
        commands: Mapping[str, Callable[[AsyncBroker, CommandRequest], Awaitable[Done]]] = {
            "PURGE": self._purge,
            "SET-UOW-STATUS": self._set_status,
            "RELEASE": self._release,
            "DISCARD": self._release,
            "SUBSCRIBE": self._subscribe,
            "UNSUBSCRIBE": self._subscribe,
            "SHUTDOWN": self._shut,
            "CLEANUP": self._clean_up,
            "CONNECT-PSTORE": self._connect,
            "DISCONNECT-PSTORE": self._disconnect,
            "ALLOW-NEWUOWMSGS": self._allow,
            "FORBID-NEWUOWMSGS": self._allow,
            "PRODUCE-STATISTICS": self._statistics,
        }
        return await commands[order.command](broker, order)

    async def _connect(self, broker: AsyncBroker, _: CommandRequest) -> Done:
        self._may()
        await _tried(CommandCode.CONNECT_FAILED, broker.connect_pstore())
        return Done(affected=1)

    async def _disconnect(self, broker: AsyncBroker, _: CommandRequest) -> Done:
        self._may()
        await _tried(CommandCode.DISCONNECT_FAILED, broker.disconnect_pstore())
        return Done(affected=1)

    async def _allow(self, broker: AsyncBroker, order: CommandRequest) -> Done:
        self._may()
        is_allowed = order.command == "ALLOW-NEWUOWMSGS"
        if broker._store is None:
            raise CisRefused(
                CommandCode.ALLOW_FAILED if is_allowed else CommandCode.FORBID_FAILED, "PSTORE=NO: there is no store"
            )
        try:
            if is_allowed:
                broker.allow_new_uow_messages()
            else:
                broker.forbid_new_uow_messages()
        except BrokerError as refused:  # it is ending
            raise _refused(CommandCode.ALLOW_FAILED if is_allowed else CommandCode.FORBID_FAILED, refused) from refused
        return Done(affected=1)

    async def _clean_up(self, broker: AsyncBroker, _: CommandRequest) -> Done:
        self._may()
        if not isinstance(broker._store, MakesRoom):
            why = (
                "PSTORE=NO: there is no store"
                if broker._store is None
                else "this kind of store gives space back by itself"
            )
            raise CisRefused(CommandCode.CANNOT_EXECUTE, why)
        cleaning = asyncio.create_task(_cleaned(broker._store))
        done, _pending = await asyncio.wait((cleaning,), timeout=CLEANUP_SECONDS)
        if not done:
            return Done(rows=({"cleanup": "goes on; the log says when it is done"},))
        try:
            report = cleaning.result()
        except StoreError as failure:
            raise CisRefused(CommandCode.CANNOT_EXECUTE, str(failure)) from failure
        row = {
            "files": len(report.deleted) + len(report.moved),
            "freed_bytes": report.freed_bytes,
            "moved_messages": report.moved_messages,
            "moved_keys": report.moved_keys,
        }
        return Done(affected=row["files"], rows=(row,))

    async def _statistics(self, _: AsyncBroker, __: CommandRequest) -> Done:
        self._may()
        page = await self._rows("STATISTICS")
        for row in page.rows:
            _log.info("statistics: %s", ", ".join(f"{name} {value}" for name, value in row.items()))
        return Done(affected=len(page.rows), rows=tuple(page.rows))

    # Units of work, topics.

    async def _purge(self, broker: AsyncBroker, order: CommandRequest) -> Done:
        await self._may_move(broker, order, CommandCode.PURGE_FAILED)
        await _given(broker, CommandCode.PURGE_FAILED, lambda handle: Purge(handle, order.uowid))
        return Done(affected=1)

    async def _set_status(self, broker: AsyncBroker, order: CommandRequest) -> Done:
        await self._may_move(broker, order, CommandCode.STATUS_NOT_SET)
        status = Status[order.option]
        await _given(broker, CommandCode.STATUS_NOT_SET, lambda handle: SetStatus(handle, order.uowid, status))
        return Done(affected=1)

    async def _may_move(self, broker: AsyncBroker, order: CommandRequest, code: CommandCode) -> None:
        if not order.uowid:
            raise CisRefused(code, "uowid must say which")
        question = Query(selectors={"uowid": [order.uowid.replace("*", "?")]})
        for row in await _found(broker, uows, question):
            self._may_found(_service_of(row))
            return
        self._may_see()
        code_said = str(Code.UOW_NOT_FOUND.value)
        raise CisRefused(
            code, f"there is none of uowid {order.uowid!r}", error_code=code_said, error_text=Code.UOW_NOT_FOUND.text
        )

    def _may_found(self, name: str) -> None:
        """Hold the rights on what was found against the operator; its name is told only to who may look at it."""
        if not self._identity.may(Right.LOOK, name):
            self._may_see()
        self._may(name)

    def _may_see(self) -> None:
        """Tell only who may look that there is nothing."""
        if not (self._identity.may(Right.LOOK, BROKER) or self._identity.may(Right.ADMINISTER, BROKER)):
            raise CisRefused(CommandCode.NOT_AUTHORIZED)

    async def _release(self, broker: AsyncBroker, order: CommandRequest) -> Done:
        releasing = ReleaseCommand(broker, order, self._may_found)
        count = await releasing.carry_out()
        if not count:
            self._may_see()
            raise CisRefused(releasing.code, "nothing of it is held")
        return Done(affected=count)

    async def _subscribe(self, broker: AsyncBroker, order: CommandRequest) -> Done:
        if not order.topic:
            raise CisRefused(CommandCode.TOPIC_MISSING, "topic must name it")
        self._may(topic_name(order.topic))
        if not order.user_id:
            raise CisRefused(CommandCode.USER_MISSING, "user_id must name it")
        topic, user, token = order.topic, order.user_id, order.token or ""
        if order.command == "SUBSCRIBE":
            await _given(broker, CommandCode.SUBSCRIBE_FAILED, lambda handle: SubscribeFor(handle, topic, user, token))
        else:
            await _given(
                broker, CommandCode.UNSUBSCRIBE_FAILED, lambda handle: UnsubscribeFor(handle, topic, user, token)
            )
        return Done(affected=1)

    # SHUTDOWN.

    async def _shut(self, broker: AsyncBroker, order: CommandRequest) -> Done:
        if order.option not in ("IMMED", "QUIESCE"):
            raise CisRefused(CommandCode.INVALID_OPTION, "say IMMED or QUIESCE")
        if order.target == "CONVERSATION":
            return await self._shut_conversation(broker, order)
        if order.target == "PARTICIPANT":
            return await self._shut_participant(broker, order)
        if order.target == "SERVICE":
            return await self._shut_servers(broker, order, CommandCode.SERVICE_NOT_FOUND)
        if not order.client_id and not order.user_id:
            raise CisRefused(CommandCode.USER_NOT_UNIQUE, "client_id, or user_id and token, must name it")
        return await self._shut_servers(broker, order, CommandCode.PARTICIPANT_NOT_FOUND)

    async def _shut_servers(self, broker: AsyncBroker, order: CommandRequest, missing: CommandCode) -> Done:
        """Shut down all servers of a service, or a server of all its services, or of one."""
        is_one_service = all(order.names) and not any("*" in name for name in order.names)
        if not is_one_service and (order.target == "SERVICE" or any(order.names)):
            raise CisRefused(CommandCode.SERVICE_NOT_UNIQUE, "say all three, without *")
        if order.target == "SERVICE":
            self._may(service_name(*order.names))
        rows = await _found(broker, servers, Query(selectors=_selectors(order), limit=LIMIT_MAX))
        for row in rows:
            self._may_found(_service_of(row))
        if not rows:
            self._may_see()
            raise CisRefused(missing, f"no server fits {_said(order)}; `oms info SERVER` shows who is there")
        if order.target == "SERVER" and len({row["client_id"] for row in rows}) > 1:
            raise CisRefused(CommandCode.USER_NOT_UNIQUE, "there are several; say token or client_id")
        count = 0
        for row in rows:
            if order.exclude_attach and row["attach"]:
                continue
            service = (row["server_class"], row["server_name"], row["service"])
            count += await self._shut_one(broker, row["client_id"], service, is_immediate=order.is_immediate)
        return Done(affected=count)

    async def _shut_one(
        self, broker: AsyncBroker, client_id: int, service: tuple[str, str, str], *, is_immediate: bool
    ) -> int:
        try:
            await broker._administer(lambda handle: ShutServer(handle, client_id, service, is_immediate))
        except BrokerError as refused:
            if refused.code is Code.SERVICE_NOT_REGISTERED:
                return 0  # it has gone by itself
            raise _refused(CommandCode.CANNOT_EXECUTE, refused) from refused
        return 1

    async def _shut_participant(self, broker: AsyncBroker, order: CommandRequest) -> Done:
        self._may()
        if not order.client_id and not order.user_id:
            raise CisRefused(CommandCode.USER_NOT_UNIQUE, "client_id, or user_id and token, must name it")
        selectors = {
            name: value for name, value in _selectors(order).items() if name in ("user_id", "token", "client_id")
        }
        rows = await _found(broker, participants, Query(selectors=selectors))
        if not rows:
            raise CisRefused(
                CommandCode.PARTICIPANT_NOT_FOUND,
                f"nobody fits {_said(order)}; `oms info PARTICIPANT` shows who is there",
            )
        if len(rows) > 1:
            raise CisRefused(CommandCode.USER_NOT_UNIQUE, "there are several; say token or client_id")
        if not order.is_immediate and not rows[0]["services"]:
            raise CisRefused(CommandCode.SERVERS_ONLY, "this one serves nothing; say IMMED")
        client_id = rows[0]["client_id"]
        await _given(
            broker,
            CommandCode.CANNOT_EXECUTE,
            lambda handle: ShutParticipant(handle, client_id, order.is_immediate),
            {
                Code.USER_UNKNOWN: CommandCode.PARTICIPANT_NOT_FOUND,
                Code.SERVICE_NOT_REGISTERED: CommandCode.SERVERS_ONLY,
            },
        )
        return Done(affected=1)

    async def _shut_conversation(self, broker: AsyncBroker, order: CommandRequest) -> Done:
        if not order.conv_id:
            raise CisRefused(CommandCode.CONVERSATION_MISSING, "conv_id must name it")
        question = Query(selectors={"conv_id": [order.conv_id.replace("*", "?")]})
        rows = await _found(broker, conversations, question)
        if not rows:
            self._may_see()
            raise CisRefused(CommandCode.CONVERSATION_NOT_FOUND, f"there is none of conv_id {order.conv_id!r}")
        self._may_found(_service_of(rows[0]))
        await _given(
            broker,
            CommandCode.CANNOT_EXECUTE,
            lambda handle: ShutConversation(handle, order.conv_id, order.is_immediate),
            {Code.NO_CONVERSATION: CommandCode.CONVERSATION_NOT_FOUND, Code.UNREAD_UOW: CommandCode.UNPROCESSED_UOWS},
        )
        return Done(affected=1)


async def _cleaned(store: MakesRoom) -> CleanupReport:
    """Clean up beside everything else, and log what it came to: its operator may not have waited."""
    try:
        report = await asyncio.to_thread(store.clean_up)
    except StoreError as failure:
        _log.warning("the data files of the store could not be cleaned up: %s", failure)
        raise
    _log.info(
        "cleaned up the data files of the store: %s gone, %s bytes freed",
        len(report.deleted) + len(report.moved),
        f"{report.freed_bytes:,}",
    )
    return report


def _selectors(order: CommandRequest) -> dict[str, list[str]]:
    """Return the selectors of servers and participants that the order has; one with a `*` finds nothing."""
    said = {
        "user_id": order.user_id or None,
        "token": order.token,
        "client_id": str(order.client_id) if order.client_id else None,
        **dict(zip(SERVICE_FIELDS, (name or None for name in order.names), strict=True)),
    }
    return {name: [value.replace("*", "?")] for name, value in said.items() if value is not None}


def _said(order: CommandRequest) -> str:
    """Return what an order picks participants by."""
    return " ".join(f"{name}={values[0]}" for name, values in _selectors(order).items())


async def _found(broker: AsyncBroker, look: Callable[..., object], question: Query) -> list[Row]:
    page = await broker._look(lambda world: look(world, question))  # type: ignore[arg-type,return-value]
    return list(page.rows)


def _service_of(row: Row) -> str:
    return service_name(row["server_class"], row["server_name"], row["service"])


async def _given(
    broker: AsyncBroker,
    code: CommandCode,
    command: Callable[[int], Command],
    codes: Mapping[Code, CommandCode] | None = None,
) -> None:
    """Give the kernel a command. CisRefused with the code, or with what the broker's code means here."""
    try:
        await broker._administer(command)
    except BrokerError as refused:
        raise _refused((codes or {}).get(refused.code, code), refused) from refused


async def _tried(code: CommandCode, attempt: Awaitable[None]) -> None:
    try:
        await attempt
    except BrokerError as refused:
        raise _refused(code, refused) from refused


def _refused(code: CommandCode, refused: BrokerError) -> CisRefused:
    return CisRefused(code, error_code=str(refused.code.value), error_text=refused.text)
