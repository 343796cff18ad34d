"""The master record of a store: of one more start, and made again where damage has taken it.

Identifiers are new as long as the count of starts goes up. After damage an older master record may be the latest that
can be read, or none; so the count is never below the number of times that the store was opened, which the store knows
for itself. Whose the store is stands in the checkpoints too; where no record tells it any more, records of a broker
are taken to be of the one that starts.
"""

from collections.abc import Iterable
from contextlib import suppress

from broker.identifiers import STARTS_MAX
from broker.records import CHECKPOINT, CheckpointName, CheckpointRecord, MasterRecord, RecordError


def following_start(starts: int, openings: int) -> int:
    """Return the count of the start that follows, in a store that was opened so often, this time included."""
    return max(starts + 1, openings if openings <= STARTS_MAX else 0)


def made_again(checkpoints: Iterable[bytes], broker_id: str) -> MasterRecord:
    """Return a master record in the place of a lost one, from what checkpoints can be read."""
    found: list[CheckpointRecord] = []
    for value in checkpoints:
        with suppress(RecordError):
            found.append(CHECKPOINT.decode(value))
    newest = max(found, key=lambda checkpoint: checkpoint.starts, default=None)
    return MasterRecord(
        starts=0 if newest is None else newest.starts,
        created=next((checkpoint.time for checkpoint in found if checkpoint.name is CheckpointName.ETBC), 0),
        started=0 if newest is None else newest.time,
        broker_id=broker_id if newest is None else newest.broker_id,
    )
