"""Taking in messages of another database as they are: under their own numbers, with their times and identifiers.

What is written is what compaction writes when it moves a message, so every reader knows it. The duplicate window does
not follow from the messages: it is taken in by itself, as what clean-up carries forward of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise

import numpy as np

from oms_journal.database.commits.encode import Encoder
from oms_journal.database.commits.ledger import IndexChanges, LoadedRun
from oms_journal.database.database import MessageDatabase
from oms_journal.index.duplicates import KEY_PREFIX, KnownIdentifier, Scope, carried
from oms_journal.journal.format.records import MOVED, Added, encode_properties
from oms_journal.journal.reading.message import Message, record_key, term_columns
from oms_journal.journal.writing.draft import CommitBuilder

PLACEHOLDER_QUEUE = "numbers"  # of a message that only says how far the numbers were, and is deleted at once


def load(database: MessageDatabase, messages: Sequence[Message], values: Mapping[str, bytes]) -> None:
    """Write messages and keys in one commit. Their numbers ascend, behind every number the database has given.

    For a time when nobody else writes. ValueError for a number that is not behind the others.
    """
    numbers = [message.number for message in messages]
    state = database._state()
    with state.ledger.lock:
        last = state.ledger.index.highest_number()
    if any(before >= number for before, number in pairwise([last, *numbers])):
        raise ValueError(f"messages are loaded in the order of their numbers, behind {last}, not {numbers[:3]}…")
    encode = database._drafting.encode
    composer = CommitBuilder()
    loaded = list(_added(composer, encode, messages))
    for key, value in values.items():
        composer.put(encode.key(key), encode.value(value))
    draft = composer.draft()
    draft.shape.has_add = bool(messages)  # refused where the disk is full, as any other
    draft.shape.numbers_end = numbers[-1] + 1 if numbers else 0
    draft.shape.is_rare = True
    draft.effect = IndexChanges(puts=[key.encode() for key in values], loaded=loaded)
    database._write(draft)


def load_identifiers(database: MessageDatabase, entries: Mapping[Scope, KnownIdentifier]) -> None:
    """Take in the producers' identifiers of another database, the oldest first."""
    values = carried(dict(entries))
    for place, value in enumerate(values):
        key = KEY_PREFIX + f"{place:06}".encode()
        composer = CommitBuilder()
        composer.put(key, value)
        draft = composer.draft()
        draft.effect = IndexChanges(puts=[key])
        database._write(draft)
    state = database._state()
    with state.ledger.lock:
        state.ledger.index.duplicates.load(values)


def number_behind(database: MessageDatabase, number: int) -> None:
    """Let every later message have a number behind this one, and behind all that were loaded, whatever file is lost.

    For that there is a last commit: where it begins the next file, because the numbers went so far, it tells them too.
    """
    if number < database._state().next_message:
        database._write(CommitBuilder().draft())
        return
    load(database, [Message(number, PLACEHOLDER_QUEUE, b"", {}, database.options.clock(), None, 0, 0)], {})
    database.delete(number)


def _added(composer: CommitBuilder, encode: Encoder, messages: Sequence[Message]) -> Iterable[LoadedRun]:
    """Put the messages into the composer; yield what the index takes in of them."""
    for _, group in groupby(messages, key=record_key):
        part = list(group)
        queue, producer = part[0].queue, part[0].producer_id
        template = encode.queue(queue)
        properties = [encode_properties(message.properties) for message in part]
        payloads = [encode.payload(message.payload, p) for message, p in zip(part, properties, strict=True)]
        terms = term_columns(part)
        composer.add(
            Added(
                queue=template.name,
                payloads=payloads,
                properties=properties if any(properties) else None,
                producer=encode.producer(producer),
                flags=MOVED,
                numbers=[message.number for message in part],
                first_times=[message.added_us for message in part],
                terms=terms,
            )
        )
        sizes = [len(payload) + len(p) for payload, p in zip(payloads, properties, strict=True)]
        yield LoadedRun(template, np.array([message.number for message in part], np.uint64), sizes, terms)
