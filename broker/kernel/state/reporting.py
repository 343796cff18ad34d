"""What the report of the persistent store says of a commit: records that came, and records that went."""

from collections.abc import Iterator

from oms_journal.broker.kernel.state.effects import Action, Reported
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import PUBLICATION, UOW, RecordKind, kind_of
from oms_journal.broker.store.changes import Changes, Put


def report(world: World, changes: Changes) -> None:
    """Report a commit that has become durable; nothing of it has been done in the kernel yet."""
    for put in changes.puts:
        world.effects.extend(_created(world, put))
    for key in changes.drops:
        kind = kind_of(key)
        if kind is not None:
            world.effects.append(Reported(_identifier(key), kind, Action.DELETED))


def _identifier(key: str) -> str:
    return key.rpartition("/")[2]


def _created(world: World, put: Put) -> Iterator[Reported]:
    """Yield a line for a record that was not there before."""
    identifier, kind = _identifier(put.key), kind_of(put.key)
    if kind is RecordKind.UOW:
        unit = world.active.get(identifier)
        is_new = not unit.is_recorded if unit is not None else world.units.find(identifier) is None
        record = UOW.decode(put.value)
        elements, length = record.messages, record.size
    elif kind is RecordKind.PUBLICATION:
        publication = world.topics.publications.get(identifier)
        is_new = publication is None or not publication.is_stored
        published = PUBLICATION.decode(put.value)
        elements, length = published.messages, published.size
    elif kind is RecordKind.SUBSCRIPTION:
        is_new, elements, length = identifier not in world.topics.subscriptions, 1, 0
    else:
        return
    if is_new:
        yield Reported(identifier, kind, Action.CREATED, elements, len(put.value) + length)
