"""`GET /metrics` for Prometheus, `/healthz` and `/readyz` for who starts, stops and routes to the server.

The text format of Prometheus: families of samples, each with its help and type. Pure.

Names are `oms_…` in base units, counters end in `_total`, as that field has it. (Prometheus, "Exposition formats" and
"Metric and label naming".)
"""

import time
from collections.abc import Iterable, Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.admin.figures import Figures
from oms_journal.broker.admin.questions import Query, Row
from oms_journal.broker.admin.subjects import SUBJECTS
from oms_journal.broker.block import SERVICE_FIELDS
from oms_journal.broker.rights import BROKER, Right
from oms_journal.broker.server.admin.administration import Administration
from oms_journal.broker.server.admin.resources import files_max, memory_bytes, open_files, transports
from oms_journal.broker.server.http.operator_routes import administration_of, identity_of
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.broker.store.latencies import BOUNDS, Latencies
from oms_journal.database.stats import SyncStats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]
_NONE: Labels = {}


class Exposition:
    """A page of metrics, as it grows."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def gauge(self, name: str, says: str, value: float | None, labels: Labels = _NONE) -> None:
        """Add a family of one sample; nothing where there is no value."""
        if value is not None:
            self.gauges(name, says, [(labels, value)])

    def gauges(self, name: str, says: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._family(name, "gauge", says, samples)

    def counter(self, name: str, says: str, value: float) -> None:
        """Add a counter; its name ends in `_total`."""
        self.counters(name, says, [(_NONE, value)])

    def counters(self, name: str, says: str, samples: Iterable[tuple[Labels, float]]) -> None:
        assert name.endswith("_total"), "counters are named so"
        self._family(name, "counter", says, samples)

    def histogram(self, name: str, says: str, counts: Iterable[tuple[float, int]], total: tuple[int, float]) -> None:
        """Add a histogram of counts up to each bound, all of them cumulative, and the count and sum of everything."""
        count, seconds = total
        self._head(name, "histogram", says)
        for bound, below in counts:
            self._sample(f"{name}_bucket", {"le": _number(bound)}, below)
        self._sample(f"{name}_bucket", {"le": "+Inf"}, count)
        self._sample(f"{name}_sum", _NONE, seconds)
        self._sample(f"{name}_count", _NONE, count)

    def text(self) -> str:
        return "\n".join([*self._lines, ""])

    def _family(self, name: str, kind: str, says: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._head(name, kind, says)
        for labels, value in samples:
            self._sample(name, labels, value)

    def _head(self, name: str, kind: str, says: str) -> None:
        self._lines.append(f"# HELP {name} {_escaped(says)}")
        self._lines.append(f"# TYPE {name} {kind}")

    def _sample(self, name: str, labels: Labels, value: float) -> None:
        shown = ",".join(f'{key}="{_quoted(text)}"' for key, text in labels.items())
        self._lines.append(f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}")


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


OTHERS = "(others)"  # the label of all services and topics that are not told by name
_GAUGES = {
    "oms_uows_active": ("active_uows", "Units of work that are not complete."),
    "oms_uow_statuses": ("statuses", "Statuses that are kept of complete units of work."),
    "oms_uows_held": ("held_uows", "Units of work that are held since the store was restored from a backup."),
    "oms_publications_held": ("held_publications", "Publications, for each subscription that they are held for."),
    "oms_conversations": ("conversations", "Conversations."),
    "oms_participants": ("participants", "Participants that are logged on or have called."),
    "oms_servers": ("servers", "Registrations of servers for services."),
    "oms_publications": ("publications", "Publications that somebody has not acknowledged."),
    "oms_subscribers": ("subscribers", "Subscriptions."),
    "oms_calls_waiting": ("calls_waiting", "Calls that wait for something to receive."),
    "oms_commits_pending": ("commits_pending", "Commits on their way to the store."),
    "oms_messages_kept_bytes": ("kept_bytes", "Messages in memory that the store has as well."),
    "oms_store_free_bytes": ("free_bytes", "Free space of the store's device."),
}


def metric_routes() -> list[Route]:
    """Return the routes of metrics, health and readiness."""
    return [
        Route("/metrics", metrics, methods=["GET"]),
        Route("/healthz", health, methods=["GET"]),
        Route("/readyz", readiness, methods=["GET"]),
    ]


async def health(_: Request) -> Response:
    """Say that the server is there: the loop that answers this is the one that everything runs on."""
    return JSONResponse({"status": "ok"})


async def readiness(request: Request) -> Response:
    """Say whether units of work can be sent and received here; 503 and why not where they cannot."""
    served: ServerState = request.app.state.served
    why = await _why_not(served, administration_of(request))
    status = {"status": "not ready" if why else "ready", "run_mode": served.run_mode, "reasons": why}
    status["warnings"] = [each for each in served.attributes.warnings() if each not in why]
    return JSONResponse(status, 503 if why else 200)


async def _why_not(served: ServerState, administration: Administration) -> list[str]:
    row = await administration.broker()
    if row is None:
        return [str(served.refusal)]
    found = []
    if row["pstore"] != "NO" and not row["store_connected"]:
        found.append("the persistent store is not available")
    if administration.is_store_full:
        found.append("the persistent store is full: let units of work be received, or free space on its file system")
    elif row["free_bytes"] is not None and row["free_bytes"] < row["min_free_space"]:
        found.append(f"{row['free_bytes']:,} bytes are free for the persistent store, less than MIN-FREE-SPACE")
    if served.attributes.refuses_units:
        found.append(served.attributes.refuses_units)
    if not row["new_uow_messages"]:
        found.append("new units of work are not allowed; ALLOW-NEWUOWMSGS allows them")
    return found


async def metrics(request: Request) -> Response:
    """Answer the metrics, in the text format."""
    identity = identity_of(request)
    if not identity.may(Right.LOOK, BROKER):
        return JSONResponse({"status": 403, "error": f"{identity.user} may not look at the broker"}, 403)
    served: ServerState = request.app.state.served
    administration = administration_of(request)
    page = Exposition()
    _machine(page, served)
    row = await administration.broker()
    page.gauge("oms_broker_active", "Whether a broker serves here; 0 for a standby.", int(row is not None))
    if row is not None:
        await _broker(page, administration, row)
    return PlainTextResponse(page.text(), media_type=CONTENT_TYPE)


def _machine(page: Exposition, served: ServerState) -> None:
    said = served.attributes.broker
    page.gauge("oms_run_mode", "The mode that the server runs in.", 1, {"mode": served.run_mode})
    page.gauge("oms_broker_info", "Who the broker is.", 1, {"broker_id": said.broker_id})
    page.gauge("process_start_time_seconds", "When the server was started, since 1970.", served.started)
    page.gauge("process_resident_memory_bytes", "Memory of the process.", memory_bytes())
    page.gauge("process_open_fds", "Files that the process has open.", open_files())
    page.gauge("process_max_fds", "Files that it may have open.", files_max())
    page.counter("process_cpu_seconds_total", "Time that its processors have worked.", time.process_time())
    listeners = [each for each in transports(served) if each["connections"] is not None]
    page.gauges(
        "oms_connections",
        "Connections.",
        [({"listener": each["name"]}, each["connections"] or 0) for each in listeners],
    )
    page.gauges(
        "oms_connections_max",
        "Connections that are allowed.",
        [({"listener": each["name"]}, each["limit"]) for each in listeners if each["limit"] is not None],
    )


async def _broker(page: Exposition, administration: Administration, row: Row) -> None:
    meters = Figures()
    try:
        await administration.look(meters.read)
        (counted,) = (await administration.rows("STATISTICS")).rows
        stored = await _stored(administration)
    except CisRefused:
        return  # the broker is being stopped
    for name, (column, says) in _GAUGES.items():
        page.gauge(name, says, row[column])
    page.gauge("oms_store_connected", "Whether the store can be written.", int(row["store_connected"]))
    page.gauge("oms_new_uow_messages_allowed", "Whether new units of work are taken.", int(row["new_uow_messages"]))
    page.gauge("oms_uow_oldest_waiting_seconds", "Age of the oldest that waits for a server.", meters.oldest_age)
    page.counter("oms_calls_total", "Calls.", counted["calls"])
    refusals: Mapping[str, int] = counted["refusals"]
    page.counters(
        "oms_calls_refused_total", "Calls that were refused.", [({"code": code}, n) for code, n in refusals.items()]
    )
    page.counter("oms_commits_total", "Commits of the store.", counted["commits"])
    _latencies(page, administration.latencies)
    _services(page, meters)
    _topics(page, meters)
    if stored is not None:
        page.gauge("oms_store_files", "Data files.", stored["files"])
        page.gauge("oms_store_bytes", "Bytes of all data files.", stored["bytes"])
        page.gauge("oms_store_live_bytes", "Of these, what is needed.", stored["live_bytes"])
    if (syncs := administration.syncs) is not None:
        _syncs(page, syncs)


async def _stored(administration: Administration) -> Mapping[str, int] | None:
    try:
        return (await administration.page(SUBJECTS["FILES"], Query(limit=1))).summary
    except CisRefused as refused:
        if refused.code is CommandCode.WRONG_RUN_MODE:
            raise
        return None


def _latencies(page: Exposition, latencies: Latencies) -> None:
    """Add the commit times; every second bucket is enough for monitoring."""
    counts, below = [], 0
    for at, bound in enumerate(BOUNDS):
        below += latencies.counts[at]
        if at % 2 == 0:
            counts.append((bound, below))
    total = (sum(latencies.counts), latencies.seconds)
    page.histogram("oms_commit_group_seconds", "Time of a group of commits: one write and one sync.", counts, total)


def _syncs(page: Exposition, syncs: SyncStats) -> None:
    """Add how long commits have waited for the disk; the same buckets each time, from 32 microseconds to 2 minutes."""
    bounds = [(1 << bits) / 1e6 for bits in range(5, 28)]
    counts = [(bound, sum(each.count for each in syncs.buckets if each.seconds <= bound)) for bound in bounds]
    total = (syncs.count, syncs.seconds)
    page.histogram("oms_store_sync_seconds", "Time that a group of commits has waited for the disk.", counts, total)
    page.counter("oms_store_slow_syncs_total", "Of these, those that were logged as slow.", syncs.slow)


def _services(page: Exposition, meters: Figures) -> None:
    rows = [(dict(zip(SERVICE_FIELDS, _names(row), strict=True)), row) for row in meters.services]
    others, label = meters.other_services, dict.fromkeys(SERVICE_FIELDS, OTHERS)

    def of(column: str, extra: Mapping[str, str] | None = None) -> Iterable[tuple[dict[str, str], float]]:
        found = [({**labels, **(extra or {})}, row[column]) for labels, row in rows]
        return [*found, ({**label, **(extra or {})}, others[column])] if others else found

    states = [sample for state in ("waiting", "sending", "delivering") for sample in of(state, {"state": state})]
    ends = [sample for end in ("processed", "cancelled", "timed_out") for sample in of(end, {"end": end})]
    page.gauges("oms_service_uows", "Active units of work of a service.", states)
    page.gauges("oms_service_servers", "Servers of a service.", of("servers"))
    page.gauges("oms_service_conversations", "Conversations of a service.", of("conversations"))
    page.gauges(
        "oms_service_oldest_waiting_seconds",
        "Age of the oldest unit of work that waits for a server.",
        [(labels, row["oldest_age"] or 0.0) for labels, row in rows],
    )
    page.counters("oms_service_uows_accepted_total", "Units of work committed by their senders.", of("accepted"))
    page.counters("oms_service_uows_completed_total", "Units of work that came to an end.", ends)
    page.counters("oms_service_uows_given_back_total", "Units of work given back by receivers.", of("given_back"))


def _names(row: Row) -> tuple[str, str, str]:
    return (row["server_class"], row["server_name"], row["service"])


def _topics(page: Exposition, meters: Figures) -> None:
    rows, others = meters.topics, meters.other_topics

    def of(column: str) -> Iterable[tuple[dict[str, str], float]]:
        found = [({"topic": row["topic"]}, row[column]) for row in rows]
        return [*found, ({"topic": OTHERS}, others[column])] if others else found

    page.gauges("oms_topic_publications", "Publications that somebody has not acknowledged.", of("publications"))
    page.gauges("oms_topic_subscribers", "Subscriptions of a topic.", of("subscribers"))
    page.gauges("oms_topic_largest_lag", "Publications that the slowest subscriber is behind.", _lags(rows))
    page.counters("oms_topic_published_total", "Publications that were committed.", of("published"))
    page.counters("oms_topic_ended_total", "Publications that everybody has, or that were over.", of("ended"))


def _lags(rows: Iterable[Row]) -> Iterable[tuple[dict[str, str], float]]:
    return [({"topic": row["topic"]}, row["largest_lag"]) for row in rows]
