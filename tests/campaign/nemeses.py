"""What happens to the brokers and the clients of a round, one thing after another, chosen by the seed.

nemesis         what it does
kill            SIGKILL of the broker that serves
term            SIGTERM of it: it has to end well
pause           SIGSTOP for less than anybody waits
kill client     SIGKILL of a client, which begins again with what it has written down
clock           the calendar clock steps by up to a day, forward or back

and what the round of one kind alone can do:

two: overtake         SIGSTOP until the standby has taken over, then SIGCONT: the first one has to end
full: full disk       the file system is filled up, and later emptied, and the broker allowed to go on
limited: file size    the same by a limit on the size of the broker's files, which needs no file system of its own
crowded: descriptors  hundreds of idle connections, more than the broker may have open
removed: removed      rm -rf, or mv, of the spool directory under the broker. It is put back when that has ended
"""

import contextlib
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.campaign.brokers import FILE_BYTES, Brokers
from tests.campaign.checks import Span
from tests.support.cli_runner import command_line, environment

BALLAST = "ballast"
DAY_NANOSECONDS = 86_400_000_000_000
Nemesis = Callable[[random.Random], None]
OF_KIND = {
    "two": "overtake",
    "full": "full disk",
    "limited": "file size",
    "crowded": "descriptors",
    "removed": "removed",
}
SLACK_BYTES = (0, 0, 100_000, 1_000_000)  # that are left on a full disk


class Nemeses:
    """All of them, with what they work on."""

    def __init__(
        self, brokers: Brokers, room: Path | None, clock: Path | None, kill_client: Callable[[], None]
    ) -> None:
        self._brokers = brokers
        self._room = room  # a file system of its own
        self._clock = clock
        self._kill_client = kill_client
        self.gone: list[Span] = []  # when there was no directory, and a broker that did not know

    def possible(self, kind: str) -> dict[str, Nemesis]:
        """Return those that a round of this kind can do, by name."""
        own = {
            "overtake": self._overtake,
            "full disk": self._fill,
            "file size": self._limit,
            "descriptors": self._crowd,
            "removed": self._remove,
        }
        found: dict[str, Nemesis] = {
            "kill": self._kill,
            "term": self._term,
            "pause": self._pause,
            "kill client": lambda _: self._kill_client(),
        }
        if kind in OF_KIND:
            found[OF_KIND[kind]] = own[OF_KIND[kind]]
        if self._clock is not None:
            found["clock"] = self._step
        return found

    def _kill(self, _: random.Random) -> None:
        number = self._brokers.wait_standard()
        self._brokers.signal(number, signal.SIGKILL)
        self._brokers.wait_end(number)
        self._brokers.wait_standard()

    def _term(self, _: random.Random) -> None:
        number = self._brokers.wait_standard()
        self._brokers.signal(number, signal.SIGTERM)
        self._brokers.wait_end(number)
        self._brokers.wait_standard()

    def _pause(self, chance: random.Random) -> None:
        number = self._brokers.wait_standard()
        self._brokers.signal(number, signal.SIGSTOP)
        time.sleep(chance.uniform(0.1, 1.0))
        self._brokers.signal(number, signal.SIGCONT)

    def _overtake(self, _: random.Random) -> None:
        first = self._brokers.wait_standard()
        self._brokers.signal(first, signal.SIGSTOP)
        try:
            self._brokers.wait_standard()
            self._brokers.takeovers += 1
        finally:
            self._brokers.signal(first, signal.SIGCONT)
        self._brokers.wait_end(first)
        self._brokers.begin()

    def _fill(self, chance: random.Random) -> None:
        assert self._room is not None
        numbers = os.statvfs(self._room)
        size = numbers.f_bavail * numbers.f_frsize - chance.choice(SLACK_BYTES)
        ballast = self._room / BALLAST
        with contextlib.suppress(OSError), ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, size))
        self._live_without_room(chance, lambda: ballast.unlink(missing_ok=True))

    def _limit(self, chance: random.Random) -> None:
        self._brokers.wait_standard()
        self._brokers.limit_files(chance.randrange(FILE_BYTES))
        self._live_without_room(chance, lambda: self._brokers.limit_files(resource.RLIM_INFINITY))

    def _live_without_room(self, chance: random.Random, make_room: Callable[[], None]) -> None:
        try:
            time.sleep(chance.uniform(0.5, 3.0))
            if chance.random() < 0.4:
                self._kill_in_the_middle()
        finally:
            make_room()
        number = self._brokers.wait_standard()
        if chance.random() < 0.3:
            self._brokers.signal(number, signal.SIGKILL)
            self._brokers.wait_end(number)
            number = self._brokers.wait_standard()
        self._allow(number)

    def _kill_in_the_middle(self) -> None:
        """Kill it while there is no room: it has to start on a full disk, or to say why not."""
        number = self._brokers.standard()
        if number is not None:
            self._brokers.signal(number, signal.SIGKILL)
            self._brokers.wait_end(number)
            self._brokers.begin()
            time.sleep(1.5)

    def _allow(self, number: int) -> None:
        """Tell the broker that there is room: it forbids new units of work until somebody does; connect its store."""
        address = f"http://127.0.0.1:{self._brokers.http[number]}"
        for words in (("CONNECT-PSTORE", "BROKER"), ("ALLOW-NEWUOWMSGS", "BROKER")):
            command = command_line("cmd", *words, "--yes", "--broker", address)
            subprocess.run(command, env=environment(), capture_output=True, timeout=60, check=False)

    def _crowd(self, chance: random.Random) -> None:
        number = self._brokers.wait_standard()
        with contextlib.ExitStack() as held:
            for _ in range(self._brokers.descriptors_max + 100):
                with contextlib.suppress(OSError):
                    address = ("127.0.0.1", self._brokers.stomp[number])
                    held.enter_context(socket.create_connection(address, 0.2))
            time.sleep(chance.uniform(0.5, 2.0))
        time.sleep(0.2)
        self._allow(number)

    def _remove(self, chance: random.Random) -> None:
        number, spool = self._brokers.wait_standard(), self._brokers.spool
        kept = spool.with_name("kept")
        if chance.random() < 0.5:
            spool.rename(kept)
        else:
            _unlinked(spool, kept)
        since = time.monotonic()
        try:
            time.sleep(chance.uniform(0.5, 3.0))
            self._brokers.signal(number, chance.choice((signal.SIGTERM, signal.SIGKILL)))
            self._brokers.wait_end(number)
        finally:
            self.gone.append((since, time.monotonic()))
            if spool.exists():
                self._brokers.faults.append(f"made where no directory was: {sorted(spool.iterdir())}")
                shutil.rmtree(spool)
            kept.rename(spool)
        self._brokers.wait_standard()

    def _step(self, chance: random.Random) -> None:
        assert self._clock is not None
        step = chance.choice((0, chance.randint(-DAY_NANOSECONDS, DAY_NANOSECONDS)))
        with self._clock.open("r+b") as file:
            file.write(struct.pack("=q", step))


def _unlinked(directory: Path, kept: Path) -> None:
    """Remove the directory as `rm -rf` does, file by file, and again what was made in it meanwhile.

    Each file goes on under a second name elsewhere, so that what was promised before can be looked for.
    """
    kept.mkdir()
    while directory.exists():
        for path in list(directory.iterdir()):
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.link(path, kept / path.name)
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            directory.rmdir()
