"""Messages with terms in a database, through the engine's inside: no verb of a caller's adds them."""

from collections.abc import Mapping, Sequence

from oms_journal import MessageDatabase
from oms_journal.journal.format.records import Added, TermColumns, encode_properties
from oms_journal.journal.writing.draft import CommitBuilder


def add_on_terms(
    db: MessageDatabase,
    queue: str,
    payloads: Sequence[bytes],
    terms: TermColumns,
    *,
    properties: Mapping[str, str] | None = None,
) -> list[int]:
    """Add the messages in one record, each with its own terms; return their numbers."""
    template, encoded = db._drafting.encode.queue(queue), encode_properties(properties or {})
    composer = CommitBuilder()
    composer.add(
        Added(
            queue=template.name,
            payloads=payloads,
            properties=[encoded] * len(payloads) if properties is not None else None,
            terms=terms,
        )
    )
    draft = composer.draft()
    draft.runs = ((template, [len(encoded) + len(payload) for payload in payloads]),)
    db._write(draft)
    return list(range(draft.first, draft.first + len(payloads)))
