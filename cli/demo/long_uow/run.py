"""Two long-running units of work, with kills of every process that has to do with them, and the verdict on it.

    first   its pages are done one by one, whoever is killed meanwhile, and it is committed: PROCESSED
    second  much longer; its sender wants it stopped, and the worker cancels it: CANCELLED

Three processes: the broker, the sender and the worker. Who was killed is started again, and goes on from what the
broker knows; with the broker the other two lose their line, end, and are started again as well.
"""

import queue
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from oms_journal.cli.demo.children import Child
from oms_journal.cli.demo.long_uow.line import hand_over
from oms_journal.cli.demo.long_uow.sender import pages_of
from oms_journal.cli.demo.long_uow.work import Progress
from oms_journal.cli.failures import ExitCode, Failure
from oms_journal.database.view import DatabaseView

HESITATION_SECONDS = 0.03  # a kill comes up to so long after its page
SILENCE_SECONDS = 120.0  # after so long without a word something hangs
LONGER = 10  # times the second one's pages: it must not be done before it is stopped


class Who(Enum):
    """The three processes."""

    BROKER = "broker"
    SENDER = "sender"
    WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is to be done, and how often it is disturbed."""

    spool: Path
    results: Path
    pages: int
    kills: int
    seed: int


class Kill(NamedTuple):
    """Who is to be killed, and when."""

    page: int  # the first time that so many pages are done
    who: Who
    hesitation: float  # seconds after that


@dataclass(slots=True, kw_only=True)
class Act:
    """One unit of work, and what its sender has heard of it."""

    name: str  # the sender's TOKEN
    pages: int
    stop_at: int  # 0: it is not stopped
    kills: list[Kill]  # the next one at the end
    killed: list[Who] = field(default_factory=list)
    uowid: str = ""
    heard: list[tuple[str, str]] = field(default_factory=list)  # status and user status, as they changed
    reached: int = 0  # pages
    is_complete: bool = False

    def as_dict(self, done: Counter[int]) -> dict[str, Any]:
        return {
            "name": self.name,
            "uowid": self.uowid,
            "pages": self.pages,
            "stop_at": self.stop_at,
            "killed": [who.value for who in self.killed],
            "heard": [{"status": status, "user_status": user_status} for status, user_status in self.heard],
            "done": len(done),
            "done_again": done.total() - len(done),
        }


@dataclass(slots=True, kw_only=True)
class Seen:
    """What was seen."""

    settings: Settings
    acts: list[Act]
    done: dict[str, Counter[int]] = field(default_factory=dict)  # by UOWID, how often each page was done
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        return not self.findings

    def as_dict(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "findings": self.findings,
            "spool": str(self.settings.spool),
            "seed": self.settings.seed,
            "units": [act.as_dict(self.done.get(act.uowid, Counter())) for act in self.acts],
            "kills": sum(len(act.killed) for act in self.acts),
            "seconds": round(self.seconds, 6),
        }


class Event(NamedTuple):
    """What a process has said; None: it has ended."""

    child: Child
    said: dict[str, Any] | None


Tell = Callable[[Who, dict[str, Any]], None]


class Run:
    """The run. `tell` is called with what the processes say, and with {"killed": …} and {"started": …}."""

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self._settings = settings
        self._tell = tell
        self._random = random.Random(settings.seed)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._children: dict[Who, Child] = {}
        self._control: socket.socket
        self._acts = [
            Act(name="FIRST", pages=settings.pages, stop_at=0, kills=self._kills(settings.kills, settings.pages)),
            Act(name="SECOND", pages=LONGER * settings.pages, stop_at=max(1, settings.pages // 2), kills=[]),
        ]

    def _kills(self, count: int, pages: int) -> list[Kill]:
        """Return when who is killed, the last first: the worker, the broker, then anyone."""
        who = [Who.WORKER, Who.BROKER, *(self._random.choice(list(Who)) for _ in range(count))][:count]
        self._random.shuffle(who)
        moments = sorted((self._random.randrange(1, pages) for _ in who), reverse=True)
        return [
            Kill(page, each, self._random.uniform(0, HESITATION_SECONDS))
            for page, each in zip(moments, who, strict=True)
        ]

    def run(self) -> Seen:
        """Send both units of work, and see what becomes of them. Failure when a process cannot do its work."""
        began = time.perf_counter()
        seen = Seen(settings=self._settings, acts=self._acts)
        with ExitStack() as self._stack:
            self._start_broker()
            self._start(Who.WORKER)
            for act in self._acts:
                self._act = act
                self._start(Who.SENDER)
                while not act.is_complete:
                    self._take(self._next())
            self._end()
        seen.done, seen.findings = _done(self._settings.results, self._acts)
        for act in self._acts:
            seen.findings += differences(act, seen.done.get(act.uowid, Counter()))
        with DatabaseView.open(self._settings.spool) as store:
            if left := store.undelivered_count():
                seen.findings.append(f"both are complete, and {left} of their messages still wait in the store")
        seen.seconds = time.perf_counter() - began
        return seen

    # Processes.

    def _start_broker(self) -> None:
        """Start the broker. Lines can be handed over at once: it serves them when it is ready."""
        ours, theirs = socket.socketpair()
        self._control = self._stack.enter_context(ours)
        with theirs:
            child = Child(
                "oms_journal.cli.demo.long_uow.broker", "the broker", str(self._settings.spool), stdin=theirs.fileno()
            )
        self._begin(Who.BROKER, child)

    def _start(self, who: Who) -> None:
        """Start the sender or the worker, with a line to the broker."""
        module, arguments = "oms_journal.cli.demo.long_uow.worker", [str(self._settings.results)]
        if who is Who.SENDER:
            module = "oms_journal.cli.demo.long_uow.sender"
            arguments = [self._act.name, str(self._act.pages), str(self._act.stop_at)]
        with hand_over(self._control) as line:
            child = Child(module, f"the {who.value}", *arguments, stdin=line.fileno())
        self._begin(who, child)

    def _begin(self, who: Who, child: Child) -> None:
        self._children[who] = self._stack.enter_context(child)
        listener = threading.Thread(target=self._listen, args=(child,), daemon=True)
        listener.start()
        self._stack.callback(listener.join)  # when it is killed, and before its output is closed
        self._stack.callback(child.kill)

    def _listen(self, child: Child) -> None:
        for said in child.lines():
            self._events.put(Event(child, said))
        self._events.put(Event(child, None))

    def _next(self) -> Event:
        try:
            return self._events.get(timeout=SILENCE_SECONDS)
        except queue.Empty:
            raise Failure(f"nothing was heard for {SILENCE_SECONDS:.0f} seconds", ExitCode.UNUSABLE) from None

    def _end(self) -> None:
        """Let the broker end, and with it the worker."""
        self._control.close()
        for who in (Who.BROKER, Who.WORKER, Who.SENDER):
            self._children[who].check()

    # Events.

    def _take(self, event: Event) -> None:
        """Take in an event, and kill whoever is to be killed then."""
        self._hear(event)
        act = self._act
        if act.kills and act.reached >= act.kills[-1].page and not act.is_complete:
            kill = act.kills.pop()
            time.sleep(kill.hesitation)
            self._kill(kill.who)

    def _hear(self, event: Event) -> None:
        """Note what a process says; also what one said that was killed since."""
        who = next((who for who, child in self._children.items() if child is event.child), None)
        if event.said is not None:
            self._note(event.said)
            if who is not None:
                self._tell(who, event.said)
        elif who is Who.BROKER or (who is not None and not event.child.has_ended_well):
            raise event.child.failure()  # the others end well when the broker does not

    def _note(self, said: dict[str, Any]) -> None:
        act = self._act
        if said.get("token") == act.name:
            act.uowid = said["uowid"]
            act.heard.append((said["hears"], said["user_status"]))
            act.is_complete = said["is_complete"]
        elif said.get("uowid") == act.uowid and "page" in said:
            act.reached = max(act.reached, said["page"])

    def _kill(self, who: Who) -> None:
        """Kill a process, and start it again; with the broker the others end by themselves."""
        self._act.killed.append(who)
        self._tell(who, {"killed": self._act.reached})
        self._children.pop(who).kill()
        if who is not Who.BROKER:
            self._start(who)
            return
        self._control.close()
        for each in (Who.SENDER, Who.WORKER):
            self._children.pop(each).check()
        self._start_broker()
        self._start(Who.WORKER)
        self._start(Who.SENDER)


def _done(results: Path, acts: list[Act]) -> tuple[dict[str, Counter[int]], list[str]]:
    """Return how often each page of each unit of work was done, and what was done that should not be."""
    expected = {act.uowid: [sha256(page).hexdigest() for page in pages_of(act.name, act.pages)] for act in acts}
    done: dict[str, Counter[int]] = {}
    findings = []
    for line in results.read_text("ascii").splitlines():
        uowid, number, digest = line.split(" ")
        done.setdefault(uowid, Counter())[int(number)] += 1
        if uowid not in expected or expected[uowid][int(number) - 1] != digest:
            findings.append(f"the worker has done a page that nobody has sent: {line}")
    return done, findings


def differences(act: Act, done: Counter[int]) -> list[str]:
    """Return in what a unit of work has not become what it should."""
    found = []
    status, user_status = act.heard[-1]
    last = Progress.read(user_status)
    if act.stop_at and (status != "CANCELLED" or not last.is_stop):
        found.append(f"{act.name} was to be stopped, and is {status}: {user_status}")
    if not act.stop_at and (status != "PROCESSED" or last.done != act.pages):
        found.append(f"{act.name} was to be processed, and is {status}: {user_status}")
    if sorted(done) != list(range(1, last.done + 1)):
        found.append(
            f"{act.name}: {user_status!r}, and {len(done)} are done, of which {max(done, default=0)} is the last"
        )
    again = done.total() - len(done)
    if again > len(act.killed):
        found.append(f"{act.name}: {again} pages were done again after {len(act.killed)} kills")
    counts = [Progress.read(text).done for _, text in act.heard]
    if counts != sorted(counts):
        found.append(f"{act.name}: what its sender heard went back, from {max(counts)} pages to {min(counts)}")
    return found
