"""A machine with a spool directory, and a broker on it whose edge waits for nobody: groups of commits, and crashes."""

import contextlib
import random
from collections import deque
from dataclasses import replace
from pathlib import Path

from oms_journal.broker.answers import NO_REQUEST, compensation
from oms_journal.broker.attributes.attributes import Attributes, parse_attributes
from oms_journal.broker.block import Request
from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.embedded.runtime import Runtime
from oms_journal.broker.kernel.kernel import Kernel
from oms_journal.broker.kernel.restart.restore import restore as restore_kernel
from oms_journal.broker.kernel.state.effects import Answer, Call, Commit, Durable, Effect
from oms_journal.broker.records import MASTER_KEY
from oms_journal.broker.store.start import RESTORED_KEY, PersistentStore, StartRefused, StoreError
from oms_journal.database.backup.backup import Backup, BackupOptions, back_up
from oms_journal.database.backup.restore import RestoreOptions, restore
from oms_journal.database.options import Options
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import JournalError
from oms_journal.journal.lock import Holder, read_holder
from oms_journal.journal.names import LOCK
from oms_journal.recovery.startup import Policy
from tests.simulation.broker.edges import Edges
from tests.simulation.broker.steps import Setting
from tests.simulation.broker.ways import NOBODY
from tests.simulation.world import Seen
from tests.support.broker.kernel_desk import T0
from tests.support.broker.model import Terms
from tests.support.broker.oracle_desk import ATTRIBUTES, SERVICES, OracleDesk, Said
from tests.support.broker.stores import MESSAGE_BYTES_MAX, begun
from tests.support.crashes.crash_model import SPOOL, Unattended
from tests.support.disks.faulty_bytes import SECTOR
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.mounted_disk import Mounted
from tests.support.disks.watched_disk import HandClock

BLITZ = "STORE=OFF UWTIME=40S UWSTATP=2 DEFERRED=NO MAX-MESSAGES-IN-UOW=3 MAX-UOWS=4"
POSTPONED = "MAX-DELIVERY-COUNT=2 POSTPONE-ATTEMPTS=1 POSTPONE-DELAY=30S"
OTHER_BLITZ = "STORE=BROKER UWTIME=100S UWSTATP=1 DEFERRED=YES MAX-MESSAGES-IN-UOW=5 MAX-UOWS=9"
OTHER_POSTPONED = "MAX-DELIVERY-COUNT=1 POSTPONE-ATTEMPTS=2 POSTPONE-DELAY=60S"
OTHER_TERMS = Terms(
    uwtime=100, uwstatp=1, uows_max=9, messages_max=5, delivery_max=1, postpone_attempts=2, postpone_delay=60
)
DEADLY = "MAX-DELIVERY-COUNT=2"
KEPT = SPOOL.with_name("kept")  # where clean-up moves files
SHELF = Path("/backup")  # on another disk
SETTINGS = (  # attribute files, and what they say of the services
    (ATTRIBUTES, SERVICES),
    (ATTRIBUTES.replace(BLITZ, OTHER_BLITZ).replace(POSTPONED, OTHER_POSTPONED), SERVICES | {"BLITZ": OTHER_TERMS}),
    (
        ATTRIBUTES.replace(POSTPONED, DEADLY).replace("SERVICE=BLACK", f"SERVICE=BLACK {DEADLY}"),
        {
            name: replace(terms, delivery_max=2, postpone_attempts=0, postpone_delay=300)
            for name, terms in SERVICES.items()
        },
    ),
)
assert SETTINGS[0][0] != SETTINGS[1][0]


