"""A unit of work for every row of the restart tables, in a real store.

    python -m tests.support.broker.restart_rows journal|sqlite PATH close|kill

Each row has a service and two participants of its own, so that all of them fit into one broker. The process starts a
broker on an empty store, brings what is to be DISCARDED to where a restart does it, starts again, brings every other
row to its status, and prints the UOWIDs. Then it ends as a broker does (`close`), or waits to be killed (`kill`).
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from oms_journal.broker.block import Option
from oms_journal.broker.block import Store as Stored
from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.sqlite import SqliteStore
from oms_journal.broker.kernel.restart.restore import restore
from oms_journal.broker.kernel.state.effects import Answer, Durable, split_properties
from oms_journal.broker.kernel.state.effects import Stored as StoredBody
from oms_journal.broker.kernel.state.unit_states import VARIATIONS, Variation
from oms_journal.broker.records import Status
from oms_journal.broker.store.start import (
    PersistentStore,
    Pstore,
    StartedStore,
    StoreStart,
    start_store,
    write_termination,
)
from oms_journal.database.options import Options
from tests.support.broker.kernel_desk import T0, Desk, Fields, Person, Said, attributes

BROKER_ID = "ETB001"
LIFETIME = 3600  # seconds, of all but those that are to time out
SHORT_LIFETIME = 1
USTATUS = "half done"


class Row(NamedTuple):
    """A row of a restart table, in one direction."""

    status: Status
    variation: Variation
    is_reply: bool

    def __str__(self) -> str:
        persistent = [word for word, is_so in zip(("uow", "status"), self.variation, strict=True) if is_so]
        return f"{self.status.name}-{'+'.join(persistent) or 'nothing'}-{'reply' if self.is_reply else 'request'}"


def _rows() -> Iterator[Row]:
    """Yield every row. DISCARDED there is only where the status is persistent and the unit of work is not."""
    for status in Status:
        for variation in VARIATIONS:
            if status is not Status.DISCARDED or variation == Variation(False, True):
                yield from (Row(status, variation, is_reply) for is_reply in (False, True))


ROWS = list(_rows())


class RealDesk(Desk):
    """A desk whose store is a real one."""

    def __init__(self, store: PersistentStore, pstore: Pstore) -> None:
        self.store = store
        self.begun: StartedStore = start_store(store, StoreStart(broker_id=BROKER_ID, pstore=pstore, now=T0))
        given = attributes(
            postpone_attempts="1",
            max_delivery_count="1",
            postpone_delay="1H",
            conv_nonact="UNLIM",
            client_nonact="UNLIM",
            server_nonact="UNLIM",
        )
        super().__init__(given, restore(store, now=T0), self.begun.master.starts)

    def settle(self, count: int = 1_000_000) -> None:
        while self.commits:
            commit = self.commits.popleft()
            self._one(Durable(commit.ticket, self.store.commit(commit.changes)))

    def _read(self, answer: Answer) -> Said:
        if not answer.bodies or not isinstance(answer.bodies[0], StoredBody):
            return super()._read(answer)
        message = self.store.read(answer.bodies[0].number)
        return Said(answer.reply, message.payload, split_properties(answer.reply, message.properties))

    def close(self) -> None:
        """End as a broker does."""
        write_termination(self.store, self.begun, now=T0)
        self.store.close()


class Pair:
    """The two participants of a row."""

    def __init__(self, desk: Desk, row: Row) -> None:
        place = ROWS.index(row)
        self.desk, self.row = desk, row
        self.names: Fields = {"server_class": "GAME", "server_name": f"ROW{place}", "service": "S"}
        self.client = Person(desk, f"WHITE{place}", "T", caller=2 * place + 1)
        self.server = Person(desk, f"BLACK{place}", "T", caller=2 * place + 2)
        assert self.server.register(**self.names).code is Code.OK
        self.sender, self.receiver = (self.server, self.client) if row.is_reply else (self.client, self.server)

    def bring(self, status: Status) -> Said:
        """Bring a unit of work into the status; return the SEND's answer."""
        conv_id = self._begun() if self.row.is_reply else "NEW"
        variation = self.row.variation
        lifetime = SHORT_LIFETIME if status is Status.TIMEOUT else LIFETIME
        sent = self.sender.send(
            str(self.row).encode(),
            Option.SYNC,
            conv_id,
            store=Stored.BROKER if variation.uow else Stored.OFF,
            uwstatp=2 if variation.status else 255,
            uwtime=f"{lifetime}S",
            ustatus=USTATUS,
            **({} if self.row.is_reply else self.names),
        )
        if status is Status.RECEIVED:
            return sent
        self.by_sender(Option.BACKOUT if status is Status.BACKEDOUT else Option.COMMIT, sent)
        if status is Status.CANCELLED:
            self.by_sender(Option.CANCEL, sent)
        elif status in (Status.DELIVERED, Status.PROCESSED, Status.POSTPONED):
            assert self.receive(sent).code is Code.OK
            if status is not Status.DELIVERED:
                option = Option.COMMIT if status is Status.PROCESSED else Option.BACKOUT
                assert self.receiver.sync(option, sent.uowid).code is Code.OK
        return sent

    def by_sender(self, option: Option, sent: Said) -> None:
        assert self.sender.sync(option, sent.uowid).code is Code.OK

    def _begun(self) -> str:
        """Return a conversation in which the server can answer; nothing of it is stored."""
        opening = self.client.send(b"opening", store=Stored.OFF, uwstatp=255, **self.names)
        self.server.receive(**self.names)
        assert self.server.sync(Option.COMMIT, opening.uowid).code is Code.OK
        return opening.conv_id

    def receive(self, sent: Said) -> Said:
        return self.receiver.receive(sent.conv_id) if self.row.is_reply else self.receiver.receive("ANY", **self.names)


def opened(kind: str, path: Path) -> PersistentStore:
    return JournalStore.open(path, Options()) if kind == "journal" else SqliteStore.open(path / "file")


def played(kind: str, path: Path) -> tuple[RealDesk, dict[str, tuple[str, str]]]:
    """Return a desk on whose store every row is in its status, and UOWID and CONV-ID by row."""
    sent: dict[Row, Said] = {}
    first = RealDesk(opened(kind, path), Pstore.COLD)
    for row in ROWS:
        if row.status is Status.DISCARDED:
            sent[row] = Pair(first, row).bring(Status.ACCEPTED)
    first.close()
    desk = RealDesk(opened(kind, path), Pstore.HOT)
    for row in ROWS:
        if row.status is not Status.DISCARDED:
            sent[row] = Pair(desk, row).bring(row.status)
    desk.tick(SHORT_LIFETIME)
    return desk, {str(row): (said.uowid, said.conv_id) for row, said in sent.items()}


def main() -> None:
    kind, path, how = sys.argv[1:]
    desk, said = played(kind, Path(path))
    if how == "close":
        desk.close()
    sys.stdout.write(f"{json.dumps(said)}\n")
    sys.stdout.flush()
    while how == "kill":
        time.sleep(60)


if __name__ == "__main__":
    main()
