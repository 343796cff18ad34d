"""The page's sections on a broker: units of work, what was tried in vain, conversations, topics."""

from collections.abc import Callable

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html, name, tag
from oms_journal.analysis.report.drawing.measures import COUNTS, RATES
from oms_journal.analysis.report.drawing.plots import Chart, legend, lines, stack
from oms_journal.analysis.report.sections.listing import (
    Column,
    count_column,
    duration_column,
    listing,
    name_column,
    size_column,
    text_column,
    time_column,
)
from oms_journal.analysis.report.sections.section import framed_section
from oms_journal.analysis.report.sections.verdicts import Verdict
from oms_journal.analysis.report.values.answers import Row
from oms_journal.analysis.report.values.broker_answers import Broker, Topics, Units

BAR = (  # of a service: what it is called, its colour, the columns that it counts
    ("processed", "c2", ("processed",)),
    ("not complete", "c0", ("waiting", "uncommitted")),
    ("ended otherwise", "c1", ("failed",)),
)
_HINT = "without a persistent status REMOVED: cancelled or timed out; GONE: erased with the store, or purged"


def broker_section(verdict: Verdict, broker: Broker) -> Html:
    """Return one section of the page."""
    return framed_section(verdict, _PARTS[verdict.question.anchor](broker))


def _units_parts(broker: Broker) -> list[Html]:
    """Return who the broker is, the drawings, and the tables of services and statuses."""
    units = broker.units
    if not units.units:
        return [*_who(broker)]
    columns = (
        name_column("Service", "label", "CLASS/SERVER/SERVICE, with /reply for its answers to clients"),
        Column("What became of them", _bar, lambda row: _part(row, "processed"), is_wide=True),
        count_column("Units", "units"),
        count_column("Wait", "waiting", "committed by their sender, and not complete"),
        duration_column("Oldest waits", "oldest_age_seconds", "since its sender's commit"),
        count_column("Processed", "processed", "committed by their receiver"),
        count_column("Otherwise", "failed", "backed out, cancelled, timed out, discarded, erased"),
        duration_column("p50", "p50_seconds", "half took at most this from their sender's commit to their receiver's"),
        duration_column("p99", "p99_seconds", "99 of 100"),
    )
    keys = [(label, colour) for label, colour, _ in BAR]
    return [
        *_who(broker),
        *_drawings(broker),
        legend(keys),
        listing("Services, those in which most waits first", columns, units.services, table="uow_services"),
        tag("p", _of_statuses(units), class_="quiet"),
        _statuses(units),
    ]


def _who(broker: Broker) -> list[Html]:
    """Return in words which broker wrote this, how often it was started, and what of its records cannot be read."""
    told = [tag("p", *_starts(row), class_="quiet") for row in broker.starts]
    if broker.unreadable:
        bad = wording.counted(
            broker.unreadable, "value under a key of the broker is", "values under keys of the broker are"
        )
        newer = f", {broker.newer:,} of them of a newer version of the broker" if broker.newer else ""
        told.append(
            tag("p", f"{bad} damaged or no record of the broker{newer}, and left out here.", class_="answer bad")
        )
    return told


def _starts(row: Row) -> list[str]:
    counts = [
        wording.counted(row[mark], what)
        for mark, what in (("ETBC", "cold start"), ("ETBH", "hot start"), ("ETBT", "termination"))
        if row[mark]
    ]
    last = f"the last one a {row['last']['what']} on {wording.moment(row['last']['time'])}"
    return ["Broker ", name(row["broker_id"]), f": {wording.listed(counts)}; {last}."]


def _drawings(broker: Broker) -> list[Html]:
    def chart(title: str, unit: str, rates: bool) -> Chart:
        return Chart(
            title=title,
            unit=unit,
            buckets=broker.buckets,
            series=broker.units.rates if rates else broker.units.waits,
            measure=RATES if rates else COUNTS,
        )

    drawn = []
    if broker.units.waits:
        drawn.append(stack(chart("Units of work that wait", "at the end of each interval", rates=False)))
    if broker.units.rates:
        drawn.append(lines(chart("Units of work", "a second", rates=True)))
    return [tag("div", *drawn, class_="figures")] if drawn else []


def _part(row: Row, *names: str) -> float:
    return sum(row[each] for each in names) / row["units"] if row["units"] else 0.0


def _bar(row: Row) -> Html:
    shares = [(label, colour, _part(row, *names)) for label, colour, names in BAR]
    pieces = (tag("span", class_=colour, style=f"width:{part:.2%}") for _, colour, part in shares if part)
    said = ", ".join(f"{wording.share(part, 1)} {label}" for label, _, part in shares if part)
    return tag("div", *pieces, class_="bar", role="img", aria_label=said, title=said)


def _of_statuses(units: Units) -> str:
    """Say where the time in each status is known."""
    if not units.with_status:
        known = "No unit of work here has a persistent status, so it is not known how long they stayed in each."
    else:
        some = f"{units.with_status:,} of {units.units:,} units of work have"
        which = "All units of work have" if units.with_status == units.units else some
        known = f"{which} a persistent status: of these it is known how long they stayed in each."
    return (
        f"{known} Without one, a unit of work that a receiver has is still ACCEPTED, and one that its sender has "
        "backed out left no trace."
    )


