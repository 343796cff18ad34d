"""The unit file that systemd runs a server by: `oms serve --systemd-unit` prints it for how it was called.

The server tells when it is ready and that it is alive (`systemd.py`), has its own directory, and can reach little else.
"""

from collections.abc import Sequence
from pathlib import Path

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