class Machine:
    """The disk, and what is made of it by a power cut or by the death of the process."""

    def __init__(self, setting: Setting, edges: Edges, seen: Seen) -> None:
        self.setting = setting
        self.edges = edges
        self.seen = seen
        self.disk = SimulatedDisk()
        self.directory = SPOOL  # where the store is
        self.attributes = self.attributes_of(ATTRIBUTES)
        self.clock = HandClock()
        self.policy: Policy = "salvage"
        self.holds = False
        self.shelf = SimulatedDisk()  # with the last backup of a running broker

    def attributes_of(self, text: str) -> Attributes:
        """Return the attributes of a file for this machine's store."""
        return parse_attributes(f"{text}\nDEFAULTS=JOURNAL\n  MIN-FREE-SPACE={self.setting.min_free}\n")

    def open(
        self, directory: Path | None = None, *, creates: bool = True, passing: Holder | None = None
    ) -> JournalStore:
        """Open the store, or one elsewhere, in a new process; `passing` is a silent owner that is taken over."""
        self.edges.pid += 1
        options = Options(
            max_message_size=MESSAGE_BYTES_MAX,
            max_data_file_size=self.setting.file_bytes,
            cleanup_interval=0,
            retention_directory=KEPT if self.setting.keeps_files else None,
            policy=self.policy,
            hold_suspects=self.holds,
            passing=passing,
            clock=self.clock,
            chance=self.edges.chance,
            sleep=lambda _: None,
        )
        return JournalStore.open(directory or self.directory, options, disk=self.disk, creates=creates)

    def end(self, ending: str, choice: int) -> None:
        """Let the process end, or be closed by now; the disk is then what it leaves, all of it but for a power cut."""
        self.seen.changes += self.disk.steps
        self.disk = self.disk.crash(choice) if ending == "power cut" else self.disk.restart()
        self.seen.crashes.add(self.disk.digest(without=LOCK))

    def recovered(self) -> None:
        """Let a start repair what is there, as a move of what is damaged asks for."""
        self.open().close()
        self.end("killed", 0)

    def back_up(self) -> bool:
        """Back up the running broker's store onto another disk; say whether all that was acknowledged is there."""
        shelf = SimulatedDisk()
        try:
            with Backup.open(self.directory, SHELF, self._backup_options(), disk=self.disk, onto=shelf) as backup:
                is_whole = not backup.run().unvouched
        except JournalError:  # nothing is vouched for yet, or a call of the disk failed that was to
            return False
        if is_whole:
            self.shelf = shelf
        return is_whole

    def _backup_options(self) -> BackupOptions:
        return BackupOptions(key=MASTER_KEY.encode(), clock=self.clock, wait=lambda _: None, vouch_seconds=0)

    def replace(self, *, is_older: bool = False) -> None:
        """Let the store be lost, with its machine, and another one be made from a backup: all that waits is held.

        The backup is made here and now, or `is_older`: of the broker when it was running, and held without being told.
        """
        name = self.directory.name
        backup, target = self.directory.with_name(f"{name}-backup"), self.directory.with_name(f"{name}y")
        disk: Disk = self.disk
        if is_older:
            backup, disk = SHELF, Mounted({SHELF: (self.shelf, SHELF), target: (self.disk, target)})
        else:
            back_up(self.directory, backup, self._backup_options(), disk=disk)
        new = RestoreOptions(
            hold=None if is_older else True,
            data_file_bytes_max=self.setting.file_bytes,
            broker_key=RESTORED_KEY.encode(),
            clock=self.clock,
            new_identity=lambda: self.edges.chance(128).to_bytes(16, "little"),
        )
        restore(backup, target, new, disk=disk)
        self.directory = target

    def rot(self, kind: str, choice: int) -> str:
        """Damage a place of a data file; return where it is."""
        chance = random.Random(choice)
        files = {
            name: data for name, data in self.disk.contents(self.directory).items() if name.endswith(".data") and data
        }
        name = chance.choice(sorted(files))
        data = files[name]
        at = chance.randrange(len(data)) if kind == "bit" else chance.randrange(0, len(data), SECTOR)
        size = len(data[at : at + (1 if kind == "bit" else SECTOR)])
        stale = chance.choice(sorted(files))
        damaged = {
            "bit": bytes([data[at] ^ 1 << chance.randrange(8)]),
            "sector": chance.randbytes(size),
            "zeros": bytes(size),
            "stale": files[stale][at : at + size].ljust(size, b"\0"),
        }
        self.disk.rot(self.directory / name, damaged[kind], at)
        return f"{kind} of {name} at {at}"


