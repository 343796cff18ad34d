"""What the journal says of messages that came back, and the way to the dead letters.

The number of attempts, the delay and the reason of a message that came back are written with the next commit, whosever
that is, or after a second in one of their own, many at once. A message that came back `max_attempts` times moves to its
dead-letter queue, in one commit of its own: it is there, or it is still here. What has expired moves there likewise,
where its queue says so, many in one commit.
"""

import logging
from collections.abc import Callable, Sequence

from oms_journal.database.commits.encode import Encoder
from oms_journal.database.commits.ledger import IndexChanges, Ledger, StaleDraft, removal_set
from oms_journal.database.consumers.consumers import Holding
from oms_journal.database.consumers.dead_letters import EXPIRED, dead_letter_properties
from oms_journal.database.consumers.hand_file import COUNTED_KEY, LeftInHand, encode_counted
from oms_journal.index.returned import Return, key_of, shortened
from oms_journal.journal.errors import DiskFull, MessageDamaged, NoSuchMessage, NotUndelivered
from oms_journal.journal.format.frames import OPERATIONS_MAX
from oms_journal.journal.format.records import Added, TermColumns
from oms_journal.journal.operations import MIB, Operation
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.draft import CommitBuilder, Draft

WRITTEN_MICROSECONDS = 1_000_000  # after so long at the latest the journal says what came back
AWAY_MICROSECONDS = 60_000_000  # that a message stays away which cannot be moved to the dead letters
EXPIRED_MAX = 1000  # messages that move in one commit
EXPIRED_BYTES_MAX = 16 * MIB  # of their payloads, but for the last one; they are in memory at once
_log = logging.getLogger("oms.database")


class Returns:
    """Messages that came back to one database. The alarm's thread calls what writes."""

    def __init__(
        self,
        ledger: Ledger,
        encode: Encoder,
        write: Callable[[Draft], object],
        read: Callable[[int], Message],
        clocks: tuple[Callable[[], int], Callable[[], int]],
    ) -> None:
        self._ledger = ledger
        self._consumers = ledger.consumers
        self._returned = ledger.index.returned
        self._encode = encode
        self._write = write
        self._read = read
        self._clock, self._steady = clocks  # one that people set, and one that nobody sets; both in microseconds
        self._next_write: int | None = None  # when what has changed is written, None where nothing has

    def entry(self, microseconds: int, reason: str) -> Return:
        """Return what is said of a message that stays away for so long."""
        return Return(0, self._clock() + microseconds if microseconds else 0, shortened(reason))

    def next_write(self, now: int) -> int | None:
        """Return when what has changed is to be written; None where nothing has."""
        if not self._returned.changed:
            self._next_write = None  # a commit has told it meanwhile
            return None
        self._next_write = self._next_write or now + WRITTEN_MICROSECONDS
        return self._next_write

    def write_in_time(self, now: int) -> int | None:
        """Write if it is time; return when it will be, None where nothing is to be written."""
        if (when := self.next_write(now)) is not None and when <= now:
            self._next_write = None
            self.write()
        return self.next_write(now)

    def restore(self, left: LeftInHand) -> None:
        """Have messages stay away that the journal says so of, and move those that came back too often.

        What was in hand as a process died is durable on return, in one commit with whose file was counted.
        """
        with self._ledger.lock:
            found = [number for number in left.numbers if self._ledger.index.table.find(number)]
            self._returned.note_death(found[: OPERATIONS_MAX - 1])
        draft = self._ledger.say(count=OPERATIONS_MAX - 1, beside={COUNTED_KEY: encode_counted(left.owner)})
        if draft is not None:
            self._write(draft)
        with self._ledger.lock:
            table, steady = self._ledger.index.table, self._steady()
            now = max(self._clock(), self._ledger.index.newest_time)  # as for the terms that a message was added with
            for number, entry in self._returned.entries.items():
                place = table.queue_of(number)
                assert place is not None, "what is gone was left out"
                queue = table.queues.name(place)
                dead = self._consumers.dead_letters.of(queue)
                if dead is not None and dead.takes(entry.attempts):
                    self._consumers.dead[number] = self._consumers.put_away(number, queue)
                elif entry.due > now:
                    self._consumers.put_away(number, queue, steady + entry.due - now)

    def write(self, write: Callable[[Draft], object] | None = None) -> None:
        """Commit what the journal does not say yet."""
        write = write or self._write
        while self._returned.changed:
            draft = self._ledger.rider()
            write(draft)
            if draft.failure is not None:
                return

    def move_dead(self) -> None:
        """Move what came back too often to the dead letters."""
        consumers = self._consumers
        for number, holding in list(consumers.dead.items()):
            try:
                self._move(number, holding)
            except DiskFull as failure:  # a move adds a message: it comes again when there may be room
                _log.error("message %d cannot be moved to the dead letters: %s", number, failure)
                with self._ledger.lock:
                    if self._ledger.taken.get(number) is holding:
                        consumers.put_away(number, holding[0], self._steady() + AWAY_MICROSECONDS)
            except (NotUndelivered, MessageDamaged, NoSuchMessage) as failure:
                _log.error("message %d is not moved to the dead letters: %s", number, failure)
            with self._ledger.lock:
                consumers.dead.pop(number, None)

    def _move(self, number: int, holding: Holding) -> None:
        """Move a message to its dead-letter queue, in one commit."""
        message, entry = self._read(number), self._returned.entries.get(number, Return(0))
        draft = self._moving(holding[0], [(message, entry)], (number,))
        draft.shape.is_strict = True
        self._write(draft)

    def move_expired(self, queue: str, numbers: Sequence[int]) -> bool:
        """Move the first of ascending messages of a queue that have expired to its dead letters, in one commit.

        False where somebody has removed one of them meanwhile: nothing is done. DiskFull, DiskError: likewise.
        """
        letters: list[tuple[Message, Return]] = []
        ended: list[int] = []
        size = 0
        for number in numbers:
            if size >= EXPIRED_BYTES_MAX:
                break
            try:
                message = self._read(number)
            except NoSuchMessage:
                return False
            except MessageDamaged as failure:
                _log.error("message %d has expired, and is deleted: it is no dead letter, since %s", number, failure)
            else:
                before = self._returned.entries.get(number, Return(message.attempts))
                letters.append((message, before._replace(reason=EXPIRED)))
                size += len(message.payload)
            ended.append(number)
        try:
            self._write(self._moving(queue, letters, ended))
        except StaleDraft:
            return False
        return True

    def _moving(self, queue: str, letters: Sequence[tuple[Message, Return]], ended: Sequence[int]) -> Draft:
        """Return the draft that ends messages of a queue, and adds these of them to its dead letters."""
        dead, now = self._consumers.dead_letters.of(queue), self._clock()
        assert dead is not None, "only a queue with dead letters has any"
        target, builder = self._encode.queue(dead.queue), CommitBuilder()
        payloads = [message.payload for message, _ in letters]
        properties = [dead_letter_properties(message, entry, now) for message, entry in letters]
        if letters:
            terms = TermColumns(attempts=[entry.attempts for _, entry in letters])
            builder.add(Added(target.name, payloads, properties, terms=terms))
        builder.remove(Operation.DELETE, self._encode.queue(queue).name, ended)
        drops = [key_of(number) for number in ended if number in self._returned.entries]
        for key in drops:
            builder.drop(key)
        draft = builder.draft()
        if letters:
            draft.runs = ((target, [len(one) + len(said) for one, said in zip(payloads, properties, strict=True)]),)
        draft.removed = removal_set(ended)
        draft.effect = IndexChanges(drops=drops)
        return draft
