"""A worker: take orders, write an invoice for each, until SIGTERM or Ctrl-C.

    python worker.py spool

The invoice, the delivery of the order and the count are one commit: all three are there, or none is. A worker that is
killed in the middle of an order gets the order again when it is started again. So work that leaves the database (a
letter that is sent, a card that is charged) can happen twice: give it the number of the order, which does not change.

The program has one thread. Several threads could read the same count, and one increment would be lost: they would have
to hold a lock from `get` until the block has ended.
"""

import signal
import sys
import time

from oms_journal import Message, MessageDatabase

POLL_SECONDS = 0.2
ATTEMPTS = 3


def make_invoice(order: Message) -> bytes:
    if not order.payload:
        raise ValueError("an order without a word")
    return b"invoice for " + order.payload


def work(db: MessageDatabase, order: Message) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            invoice = make_invoice(order)
            break
        except ValueError as failure:
            if attempt < ATTEMPTS:
                time.sleep(POLL_SECONDS)
                continue
            print(f"order {order.number} is put aside: {failure}", flush=True)
            with db.commit() as commit:
                commit.add("orders put aside", order.payload, properties={"why": str(failure)})
                commit.deliver(order)
            return
    with db.commit() as commit:
        commit.add("invoices", invoice, properties={"order": str(order.number)})
        commit.put("invoices written", b"%d" % (int(db.get("invoices written") or b"0") + 1))
        commit.deliver(order)
    print(f"order {order.number}: {invoice.decode()}", flush=True)


def stop(signal_number: int, frame: object) -> None:
    raise SystemExit(0)


def main(spool: str) -> None:
    signal.signal(signal.SIGTERM, stop)
    with MessageDatabase.open(spool) as db:
        print("ready", flush=True)
        while True:
            order = db.take("orders")
            if order is None:
                time.sleep(POLL_SECONDS)
            else:
                work(db, order)


if __name__ == "__main__":
    main(*sys.argv[1:])
