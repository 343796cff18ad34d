"""`python -m tests.resending`: real writers are killed, and who starts after them too; then producers send again.

Each run is three processes and more on a real directory. The first one has threads that send messages under
producer identifiers, deliver some, and load some together; it is killed. Those that start next send what was not
acknowledged once more, and are killed as well: during the start, or soon after it. The last one comes to its end.
Then every message that was ever begun is there once, under the number that was told, or was delivered.

Exit status: 0 nothing was broken, 1 something was.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from oms_journal import MessageDatabase
from tests.support.forking import CHILD_SECONDS, RAISED

THREADS = 4
RUNS_A_DIRECTORY = 10
OPTIONS: dict[str, Any] = {"max_data_file_size": 16 << 10, "cleanup_interval": 0}


class Broken(Exception):
    """What was promised to a producer does not hold."""


@dataclass(slots=True)
class Known:
    """What the producers of one directory have begun, and what they were told."""

    begun: dict[str, int] = field(default_factory=dict)  # identifier -> how many messages come under it
    first: dict[str, int] = field(default_factory=dict)  # acknowledged: the number of the first of them
    leaving: set[int] = field(default_factory=set)  # their delivery was begun
    delivered: set[int] = field(default_factory=set)
    resent: int = 0  # identifiers that were sent again

    def enter(self, line: dict[str, Any]) -> None:
        match line["what"]:
            case "begin":
                self.resent += line["id"] in self.begun
                self.begun[line["id"]] = line["count"]
            case "done":
                known = self.first.setdefault(line["id"], line["number"])
                if known != line["number"]:
                    raise Broken(f"{line['id']} was answered with {known}, and then with {line['number']}")
            case "deliver":
                self.leaving.add(line["number"])
            case "delivered":
                self.delivered.add(line["number"])
            case _:
                raise Broken(f"a writer said {line}")

    def unanswered(self, thread: int) -> list[tuple[str, int]]:
        mine = f"{thread}/"
        return [(one, count) for one, count in self.begun.items() if one not in self.first and one.startswith(mine)]

    def check(self, database: MessageDatabase) -> None:
        """Hold what there is against what the producers know, once all is acknowledged."""
        if database.recovery.lost or self.begun.keys() != self.first.keys():
            raise Broken(f"{database.recovery.lost}, {self.begun.keys() - self.first.keys()} were not answered")
        wanted = {
            number + place: payload(identifier, place)
            for identifier, number in self.first.items()
            for place in range(self.begun[identifier])
        }
        found = {message.number: message.payload for message in database.undelivered()}
        if len(wanted) != sum(self.begun.values()):
            raise Broken("a number was given twice")
        missing = wanted.keys() - found.keys() - self.leaving
        back = found.keys() & self.delivered
        others = {number for number, content in found.items() if wanted.get(number) != content}
        if missing or back or others:
            raise Broken(f"missing: {sorted(missing)}; back: {sorted(back)}; twice, or others: {sorted(others)}")


def payload(identifier: str, place: int) -> bytes:
    chance = random.Random(f"{identifier}+{place}")
    return f"{identifier}+{place}:".encode() + chance.randbytes(chance.choice((0, 20, 300, 2000)))


# The writer.


class _Writer:
    """What one process does in the directory, until it is killed or each thread has sent `more` messages."""

    def __init__(self, directory: Path, known: Known, pipe: int, seed: str, more: int) -> None:
        self._directory, self._known, self._pipe, self._seed, self._more = directory, known, pipe, seed, more
        self._failed = False

    def run(self) -> int:
        with MessageDatabase.open(self._directory, **OPTIONS) as database:
            threads = [threading.Thread(target=self._guarded, args=(database, each)) for each in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return int(self._failed)

    def _guarded(self, database: MessageDatabase, thread: int) -> None:
        try:
            self._write(database, thread, random.Random(f"{self._seed}/{thread}"))
        except BaseException:
            traceback.print_exc()
            self._failed = True

    def _write(self, database: MessageDatabase, thread: int, chance: random.Random) -> None:
        first = self._known.first
        for identifier, count in self._known.unanswered(thread):
            self._send(database, identifier, count)
        answered = [one for one in first if one.startswith(f"{thread}/")]
        for identifier in chance.sample(answered, min(2, len(answered))):  # its producer has lost the answer
            self._send(database, identifier, self._known.begun[identifier])
        for serial in range(self._more):
            number = self._send(database, f"{thread}/{self._seed}/{serial}", chance.choice((1, 1, 1, 3)))
            if chance.random() < 0.3:
                self._say(what="deliver", number=number)
                database.deliver(number)
                self._say(what="delivered", number=number)
            if thread == 0 and chance.random() < 0.05:
                database.cleanup(compact=chance.random() < 0.5)

    def _send(self, database: MessageDatabase, identifier: str, count: int) -> int:
        queue = f"queue-{identifier[0]}"
        payloads = [payload(identifier, place) for place in range(count)]
        self._say(what="begin", id=identifier, count=count)
        if count == 1:
            number: int = database.add(queue, payloads[0], producer_id=identifier)
        else:
            number = database.add_many(queue, payloads, producer_id=identifier)[0]
        self._say(what="done", id=identifier, number=number)
        return number

    def _say(self, **said: object) -> None:
        os.write(self._pipe, json.dumps(said).encode() + b"\n")  # in one piece: less than PIPE_BUF


# Who kills it.


def _forked(work: Callable[[int], int]) -> tuple[int, IO[bytes]]:
    """Start a process that does the work; return its number, and what it says."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of threads
        child = os.fork()
    if not child:
        try:
            signal.alarm(CHILD_SECONDS)
            os.close(reading)
            os._exit(work(writing))
        finally:
            os._exit(RAISED)
    os.close(writing)
    return child, os.fdopen(reading, "rb")


