"""What must hold between the records of all clients and what is in the store at the end.

Each check returns what it found broken, in words, so that one campaign can tell of everything.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path

from oms_journal import MessageDatabase
from tests.campaign.clients import ANSWERS, ASKED, FROM, NEWS, PAIRED, TO, WORK
from tests.campaign.records import Note, Records

QUEUES = (WORK, PAIRED, FROM, TO, ASKED, ANSWERS)
PASSED_ON = ((FROM, TO), (ASKED, ANSWERS))  # with one commit: out of the one, into the other
SHOWN = 5  # of one kind of violation


@dataclass(slots=True)
class Left:
    """What is in the store when all brokers have ended."""

    bodies: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)


def left_in(spool: Path) -> Left:
    """Open the store, twice: whole, without a loss, and the same again."""
    left, seen = Left(), []
    for turn in range(2):
        with MessageDatabase.open(spool) as database:
            if database.recovery.lost or (turn and not database.recovery.intact):
                left.faults.append(f"start {turn + 1} finds fault: {database.recovery.as_dict()}")
            seen.append([(one.number, one.queue, one.payload) for one in database.undelivered()])
    if seen[0] != seen[1]:
        left.faults.append("the second start finds other messages than the first")
    for _, queue, payload in seen[0]:
        left.bodies[_destination(queue)].append(payload.decode())
    return left


def _destination(queue: str) -> str:
    """Return the STOMP destination of a queue of the store. Answers lie in one of their own beside what was asked."""
    if queue.endswith("/reply"):
        return ANSWERS
    kind, _, name = queue.partition("/")
    return f"/topic/{name}" if kind == "topic" else f"/queue/{name.partition('/')[0]}"


def violations(records: Records, left: Left) -> list[str]:
    """Return all that is broken, a few of each kind."""
    found: list[str] = list(left.faults)
    for check in (_lost, _invented, _twice, _again, _halves, _moved, _answered, _followed, _ordered):
        broken = list(check(records, left.bodies))
        found += broken[:SHOWN]
        if len(broken) > SHOWN:
            found.append(f"… and {len(broken) - SHOWN} more of {check.__name__.strip('_')}")
    return found


Bodies = Mapping[str, list[str]]
Span = tuple[float, float]  # from when until when


def tried(records: Records, gone: Sequence[Span]) -> list[Note]:
    """Return what clients asked for while the store's directory was gone."""
    begun = chain(records.sent.values(), records.asked.values())
    notes = (note for bodies in begun for each in bodies.values() for note in each)
    return [note for note in notes if any(since < note.at < until for since, until in gone)]


def promised_nothing(records: Records, gone: Sequence[Span]) -> list[str]:
    """Return what clients asked for while the store's directory was gone, and were promised all the same."""
    promised = {
        (note.who, note.began, note.queue, note.body)
        for kind in (records.receipted, records.acknowledged)
        for bodies in kind.values()
        for notes in bodies.values()
        for note in notes
    }
    return [
        f"without a directory: {note.who} was promised {note.body!r} of {note.queue}"
        for note in tried(records, gone)
        if (note.who, note.began, note.queue, note.body) in promised
    ]


def _lost(records: Records, left: Bodies) -> Iterator[str]:
    """What has a receipt is there, or somebody who got it has asked for it to go."""
    for queue in QUEUES:
        there = set(left.get(queue, ()))
        for body in records.receipted[queue].keys() - there - records.asked[queue].keys():
            yield f"lost: {body!r} of {queue} has a receipt, is not there, and nobody acknowledged it"


def _invented(records: Records, left: Bodies) -> Iterator[str]:
    for queue in (*QUEUES, NEWS):
        for body in (set(left.get(queue, ())) | records.got[queue].keys()) - records.sent[queue].keys():
            yield f"invented: {body!r} of {queue} was never sent"
    for queue in left.keys() - {*QUEUES, NEWS}:
        yield f"invented: {len(left[queue])} messages of {queue}, which nobody uses"


def _twice(_: Records, left: Bodies) -> Iterator[str]:
    for queue in QUEUES:
        for body, count in Counter(left.get(queue, ())).items():
            if count > 1:
                yield f"twice: {body!r} is {count} times in {queue}"


