"""What the server's process uses: memory, open files, connections, and what else can run out."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oms_journal.broker.admin.broker import BrokerRow
from oms_journal.broker.server.runtime.state import ServerState

if sys.platform != "win32":
    import resource

_PROC = Path("/proc/self")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """How much of something is used; a limit of None is none, or one that nobody knows."""

    resource: str
    used: int
    limit: int | None
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """A listener, and how many connections it has; None where it does not tell."""

    name: str
    address: str
    connections: int | None
    limit: int | None


def memory_bytes() -> int | None:
    """Return how much memory the process has; None where the system does not say."""
    try:
        pages = int((_PROC / "statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def open_files() -> int | None:
    """Return how many files the process has open; None where the system does not say."""
    try:
        return len(os.listdir(_PROC / "fd"))  # noqa: PTH208 - counted, not walked
    except OSError:
        return None


def files_max() -> int | None:
    """Return how many it may have open; None for no bound."""
    if sys.platform == "win32":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def transports(served: ServerState) -> list[Transport]:
    """Return the listeners."""
    found = []
    for listener in served.listeners:
        limits = getattr(listener, "limits", None)
        found.append(
            Transport(
                name=listener.name,
                address=", ".join(getattr(listener, "addresses", ())),
                connections=getattr(listener, "connection_count", None),
                limit=getattr(limits, "connections", None),
            )
        )
    return found


def resources(served: ServerState, broker: BrokerRow | None) -> Sequence[Resource]:
    """Return what is used; without a broker what the process uses."""
    found = [
        Resource(resource="memory", used=memory_bytes() or 0, limit=None, unit="bytes"),
        Resource(resource="open files", used=open_files() or 0, limit=files_max(), unit="files"),
    ]
    found += [
        Resource(resource=f"connections, {each.name}", used=each.connections or 0, limit=each.limit, unit="connections")
        for each in transports(served)
    ]
    if broker is None:
        return found
    said = served.attributes.broker
    found += [
        Resource(resource="units of work", used=broker.active_uows, limit=said.max_uows, unit="units"),
        Resource(
            resource="conversations", used=broker.conversations, limit=said.num_conversation, unit="conversations"
        ),
        Resource(resource="messages in memory", used=broker.kept_bytes, limit=None, unit="bytes"),
        Resource(resource="calls waiting", used=broker.calls_waiting, limit=None, unit="calls"),
        Resource(resource="commits pending", used=broker.commits_pending, limit=None, unit="commits"),
    ]
    if broker.free_bytes is not None:
        found.append(Resource(resource="free space of the store", used=broker.free_bytes, limit=None, unit="bytes"))
    return found
