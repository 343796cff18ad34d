"""What holds in every file that a writer of this format has made, and what a reader checks: each thing once.

A checksum says that bytes are as they were written, not that they were written by a program without a mistake. What
breaks an invariant costs as little as the table says: a frame costs itself, a footer is made again from the frames,
a copy of a header gives way to the other one.

The commit numbers of a file ascend by 1, and the numbers of the messages that are added ascend through all files. Both
are counted by `FrameOrder`, frame by frame; `footer.py` holds the columns of a footer against them in bulk.
"""

from dataclasses import dataclass

from oms_journal.journal.format.frames import FRAME_SIZE, GAP, FrameHeader
from oms_journal.journal.format.headers import NUMBERS_END, FileHeader
from oms_journal.journal.format.records import BadRecord


@dataclass(frozen=True, slots=True)
class Invariant:
    """One thing that holds: its name, of what it is said, and a sentence."""

    name: str
    of: str
    sentence: str


HEADER, FRAME, RECORD, FOOTER = "header", "frame", "record", "footer"
COSTS = {
    HEADER: "This copy of the header is rotted. The other one counts, or the footer's.",
    FRAME: "The frame is not understood: it is a bad range of its own, and damage. It costs no other frame.",
    RECORD: "The frame that holds the record is not understood.",
    FOOTER: "The footer is not good: the file is walked.",
}

INVARIANTS = (
    Invariant(
        "header place",
        HEADER,
        "The sequence is that of the file's name. Where no copy passes for that alone, the directory is refused.",
    ),
    Invariant(
        "header fields",
        HEADER,
        "The size is 256, the flags are 0, the alignment is a power of two, 8 to 4096; else the file is refused.",
    ),
    Invariant("header numbers", HEADER, "`next message`, `next commit` and `previous commit` are at most 2^63."),
    Invariant("header previous", HEADER, "`previous sequence` is lower than the file's sequence."),
    Invariant("frame identity", FRAME, "The identity is that of the file."),
    Invariant("frame place", FRAME, "The checksum is seeded with the SEQ of the file's name and the frame's offset."),
    Invariant("frame flags", FRAME, "The flags are 0, or 1 for a gap frame."),
    Invariant("frame synced", FRAME, "`synced` is at most the frame's own offset."),
    Invariant(
        "frame commit",
        FRAME,
        "The commit number is `next commit` of the header in the first frame, and 1 more in each. Behind a bad range "
        "or a gap frame of n bytes it may be up to n / 56 higher: so many frames had room there. A frame with a wrong "
        "number counts as one; behind it the number may also be 1 above its own, if its own is above the expected one.",
    ),
    Invariant(
        "frame messages",
        FRAME,
        "The numbers of messages that are added, but for moved ones, are higher than all that were added before: in "
        "the frame, in the file, and in the files before it. None is below `next message` of the header.",
    ),
    Invariant("frame operations", FRAME, "`operations` is what the records speak of, at most 1,000,000."),
    Invariant(
        "frame padding",
        FRAME,
        "Behind records and payloads stand fewer bytes than the alignment, 4096 where it is lost.",
    ),
    Invariant(
        "frame gap", FRAME, "A gap frame has 0 operations, and one record of kind GAP or none; no other has a GAP."
    ),
    Invariant("record kind", RECORD, "The kind is known, and its flags are among those that it can have."),
    Invariant("record end", RECORD, "The record ends inside `meta` of its frame."),
    Invariant("record name", RECORD, "Name, identifier and groups are UTF-8; the name is not empty."),
    Invariant("record producer", RECORD, "There is an identifier with PRODUCER, and none without."),
    Invariant(
        "record whole commit",
        RECORD,
        "WHOLE COMMIT stands with PRODUCER and without MOVED; all ADD records of the commit that are not moved have "
        "it, with the same identifier, or none has it.",
    ),
    Invariant("record group", RECORD, "With GROUP at least one message has a group."),
    Invariant("record count", RECORD, "`count` is at least 1 in ADD, DELIVER and DELETE, and 0 in DROP and GAP."),
    Invariant("record number", RECORD, "`number` is 0 in DROP, and in ADD with MOVED."),
    Invariant("record numbers end", RECORD, "No number of a message is above 2^63 - 1."),
    Invariant(
        "record set", RECORD, "A set has `count` numbers: no run is 0, it ends with a run, none has over 64 bits."
    ),
    Invariant("record properties", RECORD, "No message's properties are longer than properties and payload together."),
    Invariant("footer header", FOOTER, "The header in it is a header, and its identity is the file's."),
    Invariant("footer end", FOOTER, "It begins at `end`, and the sizes in summary and trailer are its own."),
    Invariant(
        "footer columns",
        FOOTER,
        "All columns of this version are there once, as long as their rows say. Others are left alone.",
    ),
    Invariant("footer names", FOOTER, "Names, identifiers and groups that rows speak of are there, and are UTF-8."),
    Invariant("footer sets", FOOTER, "The coded sets and the beginnings of values are as long as their rows say."),
    Invariant("footer kinds", FOOTER, "Kinds and flags are known; only messages have terms, with flags that say so."),
    Invariant(
        "footer fields",
        FOOTER,
        "`count` is 1 in each ADD; `number` and `count` are 0 in PUT and DROP; no number is above 2^63 - 1, and no "
        "`attempts` is above 2^32 - 1.",
    ),
    Invariant(
        "footer order",
        FOOTER,
        "Offsets never go back; the commit number ascends where the offset does, and nowhere else; the numbers of ADD "
        "that are not moved ascend, and none is below `next message`.",
    ),
    Invariant(
        "footer commits",
        FOOTER,
        "No commit number is below `next commit`; without the flag 1 the last commit is `next commit` + frames - 1.",
    ),
    Invariant(
        "footer ranges",
        FOOTER,
        "The ranges are those of the rows. A reader that does not compare the file checksum MAY leave this out.",
    ),
)


