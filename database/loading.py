"""Taking in messages of another database as they are: under their own numbers, with their times and identifiers.

What is written is what compaction writes when it moves a message, so every reader knows it. The duplicate window is
not taken along: identifiers stay with their messages, and whether one was seen is counted from now on.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise

import numpy as np

from database.database import MessageDatabase
from database.encode import Encoder
from database.ledger import Effect, LoadedRun
from journal.draft import Added, Composer
from journal.message import Message
from journal.records import MOVED, encode_properties


def load(database: MessageDatabase, messages: Sequence[Message], values: Mapping[str, bytes]) -> None:
    """Write messages and keys in one commit. Their numbers ascend, behind every number the database has given.

    For a time when nobody else writes. ValueError for a number that is not behind the others.
    """
    numbers = [message.number for message in messages]
    look = database.look()
    with look.ledger.lock:
        last = look.ledger.index.highest_number()
    if any(before >= number for before, number in pairwise([last, *numbers])):
        raise ValueError(f"messages are loaded in the order of their numbers, behind {last}, not {numbers[:3]}…")
    encode = database.drafting.encode
    composer = Composer()
    loaded = list(_added(composer, encode, messages))
    for key, value in values.items():
        composer.put(encode.key(key), encode.value(value))
    draft = composer.draft()
    draft.has_add = bool(messages)  # refused where the disk is full, as any other
    draft.numbers_end = numbers[-1] + 1 if numbers else 0
    draft.effect = Effect(puts=[key.encode() for key in values], loaded=loaded)
    database.write(draft)


def _added(composer: Composer, encode: Encoder, messages: Sequence[Message]) -> Iterable[LoadedRun]:
    """Put the messages into the composer; yield what the index takes in of them."""
    for (queue, producer), group in groupby(messages, key=lambda message: (message.queue, message.producer_id)):
        part = list(group)
        template = encode.queue(queue)
        properties = [encode_properties(message.properties) for message in part]
        payloads = [encode.payload(message.payload, len(p)) for message, p in zip(part, properties, strict=True)]
        composer.add(
            Added(
                queue=template.name,
                payloads=payloads,
                properties=properties if any(properties) else None,
                producer=encode.producer(producer),
                flags=MOVED,
                numbers=[message.number for message in part],
                first_times=[message.added_us for message in part],
            )
        )
        sizes = [len(payload) + len(p) for payload, p in zip(payloads, properties, strict=True)]
        yield LoadedRun(template.place, np.array([message.number for message in part], np.uint64), sizes)
