"""A machine with a spool directory, and a broker on it whose edge waits for nobody: groups of commits, and crashes."""

import contextlib
from collections import deque
from collections.abc import Iterator

from broker.beginning import Beginning
from broker.effects import Commit
from broker.journal_store import JournalStore
from broker.kernel import Kernel
from broker.pstore import Store, end
from broker.restore import restored
from broker.running import Running
from database.options import Options
from journal.names import LOCK
from tests.broker_stores import MESSAGE_BYTES_MAX, begun
from tests.crash_model import SPOOL, Unattended
from tests.faulty_disk import SimulatedDisk
from tests.oracle_desk import OracleDesk, attributes
from tests.simulation.broker_edges import Edges
from tests.simulation.broker_steps import Setting
from tests.simulation.world import Seen
from tests.watched_disk import HandClock


class Machine:
    """The disk, and what is made of it by a power cut or by the death of the process."""

    def __init__(self, setting: Setting, edges: Edges, seen: Seen) -> None:
        self.setting = setting
        self.edges = edges
        self.seen = seen
        self.disk = SimulatedDisk()
        self.clock = HandClock()

    def open(self, *, creates: bool = True) -> JournalStore:
        """Open the store, in a new process."""
        self.edges.pid += 1
        options = Options(
            max_message_size=MESSAGE_BYTES_MAX,
            max_data_file_size=self.setting.file_bytes,
            cleanup_interval=0,
            clock=self.clock,
            chance=self.edges.chance,
            sleep=lambda _: None,
        )
        return JournalStore.open(SPOOL, options, disk=self.disk, creates=creates)

    @contextlib.contextmanager
    def fails(self) -> Iterator[None]:
        """Let nothing be written in the block."""
        for verb in ("write_durably", "write", "sync"):
            self.disk.fail_from(verb)
        try:
            yield
        finally:
            self.disk.faults.clear()

    def end(self, ending: str, choice: int) -> None:
        """Let the process end; the disk is then what it leaves."""
        self.seen.changes += self.disk.steps
        self.disk = self.disk.crash(choice) if ending == "power cut" else self.disk.restart()
        self.seen.crashes.add(self.disk.digest(without=LOCK))


class MachineDesk(OracleDesk):
    """A broker on the machine, at its real edge: commits go out in groups, and are told together."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.store: Store
        self.attributes = attributes()
        self._groups = 0
        super().__init__(machine, self.attributes)  # type: ignore[arg-type]

    def _start(self) -> None:
        store = self.store
        self.begun = begun(store, now=self.now)
        self.kernel = Kernel(self.attributes, restored(store, now=self.now), self.begun.identifiers)
        beginning = Beginning(
            attributes=self.attributes,
            kernel=self.kernel,
            store=store,
            begun=self.begun,
            report=None,
            clock=lambda: self.now,
            job="",
        )
        self.running = Running(beginning)
        self._go_on()

    @property
    def database(self) -> Unattended:
        assert isinstance(self.store, JournalStore)
        found = self.store._database
        assert isinstance(found, Unattended)
        return found

    def settle(self, count_max: int = 1_000_000, *, is_told: bool = True) -> None:
        """Carry out commits, in groups; what the last group has answered is told where `is_told` says so."""
        while self.commits and count_max > 0:
            size = min(len(self.commits), self.machine.setting.group_max, count_max)
            group: list[Commit] = [self.commits.popleft() for _ in range(size)]
            count_max -= size
            told = self.running.carry_out(group)
            if self.commits or is_told:
                self._take_in(self.running.take_all(told))
            self._groups += 1
            if self._groups % self.machine.setting.patience == 0:
                self.database.tend()
        for line in self.running.aside:
            assert "a mistake" not in str(line), line
        self.running.aside.clear()

    def stop_and_start(self) -> None:
        end(self.store, self.begun, now=self.now)
        self.store.close()
        self.start_on_what_is_left()

    def kill_and_start(self) -> None:
        self.machine.end("killed", 0)
        self.start_on_what_is_left()

    def start_on_what_is_left(self) -> None:
        """Start a broker after the end of another."""
        self.store = self.machine.open(creates=False)
        self.commits = deque()
        self._start()
