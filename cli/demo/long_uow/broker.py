"""The process of `oms long-uow` that has the broker: it serves the lines that it is handed, until nobody hands it more.

Its argument is the spool directory, its standard input the control socket. It says when it is ready.
"""

import socket
import sys
import threading
from pathlib import Path

from oms_journal.cli.demo.broker import opened
from oms_journal.cli.demo.children import report
from oms_journal.cli.demo.long_uow.line import STANDARD_INPUT, handed_over, serve
from oms_journal.cli.failures import Failure, tell

BROKER_ID = "LONGUOW"
# The status of each unit of work is kept for ten times its lifetime of a day.
ATTRIBUTES = {"uwtime": "1D", "uwstatp": "10", "max_data_file_size": "1M"}


def main() -> None:
    """Serve until the control socket ends."""
    try:
        with (
            opened(Path(sys.argv[1]), BROKER_ID, **ATTRIBUTES) as broker,
            socket.socket(fileno=STANDARD_INPUT) as control,
        ):
            report({"ready": True})
            for connection in handed_over(control):
                threading.Thread(target=serve, args=(broker, connection), daemon=True).start()
    except Failure as failure:
        tell(failure, as_json=False)
        sys.exit(failure.code)


if __name__ == "__main__":
    main()
