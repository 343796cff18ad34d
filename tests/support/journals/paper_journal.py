"""A journal without a disk: frames are formed and remembered per file, the ledger sees them, nothing is written.

What a database does with its index while it runs can so be compared with what a start makes of the
files, thousands of times a second.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from oms_journal.database.commits.drafting import Drafting
from oms_journal.database.commits.encode import Encoder
from oms_journal.database.commits.ledger import IndexChanges, Ledger
from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.live import Index
from oms_journal.index.readiness import Moment
from oms_journal.journal.format.contents import Contents, ContentsBuilder
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.format.records import MOVED, Added, encode_properties
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from oms_journal.journal.writing.groups import form
from oms_journal.journal.writing.single import PlainAdds, WritePosition


class PaperJournal:
    """The committer's part of a database: drafts in, files and an index out."""

    def __init__(self, *, alignment: int = 8) -> None:
        self.now = 1_700_000_000_000_000
        self.ledger = Ledger(Index(WindowBounds()))
        encode = Encoder(self.ledger, 6_144_000)
        self.drafting = Drafting(self.ledger, encode, lambda: self.now, lambda: Moment(self.now, self.now))
        self.files: dict[int, ContentsBuilder] = {1: ContentsBuilder()}
        self.ends: dict[int, int] = {1: FRAMES_AT}
        self.place = WritePosition(
            identity=77,
            sequence=1,
            alignment=alignment,
            offset=FRAMES_AT,
            synced=0,
            next_message=1,
            next_commit=1,
        )

    def commit(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Write the drafts as one group; return those that were written. The others know why not."""
        self.now += 1000
        admitted = [draft for draft in drafts if self.ledger.admit(draft)]
        if admitted:
            group = form(self.place, admitted, time=self.now)
            builder = self.files[self.place.sequence]
            builder.add_many(group.offsets, group.heads)
            for draft in admitted:
                if not isinstance(draft, PlainAdds):
                    builder.add_value_heads(draft.shape.value_heads)
                    builder.add_payload_hashes(draft.shape.payload_hashes)
            self.ledger.apply(group)
            self.place.offset = self.place.synced = self.ends[self.place.sequence] = group.end
            self.place.next_message, self.place.next_commit = group.next_message, group.next_commit
        self.ledger.settle_shared()
        return admitted

    def roll(self) -> None:
        """Begin the next file."""
        place = self.place
        self.place = replace(
            place, sequence=place.sequence + 1, identity=place.identity + 1, offset=FRAMES_AT, synced=0
        )
        self.files[self.place.sequence] = ContentsBuilder()
        self.ends[self.place.sequence] = FRAMES_AT

    def contents(self) -> dict[int, Contents]:
        return {sequence: builder.build(self.ends[sequence]) for sequence, builder in self.files.items()}

    def rebuilt(self) -> Index:
        """Return the index that a start would make of the files."""
        index = Index(WindowBounds())
        for sequence, contents in self.contents().items():
            index.replay(contents, sequence)
        return index


def moving(messages: Sequence[Message]) -> Draft:
    """Return a draft that writes messages again, as compaction does."""
    composer = CommitBuilder()
    for queue, part in ((queue, list(part)) for queue, part in groupby(messages, key=lambda message: message.queue)):
        composer.add(
            Added(
                queue=queue.encode(),
                payloads=[message.payload for message in part],
                properties=[encode_properties(message.properties) for message in part],
                flags=MOVED,
                numbers=[message.number for message in part],
                first_times=[message.added_us for message in part],
            )
        )
    draft = composer.draft()
    draft.effect = IndexChanges(moved=[message.number for message in messages])
    return draft
