"""What damage may have brought back: its removal, or a newer version of it, may be among what is lost."""

from collections.abc import Iterable, Iterator

from oms_journal.index.live import Index
from oms_journal.index.table import NUMBER_MAX
from oms_journal.journal import names
from oms_journal.journal.names import DataFileName
from oms_journal.recovery.losses import ranges_of
from oms_journal.recovery.report import Loss, Suspect

SUSPECTS_MAX = 1000  # ranges of messages listed in a report


def reach_of(lost: Iterable[Loss]) -> int:
    """Return the highest sequence of a file that has lost whole operations, removals perhaps among them; 0 for none.

    What is in that file, and before it, is suspect.
    """
    parsed = [names.parse(loss.name) for loss in lost if loss.is_range]
    return max((name.sequence for name in parsed if isinstance(name, DataFileName)), default=0)


def suspects(index: Index, lost: Iterable[Loss]) -> Iterator[Suspect]:
    """Yield what is live and no newer than a damaged place."""
    reach = reach_of(lost)
    if not reach:
        return  # all that is live would be walked, at every start
    older: list[int] = []
    for numbers, places, _ in index.table.batches(None, 0, NUMBER_MAX):
        older += numbers[places <= reach].tolist()
    for first, last in ranges_of(older)[:SUSPECTS_MAX]:
        yield Suspect(kind="message", first=first, last=last)
    for key in index.keyed.keys(b""):
        version = index.keyed.find(key)
        if version is not None and version.sequence <= reach and not key.startswith(b"\0"):
            yield Suspect(kind="key", key=key.decode())
