"""What happens to the brokers and the clients of a round, one thing after another, chosen by the seed.

nemesis         what it does
kill            SIGKILL of the broker that serves
term            SIGTERM of it: it has to end well
pause           SIGSTOP for less than anybody waits
overtake        SIGSTOP until the standby has taken over, then SIGCONT: the first one has to end
kill client     SIGKILL of a client, which begins again with what it has written down
full disk       the file system is filled up, and later emptied, and the broker allowed to go on
descriptors     hundreds of idle connections, more than the broker may have open
clock           the calendar clock steps by up to a day, forward or back
"""

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.campaign.brokers import Brokers
from tests.cli_runner import command_line, environment

BALLAST = "ballast"
DAY_NANOSECONDS = 86_400_000_000_000
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

    def possible(self) -> dict[str, Callable[[random.Random], None]]:
        """Return those that this round can do, by name."""
        found: dict[str, Callable[[random.Random], None]] = {
            "kill": self._kill,
            "term": self._term,
            "pause": self._pause,
            "kill client": lambda _: self._kill_client(),
        }
        if self._brokers.count > 1:
            found["overtake"] = self._overtake
        if self._room is not None:
            found["full disk"] = self._fill
        if self._brokers.descriptors_max:
            found["descriptors"] = self._crowd
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
        time.sleep(chance.uniform(0.5, 3.0))
        if chance.random() < 0.4:
            self._kill_in_the_middle()
        ballast.unlink(missing_ok=True)
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

    def _step(self, chance: random.Random) -> None:
        assert self._clock is not None
        step = chance.choice((0, chance.randint(-DAY_NANOSECONDS, DAY_NANOSECONDS)))
        with self._clock.open("r+b") as file:
            file.write(struct.pack("=q", step))
