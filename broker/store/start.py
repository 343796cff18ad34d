"""The persistent store of a broker: what a driver must do, and how a store is begun, HOT, COLD or WARM.

    holds                      HOT                COLD                                WARM
    nothing                    refused            begun                               begun
    what this broker wrote     goes on            erased, once its id was confirmed   goes on
    what another broker wrote  refused            with FORCE-COLD as the line above   refused
    what is no broker's        refused            refused                             refused

Nothing is erased by accident: who wants a cold start of a store that holds something names the id of the broker
whose data that is (`erase=` of an opening, `oms serve --erase`). A server that is started again with the same command
erases once: what came behind the erasure is safe until a start has gone on with it. PSTORE=NO is a broker without a
store. (EntireX 9.6, Managing the Broker Persistent Store, "Restrictions" and "Broker Checkpoints in Adabas"; that a
cold start asks, and WARM, are ours.)

Records of a store that say most by being there: that it was restored, or loaded, or is being loaded.
"""

import json
import logging
import platform as machine
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.records import (
    CHECKPOINT,
    CHECKPOINTS,
    CLOCK_KEY,
    MASTER,
    MASTER_KEY,
    PREFIX,
    CheckpointName,
    CheckpointRecord,
    MasterRecord,
    RecordError,
    kind_of,
)
from oms_journal.broker.store.changes import Changes, Put
from oms_journal.broker.store.master import Identifiers, Opened, as_noted, next_start, noted, rebuild_master
from oms_journal.broker.store.report import Action, ReportLine
from oms_journal.broker.store.stored import CommitRefused as CommitRefused
from oms_journal.broker.store.stored import Loaded, StoredIdentifier, StoredMessage
from oms_journal.broker.store.stored import MessageUnreadable as MessageUnreadable
from oms_journal.broker.store.stored import ProducerReused as ProducerReused
from oms_journal.broker.store.stored import StoreError as StoreError
from oms_journal.broker.store.stored import StoreFull as StoreFull
from oms_journal.broker.store.stored import StoreUnavailable as StoreUnavailable

NOTHING_SAID = b"{}"  # of where it came from


def read_mark(record: Callable[[str], bytes | None], key: str) -> bytes | None:
    """Return the value of the record under the key, `NOTHING_SAID` where it is damaged, None where there is none.

    StoreUnavailable.
    """
    try:
        return record(key)
    except MessageUnreadable:
        _log.error("LOST: what %s says is damaged; it is there, and that counts", key)
        return NOTHING_SAID


_log = logging.getLogger("oms.broker")
STORE_PREFIX = "store/"  # of keys that are about the store itself, and stay where they are
LOADING_KEY = "store/loading"  # there while a load is not finished: whose, as JSON; the first record of its store
RESTORED_KEY = "store/restored"  # of a store that was restored from a backup, until it is started: whence, as JSON
LOADED_KEY = "store/loaded"  # after a load, until the store is started: what was loaded, as JSON
ERASED_KEY = "store/erased"  # from a cold start with --erase until the next start: when that was
IDENTITY_KEY = "store/identity"  # which database the store was when it was started last


class Values(NamedTuple):
    """Many keys with their values, and keys whose values are damaged."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    damaged: Sequence[bytes] = ()


class PersistentStore(Protocol):
    """What a driver must do. From any thread; StoreUnavailable of everything once the store is lost or disconnected."""

    @property
    def is_connected(self) -> bool:
        """Whether it can be written, as far as is known."""

    @property
    def is_lost(self) -> bool:
        """Whether a commit has failed in a way that `connect` alone may put right, or would."""

    @property
    def is_taken_over(self) -> bool:
        """Whether another broker has the store by now: nothing is acknowledged here any more, and `connect` fails."""

    @property
    def opened(self) -> Opened:
        """Which database it is, and how often it was opened."""

    @property
    def waited_seconds(self) -> float:
        """How long its commits have waited for the device, all together."""

    def commit(self, changes: Changes) -> int:
        """Make the changes durable, all or none; return the first added message's number, 0 for none.

        StoreFull, CommitRefused. A known producer's identifier gets the first answer, and nothing is written. So it is
        with empty changes: the answer says that all before them is durable, and that nobody else has the store yet.
        """

    def commit_many(self, batch: Sequence[Changes]) -> list[int | StoreError]:
        """Make several commits durable with one sync, each by itself all or none; return what `commit` would say."""

    def read(self, number: int) -> StoredMessage:
        """Return a message that is neither delivered nor deleted; MessageUnreadable."""

    def record(self, key: str) -> bytes | None:
        """Return the value of a key, None when it is not there."""

    def records(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Yield the keys with the prefix and their values, in order."""

    def values(self, prefix: str) -> Iterator[Values]:
        """Yield the same in bulk, in no promised order; for a time when nobody writes."""

    def messages(self) -> Iterator[StoredMessage]:
        """Yield every message that is neither delivered nor deleted, in the order of their numbers."""

    def identifiers(self) -> Iterator[StoredIdentifier]:
        """Yield the producers' identifiers that are remembered, the oldest first; some may be too old to count."""

    def highest(self) -> int:
        """Return a number that no message has exceeded yet."""

    def is_empty(self) -> bool:
        """Say whether there is no message and no key."""

    def message_count(self) -> int:
        """Return how many messages are neither delivered nor deleted."""

    def load(self, record: Loaded) -> None:
        """Take in a message or record as it is; into an empty store, in the order of the numbers.

        Durable with the next commit, at the latest when the store is closed. CommitRefused when it does not fit in.
        """

    def erase(self, kept: Mapping[str, bytes]) -> None:
        """Remove everything, and put these keys: all of it or, after a crash, when the store is opened again."""

    def free_bytes(self) -> int | None:
        """Return how much room the device has, None when nobody knows."""

    def disconnect(self) -> None:
        """Refuse everything until `connect`; no other process gets the store meanwhile."""

    def connect(self) -> None:
        """Go on, after `disconnect` or a loss, with what was told durable and nothing else. StoreUnavailable."""

    def close(self) -> None:
        """Let go of the store."""


