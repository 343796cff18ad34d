"""Records of a store that say most by being there: that it was restored, or loaded, or is being loaded."""

import logging
from collections.abc import Callable

from oms_journal.broker.store.errors import MessageUnreadable

_log = logging.getLogger("oms.broker")
NOTHING_SAID = b"{}"  # of where it came from


def mark(record: Callable[[str], bytes | None], key: str) -> bytes | None:
    """Return the value of the record under the key, `NOTHING_SAID` where it is damaged, None where there is none.

    StoreUnavailable.
    """
    try:
        return record(key)
    except MessageUnreadable:
        _log.error("LOST: what %s says is damaged; it is there, and that counts", key)
        return NOTHING_SAID