def _again(records: Records, left: Bodies) -> Iterator[str]:
    """What was acknowledged, with a receipt, is not there and comes on no connection that began later."""
    for queue in QUEUES:
        there = set(left.get(queue, ()))
        for body, acknowledged in records.acknowledged[queue].items():
            if body in there:
                yield f"again: {body!r} of {queue} was acknowledged, and is there"
            for got in records.got[queue].get(body, ()):
                if _is_later(got, acknowledged[0]):
                    yield f"again: {body!r} of {queue} was acknowledged by {acknowledged[0].who}, and {got.who} got it"
    for body, acknowledged in records.acknowledged[NEWS].items():
        by_follower = {note.who: note for note in reversed(acknowledged)}
        for got in records.got[NEWS][body]:
            if got.who in by_follower and _is_later(got, by_follower[got.who]):
                yield f"again: publication {body!r} was acknowledged by {got.who}, and came again"


def _is_later(got: Note, acknowledged: Note) -> bool:
    """Whether it came on a connection that was begun when it had been acknowledged, or on the same one behind it."""
    return got.began > acknowledged.at or (
        got.who == acknowledged.who and got.began == acknowledged.began and got.at > acknowledged.at
    )


def _seen(records: Records, left: Bodies, queue: str) -> set[str]:
    return set(left.get(queue, ())) | records.got[queue].keys()


def _halves(records: Records, left: Bodies) -> Iterator[str]:
    """Both messages of a transaction are there, or neither."""
    both = records.sent[PAIRED].keys()
    for body in (_seen(records, left, WORK) & both) ^ _seen(records, left, PAIRED):
        yield f"half: {body!r} is in one of two queues"


def _moved(records: Records, left: Bodies) -> Iterator[str]:
    """What was passed on is in one place: gone from the first queue with the same commit that put it into the second.

    So each question has one answer, or is there.
    """
    for of, to in PASSED_ON:
        there, arrived = set(left.get(of, ())), _seen(records, left, to)
        for body in there & arrived:
            yield f"moved: {body!r} is in {of} and in {to}"
        for body in records.receipted[of].keys() - there - arrived:
            yield f"moved: {body!r} is in neither of {of} and {to}"


def _answered(records: Records, _: Bodies) -> Iterator[str]:
    """An answer comes to who has asked, and says what it is the answer to on the connection that asked it."""
    for body, notes in records.got[ANSWERS].items():
        asked = {(note.who, note.began) for note in records.sent[ASKED].get(body, ())}
        for note in notes:
            if note.who not in {who for who, _ in asked}:
                yield f"answered: {note.who} got the answer to {body!r}, which is somebody else's"
            if note.correlation != (body if (note.who, note.began) in asked else ""):
                yield f"answered: {note.who} got the answer to {body!r} as one to {note.correlation!r}"


def _followed(records: Records, left: Bodies) -> Iterator[str]:
    """Each durable subscriber got each publication that was sent after its subscription, or it is still there."""
    waiting = set(left.get(NEWS, ()))
    for who, since in records.subscribed.items():
        got = {body for body, notes in records.got[NEWS].items() if any(note.who == who for note in notes)}
        for body in records.receipted[NEWS].keys() - got - waiting:
            if records.sent[NEWS][body][0].at > since:
                yield f"not followed: {who} never got publication {body!r}"


def _ordered(records: Records, _left: Bodies) -> Iterator[str]:
    """On one connection, what was never given back comes in the order in which one sender was promised it.

    In the queue of what was moved, several movers are the senders.
    """
    for queue in (WORK, PAIRED, FROM, ASKED, NEWS):
        streams: dict[tuple[str, float, str], list[tuple[float, int]]] = defaultdict(list)
        for body in records.got[queue].keys() & records.receipted[queue].keys():
            sender, _, number = body.rpartition(" ")
            seen = set()
            for note in records.got[queue][body]:
                if not note.delivery and note.who not in seen:
                    streams[note.who, note.began, sender].append((note.at, int(number)))
                seen.add(note.who)
        for (who, _, sender), arrived in streams.items():
            numbers = [number for _, number in sorted(arrived)]
            for before, after in pairwise(numbers):
                if after <= before:
                    yield f"order: {who} got {after} behind {before} of {sender} from {queue}"
