"""A worker: take orders as they come, write an invoice for each, until SIGTERM or Ctrl-C.

    python worker.py spool

The invoice, the delivery of the order and the count are one commit: all three are there, or none is. An order that
fails comes again, each time after twice as long; the third time it moves to "orders put aside". A worker that is killed
in the middle of an order gets the order again when it is started again, three times at most. So work that leaves the
database (a letter that is sent, a card that is charged) can happen twice: give it the number of the order, which does
not change.

The program has one thread. Several threads could read the same count, and one increment would be lost: they would have
to hold a lock from `get` until the block has ended.
"""

import contextlib
import math
import signal
import sys

from oms_journal import Message, MessageDatabase

ATTEMPTS = 3
DELAY_SECONDS = 0.2  # before the second attempt


def make_invoice(order: Message) -> bytes:
    if not order.payload:
        raise ValueError("an order without a word")
    return b"invoice for " + order.payload


def work(db: MessageDatabase, order: Message) -> None:
    invoice = make_invoice(order)
    with db.commit() as commit:
        commit.add("invoices", invoice, properties={"order": str(order.number)})
        commit.put("invoices written", b"%d" % (int(db.get("invoices written") or b"0") + 1))
        commit.deliver(order)
    print(f"order {order.number}: {invoice.decode()}", flush=True)


def stop(signal_number: int, frame: object) -> None:
    raise SystemExit(0)


def main(spool: str) -> None:
    signal.signal(signal.SIGTERM, stop)
    with MessageDatabase.open(spool, max_attempts=ATTEMPTS, dead_letter="orders put aside") as db:
        print("ready", flush=True)
        while (order := db.take("orders", wait=math.inf)) is not None:
            try:
                work(db, order)
            except ValueError as failure:
                db.release(order, delay=DELAY_SECONDS * 2**order.attempts, reason=str(failure))
                print(f"order {order.number} failed, attempt {order.attempts + 1}: {failure}", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