@dataclass(slots=True)
class Resending:
    """Runs in one directory."""

    directory: Path
    met: Counter[str]
    known: Known = field(default_factory=Known)

    def run(self, seed: str) -> None:
        chance = random.Random(seed)
        self._play(f"{seed}a", lines=chance.randint(1, 200), seconds=chance.uniform(0, 0.003))
        for turn in range(chance.choice((1, 1, 2, 3))):
            self._play(f"{seed}b{turn}", lines=chance.choice((0, 0, 0, 5)), seconds=chance.uniform(0, 0.03))
        self._play(f"{seed}c", more=3)
        with MessageDatabase.open(self.directory, **OPTIONS) as database:
            self.known.check(database)

    def _play(self, seed: str, *, lines: int | None = None, seconds: float = 0.0, more: int = 1 << 30) -> None:
        """Let a writer write, and kill it after so many lines and seconds; None: let it come to its end."""
        child, said = _forked(lambda pipe: _Writer(self.directory, self.known, pipe, seed, more).run())
        with said:
            read = 0
            while lines is None or read < lines:
                if not self._enter(said.readline()):
                    break
                read += 1
            if lines is not None:
                time.sleep(seconds)
                os.kill(child, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            while self._enter(said.readline()):
                read += 1
        if status != (0 if lines is None else -signal.SIGKILL):
            raise Broken(f"the writer {seed} ended with status {status}")
        self.met["came to its end" if lines is None else "killed" if read else "killed at its start"] += 1

    def _enter(self, line: bytes) -> bool:
        """Enter what was said; a line that was cut says nothing."""
        if not line.endswith(b"\n"):
            return False
        self.known.enter(json.loads(line))
        return True


def resend(under: Path, runs: int, seed: int) -> Counter[str]:
    """Do so many runs in directories below this one; return what was met. Broken leaves the directory there."""
    met: Counter[str] = Counter()
    for start in range(0, runs, RUNS_A_DIRECTORY):
        resending = Resending(under / f"spool-{start}", met)
        for run in range(start, min(runs, start + RUNS_A_DIRECTORY)):
            try:
                resending.run(f"{seed}.{run}")
            except Broken as broken:
                raise Broken(f"run {run} of seed {seed}, in {resending.directory}: {broken}") from None
            met["runs"] += 1
        met["messages"] += sum(resending.known.begun.values())
        met["identifiers sent again"] += resending.known.resent
        shutil.rmtree(resending.directory)
    return met


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.resending", description=__doc__, allow_abbrev=False)
    parser.add_argument("--runs", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, default=0, help="of what is written, and when it is killed (0)")
    named = parser.parse_args(arguments)
    under = Path(tempfile.mkdtemp(prefix="oms-resending-"))
    began = time.monotonic()
    try:
        met = resend(under, named.runs, named.seed)
    except Broken as broken:
        sys.stdout.write(f"{broken}\n")
        return 1
    shutil.rmtree(under)
    told = ", ".join(f"{count:,} {what}" for what, count in met.items())
    sys.stdout.write(f"nothing was broken in {time.monotonic() - began:.0f} s: {told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
