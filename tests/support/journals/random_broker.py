"""Journals that a broker has written: its kernel, driven by random calls, on the message database."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from oms_journal.broker.attributes.attributes import Attributes, built_in
from oms_journal.broker.block import BOTH, Function, Option, Reply, Request, Store
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.kernel.kernel import Kernel
from oms_journal.broker.kernel.restart.restore import restore
from oms_journal.broker.kernel.state.effects import (
    Answer,
    Call,
    Commit,
    Durable,
    Effect,
    Expect,
    Gone,
    Input,
    Log,
    Tick,
)
from oms_journal.broker.store.changes import Changes, filled
from oms_journal.broker.store.report import ReportLine
from oms_journal.broker.store.start import Pstore, StartedStore, StoreStart, start_store, write_termination
from oms_journal.database.options import Options
from tests.support.disks.watched_disk import HandClock, WatchedDisk

Person = tuple[str, str]  # USER-ID and TOKEN
T = TypeVar("T")
SECOND = 1_000_000
SMALL = 15_584  # bytes of a data file
SERVICES = (("GAME", "CHESS", "BLACK"), ("BANK", "PAY/MENT~S", "BOOK"), ("<b>", "Übung", "a b"))
TOPICS = ("NEWS", "a/b")
WHITES = (("WHITE", "T1"), ("WHITE", "T2"), ("ÉMILE", ""))
BLACKS = (("BLACK", "B1"), ("BLACK", "B2"))
READERS = (("READER", "R1"), ("READER", "R2"), ("LATE", ""))
VARIATIONS = ((Store.BROKER, 0), (Store.BROKER, 3), (Store.OFF, 2), (Store.OFF, 0))
WAITS = (0.5, 3.0, 20.0, 90.0, 400.0)
BROKER_ID = "ETB001"


def attributes() -> Attributes:
    """Return the built-in attributes, with little patience."""
    given = {"max_delivery_count": "2", "postpone_attempts": "1", "postpone_delay": "30S"}
    given |= dict.fromkeys(("client_nonact", "server_nonact", "conv_nonact", "subscriber_nonact"), "1D")
    return built_in(broker_id=BROKER_ID, publication_lifetime="10M", subscription_expiration="2H", **given)


OUT_OF_TURN = 8  # publications of which some are acknowledged before older ones


class Talk(NamedTuple):
    """A conversation, and its client."""

    conv_id: str
    client: Person


class Unit(NamedTuple):
    """A unit of work, and somebody who may say something of it."""

    uowid: str
    person: Person


class BrokerWriter:
    """Writes what a broker does with random calls into one directory, through several starts."""

    def __init__(
        self,
        spool: Path,
        seed: int,
        *,
        retention: Path | None = None,
        variations: tuple[tuple[Store, int], ...] = VARIATIONS,
        **named: Any,
    ) -> None:
        """`variations` are what units of work may have persistent; `named` are options of the database."""
        self.spool = spool
        self.clock = HandClock()
        self._rng = random.Random(seed)
        self._variations = variations
        self._named: dict[str, Any] = {
            "max_data_file_size": SMALL,
            "cleanup_interval": 0,
            "compact_share": 0,
            "retention_directory": retention,
            "clock": self.clock,
            **named,
        }
        self._talks: list[Talk] = []
        self._units: list[Unit] = []
        self._handles = 0
        self._answers: dict[int, Reply] = {}
        self._steps: tuple[tuple[int, Callable[[], None]], ...] = (
            (26, self._send),
            (24, self._serve),
            (10, self._collect),
            (12, self._settle),
            (5, self._tell),
            (8, self._publish),
            (12, self._read),
            (2, self._subscribe),
            (1, self._unsubscribe),
            (14, self._wait),
            (2, self._end_talk),
            (1, self._clean_up),
        )

    def write(self, *, starts: int = 3, steps: int = 120, erases: bool = False) -> None:
        """Start the broker several times and call it; `erases` begins the last start cold, which ends by a kill."""
        for number in range(1, starts + 1):
            begun = self.start(erases=erases and number == starts)
            weights, chosen = zip(*self._steps, strict=True)
            for step in self._rng.choices(chosen, weights, k=steps):
                step()
            self._leave_some()
            self.stop(begun if number < starts and self._rng.random() < 0.7 else None)

    def start(self, *, erases: bool = False) -> StartedStore:
        """Open the store, and let everybody log on."""
        self.clock.advance(self._rng.choice(WAITS))
        disk = WatchedDisk()
        disk.syncs = False
        self._store = JournalStore.open(self.spool, Options(**self._named), disk=disk)
        wanted = StoreStart(
            broker_id=BROKER_ID,
            pstore=Pstore.COLD if erases else Pstore.WARM,
            now=self.clock.now,
            version="1.2",
            job="host 17",
            platform="Linux x86_64",
            erase=BROKER_ID,
        )
        begun = start_store(self._store, wanted)
        found = restore(self._store, now=self.clock.now)
        self._kernel = Kernel(attributes(), found, begun.identifiers)
        for caller, (user, token) in enumerate((*WHITES, *BLACKS, *READERS)):
            self.call(Function.LOGON, user_id=user, token=token, caller=caller)
        for black in BLACKS:
            for service in SERVICES:
                self.call(Function.REGISTER, **_who(black), **_of(service))
        return begun

    def stop(self, begun: StartedStore | None) -> None:
        """End the broker; without what `start` has returned as if it were killed."""
        if begun is not None:
            for caller in range(len((*WHITES, *BLACKS, *READERS))):
                self.give(Gone(caller))
            self.clock.advance(1)
            write_termination(self._store, begun, now=self.clock.now, job="host 17")
        self._store.close()

    def give(self, given: Input) -> None:
        """Hand an input to the kernel, and carry out what it wants done."""
        waiting: list[Effect] = self._kernel.take(given, self.clock.now)
        while waiting:
            match waiting.pop(0):
                case Answer(handle, reply):
                    self._answers[handle] = reply
                case Commit(ticket, changes):
                    waiting += self._kernel.take(Durable(ticket, self._commit(changes)), self.clock.now)
                case Log(_, text):
                    assert "a mistake of the broker itself" not in text, text
                case Expect():
                    pass  # whoever tests lets time pass
                case ReportLine():
                    pass

    def _commit(self, changes: Changes) -> int:
        self.clock.advance(0.001)
        return self._store.commit(filled(changes, self._store.read))

    def call(self, function: Function, option: Option = Option.NONE, *, caller: int, **fields: Any) -> Reply:
        """Call, and return the answer."""
        self._handles += 1
        self.give(Call(Request(function=function, option=option, **fields), caller, self._handles))
        return self._answers[self._handles]

    def _leave_some(self) -> None:
        """Leave something in every status that is not an end; of a topic, what somebody has, also out of turn."""
        service, white, black = SERVICES[0], _who(WHITES[0]), _who(BLACKS[0])
        names, status = _of(service), {"store": Store.BROKER, "uwstatp": 1}
        for receipts in (2, 1):
            sent = self.call(Function.SEND, Option.COMMIT, conv_id="NEW", body=b"x", **names, **white, **status)
            for _ in range(receipts):
                unit = self.call(Function.RECEIVE, Option.SYNC, conv_id="NEW", **names, **black)
                while unit.uowid not in ("", sent.uowid):  # what waited before it
                    self.call(Function.SYNCPOINT, Option.COMMIT, uowid=unit.uowid, **black)
                    unit = self.call(Function.RECEIVE, Option.SYNC, conv_id="NEW", **names, **black)
                if receipts == 2:
                    self.call(Function.SYNCPOINT, Option.BACKOUT, uowid=sent.uowid, **black)
        for option in (Option.SYNC, Option.COMMIT):
            self.call(Function.SEND, option, conv_id="NEW", body=b"x", **names, **white, **status)
        topic = TOPICS[0]
        for reader in READERS[:2]:
            self.call(Function.SUBSCRIBE, Option.DURABLE, topic=topic, **_who(reader))
        for readers in (READERS, READERS[:1]):
            said: dict[str, Any] = {"topic": topic, "publication_id": "NEW"}
            self.call(Function.SEND_PUBLICATION, Option.COMMIT, body=b"x", **said, **white)
            for reader in readers:
                while found := self.call(Function.RECEIVE_PUBLICATION, **said, **_who(reader)).publication_id:
                    named = {**said, "publication_id": found, **_who(reader)}
                    self.call(Function.CONTROL_PUBLICATION, Option.COMMIT, **named)
        for _ in range(OUT_OF_TURN):
            self.call(Function.SEND_PUBLICATION, Option.COMMIT, body=b"x", **said, **white)
        who = _who(READERS[0])
        got = [self.call(Function.RECEIVE_PUBLICATION, **said, **who).publication_id for _ in range(OUT_OF_TURN)]
        for publication_id in (got[2], got[4], got[5], got[6]):
            self.call(Function.CONTROL_PUBLICATION, Option.COMMIT, **{**said, "publication_id": publication_id}, **who)

    # What people do.

    def _one(self, known: list[T]) -> T:
        """Return one of the newest."""
        return self._rng.choice(known[-15:])

    def _said(self) -> dict[str, Any]:
        store, uwstatp = self._rng.choice(self._variations)
        fields: dict[str, Any] = {"store": store, "uwstatp": uwstatp or 255}
        if self._rng.random() < 0.4:
            fields["uwtime"] = self._rng.choice(("20S", "2M", "1H"))
        if self._rng.random() < 0.2:
            fields["ustatus"] = self._rng.choice(("25%", "<i>läuft"))
        return fields

    def _send(self) -> None:
        """Let a client send, to a service or on in a conversation."""
        where: dict[str, Any] = {"conv_id": "NEW", **_of(self._rng.choice(SERVICES))}
        client = self._rng.choice(WHITES)
        if self._talks and self._rng.random() < 0.4:
            talk = self._one(self._talks)
            client, where = talk.client, {"conv_id": talk.conv_id}
        for _ in range(self._rng.choice((1, 1, 3))):
            option = self._rng.choice((Option.SYNC, Option.COMMIT, Option.COMMIT))
            body = self._rng.randbytes(self._rng.randrange(1, 300))
            reply = self.call(Function.SEND, option, body=body, **_who(client), **where, **self._said())
            if reply.uowid:
                self._units.append(Unit(reply.uowid, client))
                where = {"conv_id": reply.conv_id}
                self._talks.append(Talk(reply.conv_id, client))

    def _serve(self) -> None:
        """Let a server receive what waits for it, and do something with it."""
        black = self._rng.choice(BLACKS)
        where: dict[str, Any] = {"conv_id": self._rng.choice(("NEW", "NEW", "ANY", "OLD"))}
        reply = self.call(Function.RECEIVE, Option.SYNC, **_who(black), **where, **_of(self._rng.choice(SERVICES)))
        if not reply.uowid:
            return
        self._units.append(Unit(reply.uowid, black))
        self._read_on(black, reply.conv_id)
        if self._rng.random() < 0.4:
            option = self._rng.choice((Option.SYNC, Option.COMMIT, Option.COMMIT))
            said = {"conv_id": reply.conv_id, "body": b"answer", **self._said()}
            sent = self.call(Function.SEND, option, **_who(black), **said)
            if sent.uowid:
                self._units.append(Unit(sent.uowid, black))
        if self._rng.random() < 0.75:
            self._finish(black, reply.uowid)

    def _collect(self) -> None:
        """Let a client have an answer."""
        if self._talks:
            talk = self._one(self._talks)
            said = {"conv_id": talk.conv_id, **_who(talk.client)}
            reply = self.call(Function.RECEIVE, Option.SYNC, **said)
            if reply.uowid:
                self._units.append(Unit(reply.uowid, talk.client))
                self._read_on(talk.client, talk.conv_id)
                self._finish(talk.client, reply.uowid)

    def _read_on(self, person: Person, conv_id: str) -> None:
        for _ in range(3):
            self.call(Function.RECEIVE, Option.SYNC, conv_id=conv_id, **_who(person))

    def _finish(self, person: Person, uowid: str) -> None:
        option = self._rng.choice((Option.COMMIT,) * 6 + (Option.BACKOUT,) * 3 + (Option.CANCEL,))
        if self._rng.random() < 0.1:
            option, uowid = Option.COMMIT, BOTH
        self.call(Function.SYNCPOINT, option, uowid=uowid, **_who(person))

    def _settle(self) -> None:
        """Let somebody commit, back out, cancel, forget or end with what it may have."""
        if self._units:
            unit = self._one(self._units)
            options = (Option.COMMIT,) * 4 + (Option.BACKOUT, Option.CANCEL, Option.DELETE, Option.EOC)
            option = self._rng.choice((*options, Option.EOCCANCEL))
            self.call(Function.SYNCPOINT, option, uowid=unit.uowid, **_who(unit.person))

    def _tell(self) -> None:
        if self._units:
            unit, ustatus = self._one(self._units), self._rng.choice(("50%", "done & dusted"))
            person = _who(unit.person)
            self.call(Function.SYNCPOINT, Option.SETUSTATUS, uowid=unit.uowid, ustatus=ustatus, **person)

    def _end_talk(self) -> None:
        if self._talks:
            talk, option = self._one(self._talks), self._rng.choice((Option.NONE, Option.CANCEL))
            self.call(Function.EOC, option, conv_id=talk.conv_id, **_who(talk.client))

    def _publish(self) -> None:
        white, topic = self._rng.choice(WHITES), self._rng.choice(TOPICS)
        publication_id = "NEW"
        for option in self._rng.choice(((Option.COMMIT,), (Option.SYNC, Option.COMMIT))):
            said: dict[str, Any] = {"topic": topic, "publication_id": publication_id, "body": b"news"}
            reply = self.call(Function.SEND_PUBLICATION, option, **_who(white), **said)
            publication_id = reply.publication_id or publication_id

    def _read(self) -> None:
        reader, topic = self._rng.choice(READERS), self._rng.choice(TOPICS)
        said: dict[str, Any] = {"topic": topic, **_who(reader)}
        for _ in range(self._rng.choice((1, 3))):
            reply = self.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", **said)
            if reply.publication_id and self._rng.random() < 0.7:
                option = self._rng.choice((Option.COMMIT, Option.COMMIT, Option.BACKOUT))
                self.call(Function.CONTROL_PUBLICATION, option, publication_id=reply.publication_id, **said)

    def _subscribe(self) -> None:
        for reader in READERS:
            said = {"topic": self._rng.choice(TOPICS), **_who(reader)}
            self.call(Function.SUBSCRIBE, self._rng.choice((Option.DURABLE, Option.DURABLE, Option.NONE)), **said)

    def _unsubscribe(self) -> None:
        reader, topic = self._rng.choice(READERS), self._rng.choice(TOPICS)
        self.call(Function.UNSUBSCRIBE, topic=topic, **_who(reader))

    def _wait(self) -> None:
        seconds = self._rng.choice(WAITS)
        self.clock.advance(seconds)
        self.give(Tick(round(seconds * SECOND)))

    def _clean_up(self) -> None:
        self._store._database.cleanup(compact=True)


def _who(person: Person) -> dict[str, Any]:
    place = (*WHITES, *BLACKS, *READERS).index(person)
    return {"user_id": person[0], "token": person[1], "caller": place}


def _of(service: tuple[str, str, str]) -> dict[str, Any]:
    return dict(zip(("server_class", "server_name", "service"), service, strict=True))
