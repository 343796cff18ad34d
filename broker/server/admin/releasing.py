"""RELEASE and DISCARD of what is held since the store was restored: found, held against the operator's rights, done.

What is asked for is found first, all of it, and then done in commits of bounded size, the oldest first. Who may not
administer one of the services or topics of it does nothing at all. What has come to its end meanwhile is passed over.
"""

import logging
import time
from collections.abc import Callable, Sequence

from oms_journal.broker.admin.codes import Cis, CisRefused
from oms_journal.broker.admin.commands import Order
from oms_journal.broker.admin.hold import Between, held_counts, held_publications, held_uows
from oms_journal.broker.admin.questions import Question, Row
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.durations import duration
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.kernel.state.effects import (
    Command,
    DiscardHeld,
    DiscardPublications,
    ReleaseHeld,
    ReleasePublications,
)
from oms_journal.broker.records import Status
from oms_journal.broker.rights import service_name, topic_name
from oms_journal.broker.server.runtime.log import event

_log = logging.getLogger("oms.server")
AT_ONCE = 250  # in one commit: who calls meanwhile waits for some 10 ms
_GONE = (Code.UOW_NOT_FOUND, Code.WRONG_STATUS)
_UNITS = ("conv_id", "user_id", "server_class", "server_name", "service")
_SUBSCRIPTIONS = ("topic", "user_id")


class Releasing:
    """One such command, of an operator who may do what `may` lets pass."""

    def __init__(self, broker: AsyncBroker, order: Order, may: Callable[[str], None]) -> None:
        """CisRefused for an order that does not say what it is about."""
        self.code = Cis.NOT_RELEASED if order.command == "RELEASE" else Cis.NOT_DISCARDED
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
            raise CisRefused(Cis.INVALID_SELECTOR, text)
        if order.target == "PSF":
            said |= {"held": ["yes"], **({"uowid": sorted(uowids)} if uowids else {})}
        self._question = Question(selectors=said)
        self._identifiers = frozenset(uowids)

    async def carry_out(self) -> int:
        """Do it; return how much of what was held it has changed. CisRefused."""
        return await (self._units() if self._order.target == "PSF" else self._publications())

    async def _units(self) -> int:
        page = await self._broker.look(lambda world: held_uows(world, self._question, self._between))
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
            await self._broker.administer(lambda handle: self._of_units(handle, tuple(uowids)))
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
        page = await self._broker.look(lambda world: held_publications(world, self._question, self._between))
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
            await self._broker.administer(lambda handle: kind(handle, row["subscription_id"], chosen))
        except BrokerError as refused:
            if refused.code in _GONE:
                return 0
            raise CisRefused(self.code, error_code=str(refused.code.value), error_text=refused.text) from refused
        return len(wanted)


async def tell_held(broker: AsyncBroker) -> None:
    """Log how much is held since the store was restored, where anything is."""
    page = await broker.look(held_counts)
    uows, publications = page.rows[0]["uows"], page.rows[0]["publications"]
    if uows or publications:
        said = event("held", uows=uows, publications=publications)
        text = "held since the store was restored, until RELEASE or DISCARD: units of work %d, publications %d"
        _log.warning(text, uows, publications, extra=said)


def _between(order: Order) -> Between:
    """Return the times between which something must have been committed. CisRefused for what is no age."""
    now = time.time_ns() // 1000
    try:
        before = now - duration(order.older) if order.older else None
        after = now - duration(order.newer) if order.newer else None
    except ValueError as wrong:
        raise CisRefused(Cis.INVALID_SELECTOR, f"older and newer are ages: {wrong}") from None
    return Between(after=after, before=before)
