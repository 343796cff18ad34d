"""The restart tables: what a restart leaves of a unit of work, by its status and by what of it is persistent."""

from collections.abc import Mapping
from typing import NamedTuple

from oms_journal.broker.kernel.state.unit_states import (
    ACCEPTED,
    BACKEDOUT,
    CANCELLED,
    DELIVERED,
    DISCARDED,
    POSTPONED,
    PROCESSED,
    RECEIVED,
    TIMEOUT,
    Variation,
)
from oms_journal.broker.records import Status


class RestartOutcome(NamedTuple):
    """What a restart makes of a unit of work; status None: no trace of it."""

    is_uow: bool  # the unit of work itself is there again
    status: Status | None


NOTHING = RestartOutcome(False, None)

# What becomes of these depends on what of the unit of work is persistent.
RESTART_1: Mapping[tuple[Status, Variation], RestartOutcome] = {
    (RECEIVED, Variation(True, True)): RestartOutcome(False, BACKEDOUT),
    (RECEIVED, Variation(True, False)): NOTHING,
    (RECEIVED, Variation(False, True)): RestartOutcome(False, DISCARDED),
    (RECEIVED, Variation(False, False)): NOTHING,
    (ACCEPTED, Variation(True, True)): RestartOutcome(True, ACCEPTED),
    (ACCEPTED, Variation(True, False)): RestartOutcome(True, ACCEPTED),
    (ACCEPTED, Variation(False, True)): RestartOutcome(False, DISCARDED),
    (ACCEPTED, Variation(False, False)): NOTHING,
    (DELIVERED, Variation(True, True)): RestartOutcome(True, ACCEPTED),
    (DELIVERED, Variation(True, False)): RestartOutcome(True, ACCEPTED),
    (DELIVERED, Variation(False, True)): RestartOutcome(False, DISCARDED),
    (DELIVERED, Variation(False, False)): NOTHING,
    (PROCESSED, Variation(True, True)): RestartOutcome(False, PROCESSED),
    (PROCESSED, Variation(True, False)): NOTHING,
    (PROCESSED, Variation(False, True)): RestartOutcome(False, PROCESSED),
    (PROCESSED, Variation(False, False)): NOTHING,
}
# Of these only a persistent status exists, whatever the unit of work was, and it stays.
RESTART_2: Mapping[Status, Status] = {
    CANCELLED: CANCELLED,
    DISCARDED: DISCARDED,
    BACKEDOUT: BACKEDOUT,
    TIMEOUT: TIMEOUT,
}
# A status that later releases brought: it stays until its delay is over, which no downtime shortens.
RESTART_POSTPONED: Mapping[Variation, RestartOutcome] = {
    Variation(True, True): RestartOutcome(True, POSTPONED),
    Variation(True, False): RestartOutcome(True, POSTPONED),
    Variation(False, True): RestartOutcome(False, DISCARDED),
    Variation(False, False): NOTHING,
}


def after_restart(status: Status, variation: Variation) -> RestartOutcome:
    """Return what a restart leaves."""
    if status is POSTPONED:
        return RESTART_POSTPONED[variation]
    if status in RESTART_2:
        return RestartOutcome(False, RESTART_2[status]) if variation.status else NOTHING
    return RESTART_1[status, variation]
