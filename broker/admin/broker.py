"""The broker as a whole, as rows: what it is and holds (BROKER), what it has done (STATISTICS), its times and files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oms_journal.broker.admin.questions import Page, Query, Row, page_of, run_steps, seconds_of, time_of
from oms_journal.broker.kernel.state.service import End
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """The broker. Times are seconds, sizes bytes; None is unlimited, or nothing said.

    `statuses` are kept of complete units of work; `kept_bytes` are messages in memory that the store has as well;
    `held_uows` and `held_publications`, counted for each subscription, are held since `held_since`, when the store was
    started that was restored from a backup; `pseudo_clock` is how long the broker has been active in all; `refusal`
    says why nobody can call at the moment.
    """

    broker_id: str
    version: str
    run_mode: str
    started: str | None
    uptime: float
    store_type: str | None
    pstore: str
    store_connected: bool
    new_uow_messages: bool
    free_bytes: int | None
    min_free_space: int
    active_uows: int
    statuses: int
    conversations: int
    participants: int
    services: int
    servers: int
    topics: int
    subscribers: int
    publications: int
    held_uows: int
    held_publications: int
    held_since: str | None
    calls_waiting: int
    commits_pending: int
    kept_bytes: int
    pseudo_clock: float
    store: str
    uwtime: float | None
    uwstatp: int
    deferred: bool
    max_uows: int | None
    max_messages_in_uow: int
    max_uow_message_length: int
    max_delivery_count: int | None
    client_nonact: float | None
    server_nonact: float | None
    conv_nonact: float | None
    control_interval: float | None
    max_takeover_attempts: int | None
    partner_cluster_address: str | None
    partner: str
    attribute_file: str
    refusal: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsRow:
    """What the broker has done since its start. A group is one write and one sync for all its commits."""

    calls: int
    commits: int
    groups: int
    commit_seconds: float
    refusals: Mapping[str, int]
    accepted: int
    processed: int
    cancelled: int
    timed_out: int
    given_back: int
    published: int
    publications_ended: int


def broker_row(world: World, around: ServerFacts) -> BrokerRow:
    """Return the broker's row."""
    said = world.attributes.broker
    return BrokerRow(
        broker_id=said.broker_id,
        version=around.version,
        run_mode=around.run_mode,
        started=time_of(around.started),
        uptime=(around.now - around.started) / 1_000_000,
        store_type=around.store_type,
        pstore=said.pstore,
        store_connected=world.is_store_up,
        new_uow_messages=not world.is_new_forbidden,
        free_bytes=around.free_bytes,
        min_free_space=around.min_free_space,
        active_uows=world.active_count,
        statuses=len(world.units) - sum(count.units for count in world.units.counts().values()),
        conversations=world.talk_count,
        participants=len(world.participants),
        services=len(world.services),
        servers=sum(len(service.servers) for service in world.services.values()),
        topics=len(world.topics.topics),
        subscribers=len(world.topics.subscriptions),
        publications=len(world.topics.publications),
        held_uows=world.withheld.unit_count,
        held_publications=world.withheld.publications,
        held_since=time_of(world.withheld.record.since),
        calls_waiting=len(world.parking),
        commits_pending=len(world.pending),
        kept_bytes=world.kept_bytes,
        pseudo_clock=world.clocks.persistent / 1_000_000,
        store=said.store.name,
        uwtime=seconds_of(said.uwtime),
        uwstatp=said.uwstatp,
        deferred=said.deferred,
        max_uows=said.max_uows,
        max_messages_in_uow=said.max_messages_in_uow,
        max_uow_message_length=said.max_uow_message_length,
        max_delivery_count=said.max_delivery_count,
        client_nonact=seconds_of(said.client_nonact),
        server_nonact=seconds_of(said.server_nonact),
        conv_nonact=seconds_of(said.conv_nonact),
        control_interval=seconds_of(said.control_interval),
        max_takeover_attempts=said.max_takeover_attempts,
        partner_cluster_address=said.partner_cluster_address,
        partner=around.partner,
        attribute_file=world.attributes.file,
        refusal=around.refusal,
    )


def statistics_row(world: World, around: ServerFacts) -> StatisticsRow:
    """Return the row of what was counted."""
    services, topics = list(world.services.values()), list(world.topics.topics.values())
    latencies = around.latencies
    gone, gone_topics = world.unused.service_sums, world.unused.topic_sums  # of names that are forgotten
    completed = [sum(service.completed[end] for service in services) for end in End]
    return StatisticsRow(
        calls=around.calls,
        commits=latencies.commits,
        groups=latencies.groups,
        commit_seconds=latencies.seconds,
        refusals={str(code.value): count for code, count in sorted(world.refusals.items(), key=str)},
        accepted=gone["accepted"] + sum(service.accepted for service in services),
        processed=gone["processed"] + completed[End.PROCESSED],
        cancelled=gone["cancelled"] + completed[End.CANCELLED],
        timed_out=gone["timed_out"] + completed[End.TIMED_OUT],
        given_back=gone["given_back"] + sum(service.given_back for service in services),
        published=gone_topics["published"] + sum(topic.published for topic in topics),
        publications_ended=gone_topics["ended"] + sum(topic.ended for topic in topics),
    )


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
