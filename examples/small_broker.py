"""A small broker: a shop sends orders, two workers handle them and answer, each on a thread of its own.

    python examples/small_broker.py [DIRECTORY]

The orders lie in the directory, by default `small-broker-store`. You may press Ctrl-C or kill the program at any time:
what was left is handled when you start it again.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from oms_journal import Broker, BrokerError

SERVICE = "SHOP/ORDERS/NEW"
ORDERS = ([b"3 apples"], [b"2 pears", b"1 melon"], [b"12 eggs"])
WORKERS = ("W1", "W2")


def send_orders(broker: Broker) -> list[str]:
    """Send each order as a unit of work, and return the conversations that the answers come in."""
    conversations = []
    with broker.session("ALICE", token="SHOP") as shop:
        for lines in ORDERS:
            with shop.unit_of_work(SERVICE, lifetime="1D", status_lifetimes=2) as order:
                for line in lines:
                    order.send(line)
            conversations.append(order.conv_id)
    return conversations


def handle_orders(broker: Broker, token: str, closing: threading.Event) -> None:
    """Handle orders until the shop closes. An order that is not answered comes again."""
    with broker.session("BOB", token=token) as worker:
        worker.register(SERVICE)
        while not closing.is_set():
            for order in worker.receive_units(wait=0.2):
                with order:  # committed together with the answer, or given back by an exception
                    lines = [message.body.decode() for message in order]
                    order.answer(f"on its way: {', '.join(lines)}".encode())


def receive_answer(broker: Broker, conversation: str) -> str:
    """Wait for the answer in a conversation, and return it."""
    with broker.session("ALICE", token="SHOP") as shop:
        answer = shop.receive_unit(conv_id=conversation, wait=30)
        if answer is None:
            return "no worker has answered for 30 seconds"
        with answer:
            return b", ".join(message.body for message in answer).decode()


@contextmanager
def working(broker: Broker) -> Iterator[None]:
    """Have the workers work while the block goes on."""
    closing = threading.Event()
    workers = [threading.Thread(target=handle_orders, args=(broker, token, closing)) for token in WORKERS]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        closing.set()
        for worker in workers:
            worker.join()


def main(directory: str) -> None:
    """Run the shop once."""
    with Broker.open(directory) as broker, working(broker):
        for conversation in send_orders(broker):
            sys.stdout.write(f"{receive_answer(broker, conversation)}\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "small-broker-store")
    except BrokerError as refused:
        sys.exit(f"{refused.code.value} {refused.text}")