class Pstore(Enum):
    """How the broker's store is begun."""

    NO = "NO"
    HOT = "HOT"
    COLD = "COLD"
    WARM = "WARM"


class StartRefused(BrokerError):
    """The store cannot be begun as was asked. Nothing was changed."""


def platform() -> str:
    """Return what a master record says of the platform."""
    return f"{machine.system()} {machine.machine()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStart:
    """How a store is to be begun, and by whom."""

    broker_id: str
    pstore: Pstore
    now: int  # microseconds since 1970 UTC
    version: str = ""
    job: str = ""
    platform: str = ""
    force_cold: bool = False
    erase: str | None = None  # the broker id whose data a cold start may erase
    erases_once: bool = False  # not what came behind an erasure, until a start has gone on with it
    is_standby: bool = False  # it takes over what its partner had, whatever the partner's broker id is
    is_reported: bool = False  # whether the records that come and go are wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedStore:
    """A store that was begun."""

    master: MasterRecord
    how: CheckpointName  # ETBC or ETBH
    highest: int  # no message had a higher number when it was begun
    identifiers: Identifiers
    reported: Sequence[ReportLine] = ()


def start_store(store: PersistentStore, wanted: StoreStart) -> StartedStore:
    """Begin the store as PSTORE says: checked, its master record and a checkpoint written.

    StartRefused where it may not be begun so, and then nothing was changed; StoreError.
    """
    assert wanted.pstore is not Pstore.NO, "a broker without a store has none to begin"
    _check_is_whole(store)
    found = _master(store, wanted)
    if found is None:
        _check_nobodys(store, wanted)
        return _cold(store, wanted, None)
    is_own = found.broker_id == wanted.broker_id or wanted.is_standby
    if wanted.pstore is Pstore.COLD:
        _check_cold(store, wanted, found)
        return _cold(store, wanted, found)
    if not is_own:
        raise StartRefused(
            Code.INVALID_BROKER_ID,
            f"the persistent store belongs to broker {found.broker_id}, not to {wanted.broker_id}; nothing was changed",
        )
    starts = next_start(found.starts, _before(store).times, store.opened, is_restored=_is_restored(store))
    master = found._replace(starts=starts, started=wanted.now, platform=wanted.platform, version=wanted.version)
    checkpoint = _checkpoint(CheckpointName.ETBH, master, wanted)
    reported = _created(store, [checkpoint], master)
    store.commit(Changes(puts=[_master_put(master), checkpoint, *_identity(store)], drops=_passing(store)))
    return StartedStore(
        master=master,
        how=CheckpointName.ETBH,
        highest=store.highest(),
        identifiers=Identifiers(master.starts),
        reported=reported,
    )


def write_termination(store: PersistentStore, begun: StartedStore, *, now: int, job: str = "") -> Sequence[ReportLine]:
    """Write the checkpoint of the broker's termination; return what the report says of it. StoreError."""
    wanted = StoreStart(broker_id=begun.master.broker_id, pstore=Pstore.HOT, now=now, job=job)
    checkpoint = _checkpoint(CheckpointName.ETBT, begun.master, wanted)
    reported = _created(store, [checkpoint], begun.master)
    store.commit(Changes(puts=[checkpoint]))
    return reported


