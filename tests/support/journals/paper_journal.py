"""A journal without a disk: frames are formed and remembered per file, the ledger sees them, nothing is written.

What a database does with its index while it runs can so be compared with what a start makes of the
files, thousands of times a second.
"""

from collections.abc import Sequence
from itertools import groupby

from oms_journal.database.drafting import Drafting
from oms_journal.database.encode import Encoder
from oms_journal.database.ledger import IndexChanges, Ledger
from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.live import Index
from oms_journal.journal.format.contents import Contents, ContentsBuilder
from oms_journal.journal.format.headers import HEADERS_SIZE
from oms_journal.journal.format.records import MOVED, Added, encode_properties
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from oms_journal.journal.writing.groups import AnyDraft, form
from oms_journal.journal.writing.single import WritePosition


class PaperJournal:
    """The committer's part of a database: drafts in, files and an index out."""

    def __init__(self, *, alignment: int = 8) -> None:
        self.now = 1_700_000_000_000_000
        self.ledger = Ledger(Index(WindowBounds()))
        self.drafting = Drafting(self.ledger, Encoder(self.ledger, 6_144_000), lambda: self.now)
        self.files: dict[int, ContentsBuilder] = {1: ContentsBuilder()}
        self.ends: dict[int, int] = {1: HEADERS_SIZE}
        self.place = WritePosition(
            identity=77,
            sequence=1,
            owner=1,
            alignment=alignment,
            offset=HEADERS_SIZE,
            synced=0,
            next_message=1,
            next_commit=1,
        )

    def commit(self, drafts: Sequence[AnyDraft]) -> list[AnyDraft]:
        """Write the drafts as one group; return those that were written. The others know why not."""
        self.now += 1000
        admitted = [draft for draft in drafts if self.ledger.admit(draft)]
        if admitted:
            group = form(self.place, admitted, time=self.now)
            builder = self.files[self.place.sequence]
            builder.add_plain(group.offsets, group.heads)
            for draft in admitted:
                if isinstance(draft, Draft) and draft.value_heads:
                    builder.add_value_heads(draft.value_heads)
            self.ledger.apply(group)
            self.place.offset = self.place.synced = self.ends[self.place.sequence] = group.end
            self.place.next_message, self.place.next_commit = group.next_message, group.next_commit
        self.ledger.settle_shared()
        return admitted

    def roll(self) -> None:
        """Begin the next file."""
        self.place.sequence += 1
        self.place.identity += 1
        self.place.offset = HEADERS_SIZE
        self.place.synced = 0
        self.files[self.place.sequence] = ContentsBuilder()
        self.ends[self.place.sequence] = HEADERS_SIZE

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