class MachineDesk(OracleDesk):
    """A broker on the machine, at its real edge: commits go out in groups, and are told together."""

    def __init__(self, machine: Machine, *, now: int = T0, passing: Holder | None = None) -> None:
        self.machine = machine
        self.now = now
        self._groups = 0
        self.durable = 0  # commits that were told so
        self.store: PersistentStore = machine.open(passing=passing)
        self.pid = machine.edges.pid
        self._start()

    def _start(self) -> None:
        self._asked: dict[int, tuple[Request, int]] = {}  # calls that are not answered, and from where
        self._back: list[tuple[Request, int]] = []  # calls that give back what could not be read
        self.unread: set[int] = set()  # calls whose message could not be read
        self.is_short = False  # of free space
        store, self.attributes = self.store, self.machine.attributes
        self.begun = begun(store, now=self.now)
        self.kernel = Kernel(self.attributes, restore_kernel(store, now=self.now), self.begun.identifiers)
        self.running = Runtime(
            attributes=self.attributes,
            kernel=self.kernel,
            store=store,
            begun=self.begun,
            report=None,
            clock=lambda: self.now,
            job="",
        )
        self._go_on()

    def taken_over(self) -> "MachineDesk":
        """Return the broker of a standby that passes this one, which stands still."""
        machine = self.machine
        self.database.show_alive()  # who has never done that is opening the store, and is not passed
        taken = MachineDesk(machine, now=self.now, passing=read_holder(machine.disk, machine.directory))
        machine.edges.pid = self.pid
        return taken

    @property
    def database(self) -> Unattended:
        assert isinstance(self.store, JournalStore)
        found = self.store._database
        assert isinstance(found, Unattended)
        return found

    # The edge: messages are read where answers leave, and what cannot be read is given back.

    def call(self, handle: int, request: Request, connection: int) -> None:
        self._asked[handle] = request, connection
        super().call(handle, request, connection)

    def _take_in(self, effects: list[Effect]) -> None:
        super()._take_in(effects)
        self.answers.pop(NOBODY, None)
        while self._back:
            request, connection = self._back.pop(0)
            self.give(Call(request, connection, NOBODY))

    def _read(self, answer: Answer) -> Said:
        request, connection = self._asked.pop(answer.handle, (NO_REQUEST, 0))
        answered = self.running.read(NO_REQUEST, answer)
        if answer.bodies and answered.body is None:
            self.unread.add(answer.handle)
            back = compensation(request, answer.reply, is_untried=False)
            assert back is not None, "what was read from the store can be given back"
            self._back.append((back, connection))
        return Said(answered.reply, answered.body)

    def settle(self, count_max: int = 1_000_000, *, is_told: bool = True) -> None:
        """Carry out commits, in groups; what the last group has answered is told where `is_told` says so."""
        while self.commits and count_max > 0:
            size = min(len(self.commits), self.machine.setting.group_max, count_max)
            group: list[Commit] = [self.commits.popleft() for _ in range(size)]
            count_max -= size
            told = self.running.carry_out(group)
            self.durable += sum(isinstance(one, Durable) for one in told)
            if self.commits or is_told:
                self._take_in(self.running.take_all(told))
            self._groups += 1
            if self._groups % self.machine.setting.patience == 0:
                self.database.maintain()
        for line in self.running.aside:
            assert "a mistake" not in str(line), line
        self.running.aside.clear()

    def look_after(self, what: str) -> None:
        """Do a chore of the store; a fault beside the commits fails none."""
        database = self.database
        with contextlib.suppress(JournalError):
            match what:
                case "tend":
                    database.maintain()
                case "vouch":
                    database.vouch()
                case _:
                    database.cleanup(compact=what == "compact")

    def stop(self) -> None:
        """End the broker as it ends when it is told to."""
        self.running.end()
        self.running.close()

    def start_on_what_is_left(self) -> None:
        """Start a broker after the end of another."""
        self.store = self.machine.open(creates=False)
        self.pid = self.machine.edges.pid
        self.commits = deque()
        try:
            self._start()
        except StoreError as failure:  # as a broker's beginning says it
            raise StartRefused(Code.RESTART_FAILED, "the persistent store cannot be begun") from failure