def _created(store: PersistentStore, puts: Sequence[Put], master: MasterRecord) -> list[ReportLine]:
    """Return what the report says of those of the checkpoints that are not there yet."""
    there = {key.decode() for found in store.values(CHECKPOINTS) for key in (*found.keys, *found.damaged)}
    return [
        ReportLine(_name_of(put.key, master), kind, Action.CREATED, 1, len(put.value))
        for put in puts
        if (kind := kind_of(put.key)) is not None and put.key not in there
    ]


def _erased(store: PersistentStore, master: MasterRecord) -> list[ReportLine]:
    """Return what the report says of an erasure of everything."""
    keys = sorted(key.decode() for batch in store.values("") for key in (*batch.keys, *batch.damaged))
    return [
        ReportLine(_name_of(key, master), kind, Action.DELETED) for key in keys if (kind := kind_of(key)) is not None
    ]


def _name_of(key: str, master: MasterRecord) -> str:
    """Return how the report calls a record: by its identifier, and the master record by whose it is."""
    return master.broker_id if key == MASTER_KEY else key.rpartition("/")[2]


def _master(store: PersistentStore, wanted: StoreStart) -> MasterRecord | None:
    """Return the master record, made again where a broker's store has lost it; None in a store of no broker."""
    try:
        value = store.record(MASTER_KEY)
        if value is not None:
            return MASTER.decode(value)
    except RecordError as failure:
        raise StartRefused(Code.RESTART_FAILED, f"the store's master record cannot be read: {failure}") from failure
    except MessageUnreadable:
        pass
    if not is_brokers(store):
        return None
    _log.error("LOST: the master record of the persistent store is lost, and is made again from what there is")
    return rebuild_master((value for found in store.values(CHECKPOINTS) for value in found.values), wanted.broker_id)


def is_brokers(store: PersistentStore) -> bool:
    """Say whether anything of a broker is in the store, also where its master record is lost. StoreUnavailable."""
    return any(found.keys or found.damaged for found in store.values(PREFIX))


def _check_is_whole(store: PersistentStore) -> None:
    """Raise StartRefused where a load has not been finished, of which nobody but that load knows how to go on."""
    value = read_mark(store.record, LOADING_KEY)
    if value is None:
        return
    try:
        whose = str(json.loads(value)["source"])
    except (ValueError, KeyError, TypeError):
        whose = "another store"
    raise StartRefused(
        Code.RESTART_FAILED,
        f"the load of this persistent store from {whose} was not finished: repeat it, with RUN-MODE=PSTORE-LOAD here "
        "and PSTORE-UNLOAD there; to give it up, remove what it has written by hand; nothing was changed",
    )


def _is_restored(store: PersistentStore) -> bool:
    """Say whether this is the first start since a restore, or may be: damage may have taken what tells it."""
    before = _before(store).identity
    return before not in ("", store.opened.identity) or read_mark(store.record, RESTORED_KEY) is not None


def _before(store: PersistentStore) -> Opened:
    """Return which database the store was when it was started last, and how often it had been opened by then."""
    try:
        return as_noted(store.record(IDENTITY_KEY) or b"")
    except MessageUnreadable:
        return Opened("unknown")


def _identity(store: PersistentStore) -> list[Put]:
    """Return the note of which database the store is, where the driver knows that."""
    return [Put(IDENTITY_KEY, noted(store.opened))] if store.opened.identity else []


def _passing(store: PersistentStore) -> list[str]:
    """Return the keys that a load or a cold start has left until the next start, where there are any."""
    return [key for key in (LOADED_KEY, ERASED_KEY) if read_mark(store.record, key) is not None]


def _check_nobodys(store: PersistentStore, wanted: StoreStart) -> None:
    """Raise StartRefused unless a store without a master record may be begun."""
    if not store.is_empty():
        raise StartRefused(
            Code.RESTART_FAILED,
            f"the store holds {store.message_count():,} messages or keys of programs that are no broker, which no "
            "broker may touch: give another directory, or empty it with those programs; nothing was changed",
        )
    if wanted.pstore is Pstore.HOT:
        raise StartRefused(
            Code.RESTART_FAILED,
            "PSTORE=HOT restores what a store holds, and this one is empty; PSTORE=WARM begins a new store where "
            "there is none, PSTORE=COLD always; nothing was changed",
        )
    if wanted.pstore is Pstore.COLD:
        _check_confirmed(wanted, wanted.broker_id, "is empty, and will belong to")