def appendix() -> str:
    """Return the invariants as the appendix of the description of the format has them."""
    lines = []
    for of, cost in COSTS.items():
        lines += [f"**Of a {of}.** {cost}", "", "| invariant | what holds |", "| --- | --- |"]
        lines += [f"| {one.name} | {one.sentence} |" for one in INVARIANTS if one.of == of]
        lines.append("")
    return "\n".join(lines)


@dataclass(slots=True)
class FrameOrder:
    """What the next frame of a file has to say, by the file's header and by the frames before it."""

    commit: int | None = None  # its commit number; None where nothing tells it
    spare: int = 0  # so much higher it may be: frames are lost in between
    other: int | None = None  # or this: behind a frame whose number was wrong
    message: int = 0  # no message that is added has a lower number

    @classmethod
    def behind(cls, header: FileHeader | None, *, floor: int = 0) -> "FrameOrder":
        """Return what the first frame behind a header has to say; one that a repair has made up tells nothing."""
        if header is None or not header.created:
            return cls(message=floor)
        return cls(commit=header.next_commit, message=max(floor, header.next_message))

    def pass_over(self, size: int) -> None:
        """Note that in so many bytes nobody knows how many frames there were."""
        self.spare += size // FRAME_SIZE

    def take(self, frame: FrameHeader) -> None:
        """Note a frame. BadRecord where its header cannot stand there; then it counts as one frame."""
        if frame.flags & GAP:
            self.pass_over(frame.length)
            return
        expected, spare, other = self.commit, self.spare, self.other
        if expected is None:
            expected, spare = frame.commit, 0
        is_next = expected <= frame.commit <= expected + spare or frame.commit == other
        if not is_next or frame.commit >= NUMBERS_END:
            self.commit = None if self.commit is None else min(self.commit + 1, NUMBERS_END)
            self.other = frame.commit + 1 if expected <= frame.commit < NUMBERS_END - 1 else None
            raise BadRecord(f"its commit number is {frame.commit}, and {expected} comes next")
        self.commit, self.spare, self.other = frame.commit + 1, 0, None
        if frame.synced > frame.offset:
            raise BadRecord(f"it says that {frame.synced} bytes of the file were durable before it, at {frame.offset}")
