"""What is held since the store was restored, as an operator's command is about it: found first, then released.

Everything that fits is found, whatever its number, and told in the order of the commits: released in that order, a
receiver that is waiting gets the oldest first.
"""

from collections.abc import Callable
from dataclasses import dataclass

from oms_journal.broker.admin.questions import STEP_LOOKS, Page, PageSteps, Query, Row
from oms_journal.broker.admin.uows import UnitFilter, records_of
from oms_journal.broker.block import SERVICE_FIELDS
from oms_journal.broker.kernel.state.topics import TopicSubscription
from oms_journal.broker.kernel.state.unit_records import service_of_record
from oms_journal.broker.kernel.state.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPeriod:
    """From when to when something was committed, microseconds since 1970 UTC; None: from whenever, until whenever."""

    after: int | None = None
    before: int | None = None

    @property
    def is_everything(self) -> bool:
        return self.after is None and self.before is None

    def __call__(self, committed: int) -> bool:
        return (self.after is None or committed > self.after) and (self.before is None or committed < self.before)


def held_counts(world: World) -> PageSteps:
    """Return how much is held: `uows`, and `publications` for each subscription."""
    yield
    return Page(rows=[{"uows": world.withheld.unit_count, "publications": world.withheld.publications}], total=1)


def held_uows(world: World, question: Query, between: CommitPeriod) -> PageSteps:
    """Return the held units of work that fit: `uowid` and the service, the oldest first. The limit does not count."""
    chosen = UnitFilter(world, question)
    found: list[tuple[int, Row]] = []
    for part in records_of(world, chosen, question, ""):
        for record, _ in part:
            if chosen(record) and between(record.committed):
                names = dict(zip(SERVICE_FIELDS, service_of_record(record), strict=True))
                found.append((record.first, {"uowid": record.uowid, **names}))
        yield
    found.sort(key=lambda each: each[0])
    return Page(rows=[row for _, row in found], total=len(found))


def held_publications(world: World, question: Query, between: CommitPeriod) -> PageSteps:
    """Return the subscriptions that fit for which anything is held, each with the publications that fit."""
    is_wanted = _subscriptions(question)
    rows: list[Row] = []
    for at, subscription in enumerate(list(world.topics.subscriptions.values())):
        if not (at + 1) % STEP_LOOKS:
            yield
        window, publications = subscription.window, subscription.topic.publications
        if window is None or not is_wanted(subscription):
            continue
        held = [publications[order] for order in window.withheld(publications)]
        ids = [each.publication_id for each in held if between(each.committed)]
        if ids:
            row = {"topic": subscription.topic.name, "subscription_id": subscription.subscription_id}
            rows.append({**row, "publication_ids": ids, "is_all": len(ids) == len(held)})
    return Page(rows=rows, total=len(rows))


def _subscriptions(question: Query) -> Callable[[TopicSubscription], bool]:
    is_topic, is_user, is_token = (question.fits(name) for name in ("topic", "user_id", "token"))
    return lambda one: is_topic(one.topic.name) and is_user(one.owner.user) and is_token(one.owner.token)