def _statuses(units: Units) -> Html:
    columns = (
        name_column("Service", "label"),
        text_column("Status", "status", _HINT),
        count_column("Units", "units", "that are in it, or ended so"),
        time_column("Changed from", "first_changed", "when the first of them came to it"),
        time_column("To", "last_changed"),
        count_column("Stays", "stays", "how often one with persistent status came into it and left it again"),
        duration_column("p50", "p50_seconds", "half of the stays were at most so long"),
        duration_column("p99", "p99_seconds", "99 of 100"),
        duration_column("Longest", "max_seconds"),
    )
    return listing("Statuses, by service", columns, units.statuses, table="uow_statuses")


def _failed_parts(broker: Broker) -> list[Html]:
    """Return the tables of attempts, and of what ended and was not processed."""
    failures = broker.failures
    tried = (
        name_column("Service", "label"),
        Column(
            "In vain", lambda row: f"{row['attempts']:,}", lambda row: row["attempts"], "deliveries", is_number=True
        ),
        count_column("Units", "units", "with so many"),
        count_column("Processed", "processed", "after all"),
        count_column("Wait", "waiting"),
        count_column("Otherwise", "failed"),
        count_column("Put off", "postpones", "how often, all together"),
    )
    ended = (
        text_column("Unit of work", "uowid"),
        name_column("Service", "label"),
        text_column("Status", "status", _HINT),
        name_column("Sender", "sender"),
        count_column("In vain", "attempts", "deliveries that were attempted"),
        duration_column("After", "seconds_to_end", "its sender's commit"),
        time_column("Ended", "ended"),
        name_column("User status", "user_status"),
    )
    return [
        listing("Deliveries in vain, the most first", tried, failures.tried, table="uow_attempts"),
        listing("Not processed, the last first", ended, failures.ranked, table="uow_failures"),
    ]


def _talks_parts(broker: Broker) -> list[Html]:
    """Return the tables of conversations."""
    talks = broker.talks
    services = (
        name_column("Service", "label"),
        count_column("Conversations", "conversations"),
        count_column("Open", "open", "something waits in them"),
        count_column("Answered", "answered", "the service has answered in them"),
        count_column("Ended", "ended", "by one side, as a unit of work of theirs says"),
        Column(
            "Units in one", lambda row: wording.number(row["units_mean"]), lambda row: row["units_mean"], is_number=True
        ),
        count_column("At most", "units_max"),
        duration_column("p50", "p50_seconds", "half of those that are not open took at most this"),
        duration_column("p99", "p99_seconds", "99 of 100"),
        duration_column("Longest", "max_seconds"),
    )
    open_ones = (
        text_column("Conversation", "conv_id"),
        name_column("Service", "label"),
        name_column("Client", "client"),
        name_column("Server", "server", "the instance that has committed something of it"),
        duration_column("Began", "age_seconds", "ago"),
        count_column("Wait", "wait", "units of work"),
        count_column("Units", "units"),
        count_column("Replies", "replies"),
        count_column("In vain", "attempts", "deliveries"),
        text_column("State", "state"),
    )
    return [
        listing(
            "Services, those with most open conversations first",
            services,
            talks.services,
            table="conversation_services",
        ),
        listing("Open conversations, the oldest first", open_ones, talks.ranked, table="conversations"),
    ]


def _topics_parts(broker: Broker) -> list[Html]:
    """Return the tables of subscribers and topics."""
    topics = broker.topics
    assert topics is not None, "there is such a section only where there are topics"
    return [_subscribers(topics), _topics(topics)]


def _subscribers(topics: Topics) -> Html:
    columns = (
        name_column("Subscriber", "reader", "USER-ID, and TOKEN where there is one"),
        name_column("Topic", "label"),
        count_column("Behind", "lag_publications", "publications to acknowledge"),
        size_column("Bytes", "lag_bytes"),
        Column(
            "For",
            lambda row: wording.duration(row["lag_seconds"]) if row["lag_publications"] else "",
            lambda row: row["lag_seconds"],
            "since the commit of the oldest of them",
            is_number=True,
        ),
        count_column("Acknowledged", "acknowledgements", "commits of the subscriber that the journal tells of"),
        duration_column("Silent for", "idle_seconds"),
        time_column("Subscribed", "subscribed"),
    )
    return listing(
        "Durable subscribers, those that are behind the longest first", columns, topics.ranked, table="subscribers"
    )


def _topics(topics: Topics) -> Html:
    columns = (
        name_column("Topic", "label"),
        count_column("Publications", "publications", "that were stored: somebody subscribed to the topic"),
        count_column("Wait", "waiting", "for a subscriber"),
        size_column("Bytes that wait", "waiting_bytes"),
        count_column("All have it", "processed"),
        count_column("Timed out", "timed_out"),
        count_column("Subscribers", "subscribers", "durable ones"),
        count_column("Behind", "subscribers_behind"),
        duration_column("p50", "p50_seconds", "half had every acknowledgement within this time of their commit"),
        duration_column("p99", "p99_seconds", "99 of 100"),
        duration_column("Oldest waits", "oldest_age_seconds"),
    )
    return listing("Topics, those in which most waits first", columns, topics.topics, table="topics")


_PARTS: dict[str, Callable[[Broker], list[Html]]] = {
    "units": _units_parts,
    "failed": _failed_parts,
    "talks": _talks_parts,
    "topics": _topics_parts,
}
