"""The sender of `oms long-uow`, a process of its own: it sends one unit of work, watches it, and may want it stopped.

Its arguments are its TOKEN, the number of pages, and after how many it wants the work stopped, 0 for never; its
standard input is its line to the broker. Started again it finds its unit of work by SYNCPOINT OPTION=LAST. It reports
what it hears, and ends when the unit of work is complete or the broker has gone.
"""

import sys

from oms_journal.broker.sessions.requests import UnitStatus
from oms_journal.broker.sessions.sessions import Session
from oms_journal.cli.demo.children import report
from oms_journal.cli.demo.long_uow.line import Line, ending_with_the_broker
from oms_journal.cli.demo.long_uow.work import COMPLETE, sent, watch


def pages_of(token: str, count: int) -> list[bytes]:
    """Return what the unit of work of a token consists of."""
    return [f"{token}, page {number} of {count}".encode() for number in range(1, count + 1)]


def main() -> None:
    """Send the unit of work or find it again, and watch it until it is complete."""
    token, count, stop_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

    def hear(status: UnitStatus) -> None:
        words = {"token": token, "uowid": status.uowid, "hears": status.status.name, "user_status": status.user_status}
        report(words | {"is_complete": status.status in COMPLETE})

    with ending_with_the_broker(), Session(Line.of_standard_input(), "SENDER", token, {}) as session:
        watch(session, sent(session, pages_of(token, count)), stop_at=stop_at, hear=hear)


if __name__ == "__main__":
    main()
