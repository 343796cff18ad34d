"""What a server tells systemd: that it is ready, that it is alive, that it stops; a few words on a socket.

Where NOTIFY_SOCKET is not in the environment nothing is told, and nothing is needed. The protocol is that of
sd_notify(3): lines NAME=value in one datagram, to a path or, behind `@`, to a name that is in no file system.

The unit file that systemd runs a server by: `oms serve --systemd-unit` prints it for how it was called.

The server tells when it is ready and that it is alive (`systemd.py`), has its own directory, and can reach little else.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_log = logging.getLogger("oms.server")
STARTING_SECONDS = 10.0  # between two words while the store is restored
MORE_SECONDS = 60.0  # that the start may take more, said each time
_MICROSECONDS = 1_000_000


class Systemd:
    """The other end, if there is one. `async with` begins to tell that the process is alive, and ends with STOPPING."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._watchdog_seconds = _watchdog_seconds(environ) if self._address else 0.0
        self._telling: list[asyncio.Task[None]] = []
        self._is_ready = False

    def tell(self, **said: str) -> None:
        """Tell it this, in one datagram. Whoever does not listen is not waited for."""
        if not self._address:
            return
        data = "\n".join(f"{name}={_one_line(value)}" for name, value in said.items()).encode()
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            sender.sendto(data, self._address)

    def ready(self, status: str) -> None:
        """Tell that it serves; again when that changes."""
        self._is_ready = True
        self.tell(READY="1", STATUS=status, MAINPID=str(os.getpid()))

    async def __aenter__(self) -> "Systemd":
        if self._address:
            self.tell(STATUS="starting")
            loop = asyncio.get_running_loop()
            self._telling.append(loop.create_task(self._start_on()))
            if self._watchdog_seconds:
                _log.info("systemd is told every %.1f s that this process is alive", self._watchdog_seconds / 2)
                self._telling.append(loop.create_task(self._live_on(self._watchdog_seconds / 2)))
        return self

    async def __aexit__(self, *failure: object) -> None:
        for task in self._telling:
            task.cancel()
        self.tell(STATUS="stopped")

    def stopping(self, why: str) -> None:
        """Tell that it ends, and why."""
        self.tell(STOPPING="1", STATUS=f"stopping: {why}")

    async def _start_on(self) -> None:
        """Ask for more time until it is ready: how long a restore takes is up to what the store holds."""
        while not self._is_ready:
            self.tell(EXTEND_TIMEOUT_USEC=str(int(MORE_SECONDS * _MICROSECONDS)))
            await asyncio.sleep(STARTING_SECONDS)

    async def _live_on(self, seconds: float) -> None:
        """Tell that the loop turns. When it does not any more, nothing is told, and systemd starts the broker anew."""
        while True:
            self.tell(WATCHDOG="1")
            await asyncio.sleep(seconds)


def _address(said: str) -> str:
    if said.startswith("@"):
        return "\0" + said[1:]
    return said if said.startswith("/") else ""


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """Return how often systemd wants to hear something, 0.0 where it does not or means another process."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    try:
        return max(0, int(environ.get("WATCHDOG_USEC", "0"))) / _MICROSECONDS
    except ValueError:
        return 0.0


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:512]


USER = "oms"
STATE_DIRECTORY = Path("/var/lib/oms")  # made by systemd, mode 0700, the user's own

UNIT = """\
[Unit]
Description=Broker of units of work, with a durable store
After=network.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
User={user}
Group={user}
StateDirectory=oms
StateDirectoryMode=0700
WorkingDirectory={directory}
UMask=0077
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2 4
# The start may take longer: the server asks for more time while it restores.
TimeoutStartSec=90
# What is under way is made durable before it ends.
TimeoutStopSec=60
KillSignal=SIGTERM
WatchdogSec=30
LimitNOFILE=20000

# It needs its own directory, the network, and nothing else.
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProcSubset=pid
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
{writable}
[Install]
WantedBy=multi-user.target
"""


def unit_file(command: Sequence[str], *, writable: Sequence[Path] = ()) -> str:
    """Return the unit; `command` with absolute paths, `writable` what it writes outside of STATE_DIRECTORY."""
    outside = [path for path in writable if not path.is_relative_to(STATE_DIRECTORY)]
    paths = "".join(f"ReadWritePaths={_quoted(str(path))}\n" for path in outside)
    return UNIT.format(command=" ".join(map(_quoted, command)), user=USER, directory=STATE_DIRECTORY, writable=paths)


def _quoted(text: str) -> str:
    """Return an argument as systemd reads it. ValueError for one that no line can hold."""
    if not text.isprintable():
        raise ValueError(f"{text!r} cannot stand in a unit file")
    said = text.replace("%", "%%").replace("$", "$$").replace("\\", "\\\\").replace('"', '\\"')
    return said if said == text and " " not in text and "'" not in text and text else f'"{said}"'
