"""What a decision asks the store to make durable, as the draft of one commit of the message database.

The commonest are drafted with as little work as Python allows, since with many callers on a fast device that work is
the limit: one message with its record; messages of one queue, keys, and ranges of removed messages.
"""

from oms_journal.broker.store.changes import Changes
from oms_journal.database.database import MessageDatabase
from oms_journal.database.unit import Unit
from oms_journal.journal.writing.draft import Draft
from oms_journal.journal.writing.unit import NewValue


def draft_of(database: MessageDatabase, changes: Changes) -> Draft:
    """Return the changes as one commit of the database. JournalError, ValueError."""
    if changes.producer is None:
        adds, puts = changes.adds, changes.puts
        draft: Draft | None
        if len(adds) == len(puts) == 1 and not (changes.drops or changes.delivered or changes.deleted):
            message, put = adds[0], puts[0]
            if not message.properties:
                draft = database.drafting.sent(message.queue, message.payload, put.key.encode(), put)
                if draft is not None:
                    return draft
        draft = _unit(database, changes)
        if draft is not None:
            return draft
    return _long_way(database, changes)


def _unit(database: MessageDatabase, changes: Changes) -> Draft | None:
    """Return the draft of changes of the common form, None of any other."""
    adds, drops = changes.adds, changes.drops
    queue = adds[0].queue if adds else ""
    for message in adds:
        if message.properties or message.queue != queue:
            return None
    values = [NewValue(put.key.encode(), put.value, tuple(put.numbers_at.items())) for put in changes.puts]
    keys = [key.encode() for key in drops]
    if len(values) + len(keys) > 1 and len({*keys, *(value.key for value in values)}) < len(values) + len(keys):
        return None
    payloads = [message.payload for message in adds]
    return database.drafting.unit(Unit(queue, payloads, changes.delivered, changes.deleted, values, keys))


def _long_way(database: MessageDatabase, changes: Changes) -> Draft:
    # Under one identifier each queue's part is known by itself, so that it is known as a part when it comes alone.
    is_by_queue = changes.producer is not None and len({message.queue for message in changes.adds}) > 1
    block = database.drafting.gathering(changes.producer, is_by_queue=is_by_queue)
    for message in changes.adds:
        block.add(message.queue, message.payload, properties=message.properties)
    for numbers in changes.delivered:
        block.deliver_many(numbers)
    for numbers in changes.deleted:
        block.delete_many(numbers)
    for put in changes.puts:
        block.put(put.key, put.value, numbers_at=put.numbers_at)
    for key in changes.drops:
        block.drop(key)
    return database.drafting.operations(block.operations)
