"""The broker as a whole, as rows: what it is and holds (BROKER), what it has done (STATISTICS), its times and files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oms_journal.broker.admin.questions import (
    Columns,
    Page,
    Query,
    Row,
    page_of,
    row_of,
    run_steps,
    seconds_of,
    time_of,
)
from oms_journal.broker.attributes.attributes import BrokerAttributes
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.store.latencies import Latencies
from oms_journal.broker.store.stored import FileRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What is known of the broker outside of its kernel."""

    version: str
    run_mode: str
    started: int  # microseconds since 1970 UTC
    now: int
    partner: str
    store_type: str | None
    free_bytes: int | None
    min_free_space: int
    refusal: str | None
    calls: int
    latencies: Latencies


class BrokerFacts(NamedTuple):
    """What the row of the broker is read from."""

    world: World
    around: ServerFacts
    said: BrokerAttributes


# The broker. Times are seconds, sizes bytes; None is unlimited, or nothing said.
#
# `statuses` are kept of complete units of work; `kept_bytes` are messages in memory that the store has as well;
# `held_uows` and `held_publications`, counted for each subscription, are held since `held_since`, when the store was
# started that was restored from a backup; `pseudo_clock` is how long the broker has been active in all; `refusal`
# says why nobody can call at the moment.
BROKER_COLUMNS: Columns[BrokerFacts] = {
    "broker_id": lambda at: at.said.broker_id,
    "version": lambda at: at.around.version,
    "run_mode": lambda at: at.around.run_mode,
    "started": lambda at: time_of(at.around.started),
    "uptime": lambda at: (at.around.now - at.around.started) / 1_000_000,
    "store_type": lambda at: at.around.store_type,
    "pstore": lambda at: at.said.pstore,
    "store_connected": lambda at: at.world.is_store_up,
    "new_uow_messages": lambda at: not at.world.is_new_forbidden,
    "free_bytes": lambda at: at.around.free_bytes,
    "min_free_space": lambda at: at.around.min_free_space,
    "active_uows": lambda at: at.world.active_count,
    "statuses": lambda at: len(at.world.units) - sum(count.units for count in at.world.units.counts().values()),
    "conversations": lambda at: at.world.talk_count,
    "participants": lambda at: len(at.world.participants),
    "services": lambda at: len(at.world.services),
    "servers": lambda at: sum(len(service.servers) for service in at.world.services.values()),
    "topics": lambda at: len(at.world.topics.topics),
    "subscribers": lambda at: len(at.world.topics.subscriptions),
    "publications": lambda at: len(at.world.topics.publications),
    "held_uows": lambda at: at.world.withheld.unit_count,
    "held_publications": lambda at: at.world.withheld.publications,
    "held_since": lambda at: time_of(at.world.withheld.record.since),
    "calls_waiting": lambda at: len(at.world.parking),
    "commits_pending": lambda at: len(at.world.pending),
    "kept_bytes": lambda at: at.world.kept_bytes,
    "pseudo_clock": lambda at: at.world.clocks.persistent / 1_000_000,
    "store": lambda at: at.said.store.name,
    "uwtime": lambda at: seconds_of(at.said.uwtime),
    "uwstatp": lambda at: at.said.uwstatp,
    "deferred": lambda at: at.said.deferred,
    "max_uows": lambda at: at.said.max_uows,
    "max_messages_in_uow": lambda at: at.said.max_messages_in_uow,
    "max_uow_message_length": lambda at: at.said.max_uow_message_length,
    "max_delivery_count": lambda at: at.said.max_delivery_count,
    "client_nonact": lambda at: seconds_of(at.said.client_nonact),
    "server_nonact": lambda at: seconds_of(at.said.server_nonact),
    "conv_nonact": lambda at: seconds_of(at.said.conv_nonact),
    "control_interval": lambda at: seconds_of(at.said.control_interval),
    "max_takeover_attempts": lambda at: at.said.max_takeover_attempts,
    "partner_cluster_address": lambda at: at.said.partner_cluster_address,
    "partner": lambda at: at.around.partner,
    "attribute_file": lambda at: at.world.attributes.file,
    "refusal": lambda at: at.around.refusal,
}


class StatisticsFacts(NamedTuple):
    """What the row of statistics is read from; names that are forgotten are counted in."""

    world: World
    around: ServerFacts
    services: Mapping[str, int]
    topics: Mapping[str, int]


# What the broker has done since its start. A group is one write and one sync for all its commits.
STATISTICS_COLUMNS: Columns[StatisticsFacts] = {
    "calls": lambda at: at.around.calls,
    "commits": lambda at: at.around.latencies.commits,
    "groups": lambda at: at.around.latencies.groups,
    "commit_seconds": lambda at: at.around.latencies.seconds,
    "refusals": lambda at: {str(code.value): count for code, count in sorted(at.world.refusals.items(), key=str)},
    "accepted": lambda at: at.services["accepted"],
    "processed": lambda at: at.services["processed"],
    "cancelled": lambda at: at.services["cancelled"],
    "timed_out": lambda at: at.services["timed_out"],
    "given_back": lambda at: at.services["given_back"],
    "published": lambda at: at.topics["published"],
    "publications_ended": lambda at: at.topics["ended"],
}


def broker_row(world: World, around: ServerFacts) -> Row:
    """Return the broker's row."""
    return row_of(BROKER_COLUMNS, BrokerFacts(world, around, world.attributes.broker))


def statistics_row(world: World, around: ServerFacts) -> Row:
    """Return the row of what was counted."""
    services, topics = dict(world.unused.service_sums), dict(world.unused.topic_sums)
    for service in world.services.values():
        service.add_to(services)
    for topic in world.topics.topics.values():
        topic.add_to(topics)
    return row_of(STATISTICS_COLUMNS, StatisticsFacts(world, around, services, topics))


def latency(latencies: Latencies) -> Page:
    """Return how many groups of commits took how long, seconds; the last bucket has no end."""
    rows: list[Row] = [{"from": each.from_, "to": each.to, "count": each.count} for each in latencies.buckets()]
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
    summary = {
        "count": latencies.groups,
        "commits": latencies.commits,
        "seconds": latencies.seconds,
        **{name: latencies.percentile(share) for name, share in shares.items()},
        "longest": latencies.longest if latencies.groups else None,
    }
    return Page(rows=rows, total=len(rows), summary=summary)


def files(found: Sequence[FileRow], place: str, free_bytes: int | None) -> Page:
    """Return the store's data files, oldest first."""
    summary = {
        "directory": place,
        "bytes": sum(each["bytes"] for each in found),
        "live_bytes": sum(each["live_bytes"] for each in found),
        "free_bytes": free_bytes,
        "files": len(found),
    }
    return Page(rows=found, total=len(found), summary=summary)


def sliced(page: Page, question: Query) -> Page:
    """Return the part of a page that is asked for, by the places of its rows."""
    steps = page_of(question, range(len(page.rows)), lambda at: page.rows[at], total=page.total)
    part = run_steps(steps)
    return Page(rows=part.rows, total=part.total, next=part.next, summary=page.summary)
