"""The answers in a sentence or two each, made from the figures; the page and the summary say the same."""

from collections.abc import Sequence
from dataclasses import dataclass

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html, joined, name, tag, unbroken, visible
from oms_journal.analysis.report.values.answers import Answers, Row
from oms_journal.analysis.report.wording import counted, duration, share, short_number, size

SHARED_MIN = 1.1  # commits a write, on average: below it hardly any share one
FREED_MUCH = 0.5  # share of the disk that compaction would free, from which on it is worth a warning


class Name(str):
    """A name that people gave, in a sentence."""

    __slots__ = ()


class Code(str):
    """A command, in a sentence."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A section of the page: how an operator asks it, and what it is about in a word or two."""

    anchor: str
    text: str
    short: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer. `value` and `detail` say it in a few words; the tone is how it is taken."""

    question: Question
    sentence: Sequence[str]
    value: str
    detail: Sequence[str] = ()
    tone: str = ""  # bad, warn, good, or nothing where that depends

    def as_dict(self) -> dict[str, str]:
        """Return the answer for a program."""
        return {"question": self.question.text, "answer": plain(self.sentence), "tone": self.tone or "neutral"}


STUCK = Question("stuck", "What is stuck?", "Waiting")
TRAFFIC = Question("traffic", "How much comes and goes?", "Traffic")
DELAYS = Question("delays", "Where does the time go?", "Until delivered")
DISK = Question("disk", "Why does the disk not get free?", "Disk")
COMMITS = Question("commits", "Is group commit working?", "Group commit")
TWICE = Question("twice", "What came twice?", "Twice")
LOST = Question("lost", "What was lost?", "Lost")
COPY = Question("copy", "Is the copy complete?", "Copy")


def plain(parts: Sequence[str]) -> str:
    """Return a sentence as text."""
    return "".join(f"`{part}`" if isinstance(part, Code) else visible(part) for part in parts).strip()


def markup(parts: Sequence[str]) -> Html:
    """Return a sentence as markup."""
    return joined(*map(_part, parts))


def _part(part: str) -> str:
    return name(part) if isinstance(part, Name) else tag("code", part) if isinstance(part, Code) else unbroken(part)


def verdicts(answers: Answers) -> list[Verdict]:
    """Return all answers, in the order of the page."""
    found = [_stuck(answers), _traffic(answers), _delays(answers), _disk(answers), _commits(answers)]
    found += [_twice(answers), _lost(answers)]
    if answers.compared is not None:
        found.append(_copy(answers))
    return found


def _stuck(answers: Answers) -> Verdict:
    waiting = answers.waiting
    if not waiting.undelivered or waiting.oldest is None:
        ended = waiting.delivered + waiting.deleted
        gone = "the one message was" if ended == 1 else f"all {ended:,} messages were"
        text = f"Nothing waits: {gone} delivered or deleted." if ended else "Nothing waits: there are no messages."
        return Verdict(STUCK, [text], "nothing", tone="good")
    age, oldest = duration(waiting.oldest["oldest_age_seconds"]), Name(waiting.oldest["label"])
    verb = "waits" if waiting.undelivered == 1 else "wait"
    sentence = [
        f"{counted(waiting.undelivered, 'message')} {verb} in {counted(waiting.waiting_queues, 'queue')}. "
        f"The oldest has waited {age}: number {waiting.oldest['oldest']} in ",
        oldest,
    ]
    if waiting.waiting_queues > 1:
        fullest = waiting.fullest.rows[0]
        part = f"{share(fullest['undelivered'], waiting.undelivered)} of all that waits"
        is_same = fullest["label"] == waiting.oldest["label"]
        sentence += [f", which holds {part}"] if is_same else [". ", Name(fullest["label"]), f" holds {part}"]
    sentence.append(".")
    return Verdict(STUCK, sentence, short_number(waiting.undelivered), (f"the oldest {age}, in ", oldest))


def _traffic(answers: Answers) -> Verdict:
    traffic, waiting, scope = answers.traffic, answers.waiting, answers.scope
    if not traffic.count or scope.first_time is None or scope.last_time is None:
        return Verdict(TRAFFIC, ["Nothing came and nothing went."], "none")
    first = scope.first_time if scope.since is None else max(scope.since, scope.first_time)
    last = scope.last_time if scope.until is None else min(scope.until, scope.last_time)
    span = (last - first).total_seconds()
    within = f"in {duration(span)}" if span > 0 else f"at {wording.moment(first)}"
    sentence = [f"{counted(traffic.count, 'operation')} {within}"]
    if traffic.added_bytes:
        sentence.append(f", {size(traffic.added_bytes)} of payload")
    sentence.append(". ")
    if traffic.peak and span > 1:
        sentence.append(f"The busiest time, about {traffic.peak_at} UTC, saw {short_number(traffic.peak)} a second. ")
    if traffic.busiest is not None and waiting.queues > 1:
        part = share(traffic.busiest["operations"], traffic.count)
        sentence += ["The busiest queue, ", Name(traffic.busiest["label"]), f", has {part} of all."]
    if span <= 1:
        return Verdict(TRAFFIC, sentence, short_number(traffic.count), ("operations",))
    rate = f"{short_number(traffic.count / span)}/s"
    return Verdict(TRAFFIC, sentence, rate, (f"operations on average; at most {short_number(traffic.peak)}/s",))


def _delays(answers: Answers) -> Verdict:
    delays = answers.delays
    if not delays.slowest.rows or delays.half_within is None:
        return Verdict(DELAYS, ["No message was delivered, so there is no time to tell."], "—")
    half, most, slowest = duration(delays.half_within), duration(delays.most_within), delays.slowest.rows[0]
    if delays.slowest.count == 1:
        half, most = duration(slowest["p50_seconds"]), duration(slowest["p99_seconds"])
        longest = f"the longest took {duration(slowest['max_seconds'])}."
        sentence = [f"Half of the messages were delivered within {half}, 99 of 100 within {most}; {longest}"]
    else:
        sentence = [
            f"Half of all messages were delivered within about {half}, 99 of 100 within about {most}. ",
            "The slowest queue is ",
            Name(slowest["label"]),
            f": half of its messages took {duration(slowest['p50_seconds'])} or more, "
            f"one in a hundred {duration(slowest['p99_seconds'])} or more.",
        ]
    detail = f"for half of them; {wording.short_duration(delays.most_within)} for 99 of 100"
    return Verdict(DELAYS, sentence, wording.short_duration(delays.half_within), (detail,))


def _disk(answers: Answers) -> Verdict:
    disk = answers.disk
    if not disk.ranked.count:
        return Verdict(DISK, ["There are no data files."], "empty")
    wanted = share(disk.live_bytes, disk.bytes)
    sentence = [f"{size(disk.bytes)} in {counted(disk.ranked.count, 'file')}, of which {wanted} is still needed. "]
    if disk.pin is not None:
        kept = counted(disk.pin["pins_files"], "later file that holds", "later files that hold")
        sentence += [
            f"File {disk.pin['sequence']} keeps {kept} nothing needed, because of ",
            *pin_parts(disk.pin),
            ". ",
        ]
    elif disk.ranked.count > 1:
        sentence.append("No file is kept by an older one. ")
    if disk.freed:
        sentence += [Code("oms cleanup --compact"), f" would free {size(disk.freed)}."]
    detail = f"{wanted} needed" + (f"; {size(disk.freed)} can be freed" if disk.freed else "")
    tone = "warn" if disk.freed > FREED_MUCH * disk.bytes else ""
    return Verdict(DISK, sentence, size(disk.bytes), (detail,), tone)


def pin_parts(row: Row) -> list[str]:
    """Return in words what keeps a file: its oldest undelivered message, or a key."""
    age = "" if row["pin_age_seconds"] is None else f", {duration(row['pin_age_seconds'])} old"
    if row["pinned_by"] == "key":
        return ["the key ", Name(row["pin_key"]), age]
    return [f"message {row['pin_message']} of ", Name(row["pin_queue"]), age]


def _commits(answers: Answers) -> Verdict:
    commits = answers.commits
    if not commits.writes:
        return Verdict(COMMITS, ["There are no commits."], "—")
    shared, together = commits.commits / commits.writes, commits.operations / commits.writes
    each = wording.averaged(commits.operations / commits.commits, "operation")
    if commits.writes == 1:
        sentence = [f"There is one write, of {counted(commits.operations, 'operation')}."]
    elif shared >= SHARED_MIN:
        sentence = [
            f"Yes: {wording.number(shared)} commits share a write to the device on average, "
            f"{commits.commits_most:,} at the most. A commit carries {each} on average, "
            f"{commits.operations_most:,} at the most."
        ]
    else:
        sentence = [
            f"It has little to do: nearly every commit is written alone, as from a caller that waits for each. "
            f"A commit carries {each} on average, {commits.operations_most:,} at the most."
        ]
    if commits.longest_gap is not None:
        sentence.append(f" The longest pause between two writes was {duration(commits.longest_gap)}.")
    figure, operations = wording.averaged(together, "operation").split()
    detail = f"{operations} a write, {wording.averaged(shared, 'commit')} a write"
    return Verdict(COMMITS, sentence, figure, (detail,))


def _twice(answers: Answers) -> Verdict:
    twice = answers.twice
    if not twice.by_producer and not twice.by_payload:
        return Verdict(TWICE, ["No producer's identifier and no payload came again."], "nothing", tone="good")
    sentence = []
    if twice.by_producer:
        had = counted(twice.by_producer, "identifier came", "identifiers came")
        sentence.append(f"{had} again, outside of the window in which the database refuses that. ")
    if twice.by_payload:
        had = counted(twice.by_payload, "message has", "messages have")
        window = f"at most {duration(twice.window)} before it"
        sentence.append(f"{had} the payload of an earlier one of the same queue, {window}.")
    detail = f"{short_number(twice.by_producer)} by identifier, {short_number(twice.by_payload)} by payload"
    tone = "warn" if twice.by_producer else ""
    return Verdict(TWICE, sentence, short_number(twice.by_producer + twice.by_payload), (detail,), tone)


_EFFECTS = {  # of what archives hold and the files do not: one, several
    "message lost": ("message is lost: only an archive holds it", "messages are lost: only archives hold them"),
    "undelivered again": (
        "message that had ended is undelivered again",
        "messages that had ended are undelivered again",
    ),
    "ended twice": ("message was ended twice", "messages were ended twice"),
    "older value": ("key has an older value", "keys have an older value"),
}


def _lost(answers: Answers) -> Verdict:
    lost = answers.lost
    sentence = [
        f"{counted(lost.effects[effect], *words)}. " for effect, words in _EFFECTS.items() if lost.effects.get(effect)
    ]
    harmless = sum(count for effect, count in lost.effects.items() if effect not in _EFFECTS)
    count = sum(lost.effects.values()) - harmless
    if harmless:
        sentence.append(f"{counted(harmless, 'operation')} only in archives made no difference. ")
    if lost.bad_ranges:
        bytes_lost = f" ({size(lost.bad_bytes)})" if lost.bad_bytes else ""
        where = f"of {counted(lost.bad_files, 'file')}{bytes_lost}"
        sentence.append(f"{counted(lost.bad_ranges, 'range')} {where} cannot be read any more. ")
    if lost.bad_payloads:
        what = counted(lost.bad_payloads, "payload or value does", "payloads or values do")
        sentence.append(f"{what} not match the checksum any more. ")
    if lost.torn_ranges:
        torn = counted(lost.torn_ranges, "write was", "writes were")
        sentence.append(f"{torn} cut short by a crash before anybody was promised anything. ")
    if lost.late_archives:
        kept = counted(lost.late_archives, "archive keeps", "archives keep")
        sentence.append(f"{kept} what nobody was promised: it came too late, or was in a file's blocks before it. ")
    if not count and not lost.bad_ranges and not lost.bad_payloads:
        return Verdict(LOST, ["Nothing that was promised is lost. ", *sentence], "nothing", tone="good")
    if count:
        return Verdict(LOST, sentence, short_number(count), ("operations that are missed",), "bad")
    if not lost.bad_ranges:
        return Verdict(LOST, sentence, short_number(lost.bad_payloads), ("payloads or values",), "bad")
    return Verdict(LOST, sentence, size(lost.bad_bytes), (f"in {counted(lost.bad_files, 'file')}",), "bad")


def _copy(answers: Answers) -> Verdict:
    assert answers.compared is not None
    differences = answers.compared.differences
    what = "in what is undelivered and in the keys" if answers.compared.undelivered_only else "in all messages and keys"
    count = sum(differences.values())
    if not count:
        return Verdict(COPY, [f"Yes: both hold the same, {what}."], "complete", tone="good")
    listed = wording.listed([f"{number:,} {difference}" for difference, number in differences.items() if number])
    detail = "difference" if count == 1 else "differences"
    return Verdict(COPY, [f"No. Compared {what}: {listed}."], short_number(count), (detail,), "bad")
