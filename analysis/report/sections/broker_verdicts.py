"""What the page says of a broker in a sentence or two, made from the figures; the summary says the same."""

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.sections.verdicts import Name, Question, Verdict
from oms_journal.analysis.report.values.answers import Row
from oms_journal.analysis.report.values.broker_answers import Broker, Failures, Talks, Topics, Units
from oms_journal.analysis.report.wording import counted, duration, share, short_number

UNITS = Question("units", "What became of the units of work?", "Units of work")
FAILED = Question("failed", "What was tried in vain?", "Not processed")
TALKS = Question("talks", "Which conversations are open?", "Conversations")
TOPICS = Question("topics", "How far are the subscribers?", "Subscribers")

WORDS = {  # of what ended and was not processed
    "BACKEDOUT": "backed out",
    "CANCELLED": "cancelled",
    "TIMEOUT": "timed out",
    "DISCARDED": "discarded at a restart",
    "REMOVED": "cancelled or timed out, which of both is not told without a persistent status",
    "GONE": "erased with the store",
}


def broker_verdicts(broker: Broker | None) -> list[Verdict]:
    """Return the answers about a broker, in the order of the page; none where the journals are no broker's."""
    if broker is None:
        return []
    found = [_units(broker.units), _failed(broker.failures), _talks(broker.talks)]
    return found if broker.topics is None else [*found, _topics(broker.topics)]


def _units(units: Units) -> Verdict:
    if not units.units:
        return Verdict(UNITS, ["No unit of work has left a trace in the store."], "none")
    parts = [
        f"{share(units.processed, units.units)} of {counted(units.units, 'unit')} of work were processed",
        f"{units.waiting:,} {'waits' if units.waiting == 1 else 'wait'}" if units.waiting else "none waits",
    ]
    parts += [f"{units.failed:,} ended otherwise"] if units.failed else []
    parts += [f"{units.uncommitted:,} {_are(units.uncommitted)} not committed"] if units.uncommitted else []
    sentence = [f"{wording.listed(parts, len(parts))}. "]
    if units.slowest is not None:
        sentence += _slowest(units, units.slowest)
    value, tone = short_number(units.waiting) if units.waiting else "none", "" if units.waiting else "good"
    if units.oldest is None:
        return Verdict(UNITS, sentence, value, ("of them waits",), tone)
    age = duration(units.oldest["oldest_age_seconds"])
    sentence += [
        f"The oldest that waits was committed {age} ago: {units.oldest['oldest']} in ",
        _name(units.oldest),
        ".",
    ]
    return Verdict(UNITS, sentence, value, (f"wait; the oldest {age}, in ", _name(units.oldest)), tone)


def _slowest(units: Units, slowest: Row) -> list[str]:
    half, most = duration(slowest["p50_seconds"]), duration(slowest["p99_seconds"])
    if units.services.count == 1:
        return [
            f"Half of the processed ones took {half} from their sender's commit to their receiver's, 99 of 100 {most}. "
        ]
    told = f": half of its units of work took {half} from commit to commit, 99 of 100 {most}. "
    return ["The slowest service is ", _name(slowest), told]


def _name(row: Row) -> Name:
    return Name(row["label"])


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _failed(failures: Failures) -> Verdict:
    sentence: list[str] = []
    if failures.count:
        listed = [f"{count:,} {WORDS[status]}" for status, count in _by_count(failures)]
        ended = "unit of work ended and was not processed", "units of work ended and were not processed"
        sentence.append(f"{counted(failures.count, *ended)}: {wording.listed(listed, len(listed))}. ")
    if failures.attempts:
        vain = counted(failures.attempts, "delivery was attempted in vain", "deliveries were attempted in vain")
        again = counted(failures.tried_again, "unit of work was", "units of work were")
        done = share(failures.processed_again, failures.tried_again)
        sentence.append(
            f"{vain}, {failures.attempts_max:,} of one unit of work at the most; "
            f"{again} tried again, and {done} of these processed after all."
        )
    if not sentence:
        return Verdict(
            FAILED, ["Nothing: what has ended was processed, and at the first attempt."], "none", tone="good"
        )
    detail = f"and {counted(failures.attempts, 'delivery', 'deliveries')} in vain"
    tone = "warn" if failures.by_status.get("TIMEOUT") else ""
    return Verdict(FAILED, sentence, short_number(failures.count), (detail,), tone)


def _by_count(failures: Failures) -> list[tuple[str, int]]:
    return sorted(failures.by_status.items(), key=lambda each: (-each[1], each[0]))


def _talks(talks: Talks) -> Verdict:
    if not talks.conversations:
        return Verdict(TALKS, ["There are no conversations of units of work."], "none")
    all_of_them = counted(talks.conversations, "conversation")
    ends = [f"{talks.ended:,} {'was' if talks.ended == 1 else 'were'} ended by one side"] if talks.ended else []
    ends += [f"{talks.cancelled:,} of these cancelled"] if talks.cancelled else []
    told = f" Of {all_of_them} {', '.join(ends)}." if ends else ""
    if not talks.open or not talks.ranked.rows:
        return Verdict(
            TALKS, [f"None: in {all_of_them} nothing waits.", told], "none open", (f"of {all_of_them}",), "good"
        )
    oldest = talks.ranked.rows[0]
    age = duration(oldest["age_seconds"])
    begun = f"The oldest of them began {age} ago: {oldest['conv_id']} with "
    sentence = [f"In {talks.open:,} of {all_of_them} something waits. {begun}", _name(oldest), ".", told]
    return Verdict(TALKS, sentence, short_number(talks.open), (f"open, of {talks.conversations:,}",))


def _topics(topics: Topics) -> Verdict:
    stored = counted(topics.publications, "stored publication")
    late = counted(topics.timed_out, "publication", "publications")
    lost = f" {late} timed out before every subscriber had acknowledged." if topics.timed_out else ""
    tone = "warn" if topics.timed_out else ""
    if not topics.subscribers:
        return Verdict(TOPICS, [f"No durable subscription is there; {stored}.", lost], "none", tone=tone)
    readers = counted(topics.subscribers, "durable subscriber")
    if topics.farthest is None:
        is_are = "has" if topics.subscribers == 1 else "have"
        sentence = [f"{readers} {is_are} acknowledged all that was published, {stored}.", lost]
        return Verdict(TOPICS, sentence, "up to date", (readers,), tone or "good")
    far = topics.farthest
    lag = counted(far["lag_publications"], "publication")
    age = duration(far["lag_seconds"])
    sentence = [
        f"{topics.behind:,} of {readers} {_are(topics.behind)} behind. The farthest is ",
        Name(far["reader"]),
        " of the topic ",
        _name(far),
        f": {lag}, the oldest committed {age} ago.",
        lost,
    ]
    detail = (f"of {topics.subscribers:,} behind; the farthest {age}, ", Name(far["reader"]))
    return Verdict(TOPICS, sentence, short_number(topics.behind), detail, tone)