def _check_cold(store: PersistentStore, wanted: StoreStart, found: MasterRecord) -> None:
    """Raise StartRefused unless the store may be erased."""
    is_own = found.broker_id == wanted.broker_id and found.platform in ("", wanted.platform)
    whose = f"broker {found.broker_id}" + (f" on {found.platform}" if found.platform else "")
    if not is_own and not wanted.force_cold:
        raise StartRefused(
            Code.INVALID_BROKER_ID,
            f"the persistent store belongs to {whose}, not to {wanted.broker_id}. To erase it, set FORCE-COLD=Y and "
            f"confirm it {_confirmation(found.broker_id)}; nothing was changed",
        )
    if wanted.erase != found.broker_id and _holds_anything(store):
        given = "" if wanted.erase is None else f", not {wanted.erase}"
        raise StartRefused(
            Code.RESTART_FAILED,
            f"PSTORE=COLD would erase what the persistent store of {whose} holds, {store.message_count():,} messages "
            f"among it. PSTORE=WARM goes on with it. To erase it, confirm it {_confirmation(found.broker_id)}{given}; "
            "nothing was changed",
        )
    _check_confirmed(wanted, found.broker_id, "holds nothing to erase, and belongs to")
    if wanted.erases_once and read_mark(store.record, ERASED_KEY) is not None and _holds_anything(store):
        raise StartRefused(
            Code.RESTART_FAILED,
            "the last start was told to erase the persistent store, and this one would erase what came since, "
            f"{store.message_count():,} messages among it: whoever starts the broker again with the same command, as "
            "systemd does, would erase it each time. Start it without --erase, and PSTORE=WARM or HOT, to go on; then "
            "it can be erased again; nothing was changed",
        )


def _check_confirmed(wanted: StoreStart, broker_id: str, how: str) -> None:
    """Raise StartRefused where the id that confirms the erasure is not that of the broker here."""
    if wanted.erase not in (None, broker_id):
        raise StartRefused(
            Code.INVALID_BROKER_ID,
            f"this start is told to erase the persistent store of broker {wanted.erase}; the one here {how} broker "
            f"{broker_id}. Give the directory of broker {wanted.erase}, or confirm it {_confirmation(broker_id)}; "
            "nothing was changed",
        )


def _confirmation(broker_id: str) -> str:
    """Return how a cold start is told, in a program and on the command line, whose data it may erase."""
    return f"with the broker id: erase={broker_id!r} in a program, oms serve --erase {shlex.quote(broker_id)}"


def _holds_anything(store: PersistentStore) -> bool:
    if store.message_count():
        return True
    own = (MASTER_KEY, CLOCK_KEY, IDENTITY_KEY, ERASED_KEY)
    return any(key not in own and not key.startswith(CHECKPOINTS) for key, _ in store.records(""))


def _cold(store: PersistentStore, wanted: StoreStart, found: MasterRecord | None) -> StartedStore:
    """Begin an empty store. The count of starts goes on, so that no identifier comes again."""
    starts, is_restored = (0, False) if found is None else (found.starts, _is_restored(store))
    since = 0 if found is None else _before(store).times
    master = MasterRecord(
        starts=next_start(starts, since, store.opened, is_restored=is_restored),
        created=wanted.now,
        started=wanted.now,
        broker_id=wanted.broker_id,
        platform=wanted.platform,
        version=wanted.version,
    )
    puts = [_master_put(master), _checkpoint(CheckpointName.ETBC, master, wanted)]
    kept = [*puts, *_identity(store)]
    if wanted.erases_once and wanted.erase is not None:
        kept.append(Put(ERASED_KEY, str(wanted.now).encode()))
    reported = []
    if found is None:
        store.commit(Changes(puts=kept))
    else:
        reported = _erased(store, found) if wanted.is_reported else []
        _log.warning("a cold start erases the persistent store of broker %s", found.broker_id)
        store.erase({put.key: put.value for put in kept})
    for put in puts:
        kind = kind_of(put.key)
        assert kind is not None, "a broker's store begins with records of a broker"
        reported.append(ReportLine(_name_of(put.key, master), kind, Action.CREATED, 1, len(put.value)))
    return StartedStore(
        master=master,
        how=CheckpointName.ETBC,
        highest=store.highest(),
        identifiers=Identifiers(master.starts),
        reported=reported,
    )


def _master_put(master: MasterRecord) -> Put:
    return Put(MASTER_KEY, MASTER.encode(master))


def _checkpoint(name: CheckpointName, master: MasterRecord, wanted: StoreStart) -> Put:
    record = CheckpointRecord(name, master.starts, wanted.now, master.broker_id, wanted.job)
    return Put(f"{CHECKPOINTS}{name.name}", CHECKPOINT.encode(record))
