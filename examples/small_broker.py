"""A small broker in one program: a client sends a unit of work, a server answers it, and both are on disk.

    python small_broker.py store

A unit of work is a group of messages that is sent and received as a whole. Its persistent status tells the sender
what became of it, also after the messages are gone.
"""

import sys

from oms_journal import Broker

SERVICE = "SHOP/ORDERS/TAKE"  # class, server and service


def main(store: str) -> None:
    with Broker.open(store) as broker:
        with (
            broker.session("CLIENT", token="C1") as client,
            client.unit_of_work(SERVICE, lifetime="1D", status_lifetimes=2) as order,
        ):
            order.send(b"2 coffee")
            order.send(b"1 tea")
        with broker.session("SERVER", token="S1") as server:
            server.register(SERVICE)
            for unit in server.receive_units(wait=0.1):
                with unit:
                    wanted = [message.body.decode() for message in unit]
                    unit.answer(f"made: {', '.join(wanted)}".encode())
        with broker.session("CLIENT", token="C1") as client:
            print("the order is", client.query(order.uowid).status.name)
            for unit in client.receive_units(conv_id=order.conv_id):
                with unit:
                    print([message.body.decode() for message in unit])


if __name__ == "__main__":
    main(*sys.argv[1:])
