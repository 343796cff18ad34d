"""The worker of `oms long-uow`, a process of its own: it waits for units of work, and does their pages one by one.

Its argument is a file that it adds a line to for each page it has done: UOWID, page, digest. Its standard input is its
line to the broker. It reports what it does, and ends when the broker has gone.
"""

import hashlib
import sys
import time
from pathlib import Path

from oms_journal.broker.sessions.requests import Message
from oms_journal.broker.sessions.session_parts import ReceivedUnit
from oms_journal.broker.sessions.sessions import Session
from oms_journal.cli.demo.children import report
from oms_journal.cli.demo.long_uow.line import Line, ending_with_the_broker
from oms_journal.cli.demo.long_uow.work import SERVICE, Progress, work

PAGE_SECONDS = 0.03  # what a page takes
WAIT_SECONDS = 1.0  # for a unit of work, before it is asked for again


class Worker:
    """Who does the pages. He notes each in a file that outlives him."""

    def __init__(self, results: Path) -> None:
        self._results = results

    def run(self) -> None:
        """Do unit of work after unit of work. BrokerError, at the latest when the broker has gone."""
        with Session(Line.of_standard_input(), "WORKER", "W1", {}) as session:
            session.register(SERVICE)
            while True:
                unit = session.receive_unit(SERVICE, wait=WAIT_SECONDS)
                if unit is not None:
                    self._work(unit)

    def _work(self, unit: ReceivedUnit) -> None:
        done = Progress.read(unit.user_status)
        report({"begins": unit.uowid, "done": done.done, "deliveries": unit.delivery_count})
        status = work(unit, self._page)
        report({"ends": unit.uowid, "status": status.status.name, "user_status": status.user_status})

    def _page(self, number: int, message: Message) -> None:
        time.sleep(PAGE_SECONDS)
        digest = hashlib.sha256(message.body).hexdigest()
        with self._results.open("a", encoding="ascii") as results:
            results.write(f"{message.uowid} {number} {digest}\n")
        report({"page": number, "uowid": message.uowid})


def main() -> None:
    """Work until the broker has gone."""
    with ending_with_the_broker():
        Worker(Path(sys.argv[1])).run()


if __name__ == "__main__":
    main()
