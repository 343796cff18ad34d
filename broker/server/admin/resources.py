"""What the server's process uses: memory, open files, connections, and what else can run out."""

import os
import sys
from pathlib import Path

from oms_journal.broker.admin.questions import Row
from oms_journal.broker.server.runtime.state import ServerState

if sys.platform != "win32":
    import resource

RESOURCE_COLUMNS = ("resource", "used", "limit", "unit")
_PROC = Path("/proc/self")


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


def transports(served: ServerState) -> list[Row]:
    """Return the listeners, and how many connections each has; None where it does not tell."""
    return [
        {
            "name": listener.name,
            "address": ", ".join(getattr(listener, "addresses", ())),
            "connections": getattr(listener, "connection_count", None),
            "limit": getattr(getattr(listener, "limits", None), "connections", None),
        }
        for listener in served.listeners
    ]


def resources(served: ServerState, broker: Row | None) -> list[Row]:
    """Return how much of what is used, without a broker by the process; a limit of None is none, or not known."""
    found: list[tuple[str, int, int | None, str]] = [
        ("memory", memory_bytes() or 0, None, "bytes"),
        ("open files", open_files() or 0, files_max(), "files"),
    ]
    for each in transports(served):
        found.append((f"connections, {each['name']}", each["connections"] or 0, each["limit"], "connections"))
    if broker is not None:
        said = served.attributes.broker
        found += [
            ("units of work", broker["active_uows"], said.max_uows, "units"),
            ("conversations", broker["conversations"], said.num_conversation, "conversations"),
            ("messages in memory", broker["kept_bytes"], None, "bytes"),
            ("calls waiting", broker["calls_waiting"], None, "calls"),
            ("commits pending", broker["commits_pending"], None, "commits"),
        ]
        if broker["free_bytes"] is not None:
            found.append(("free space of the store", broker["free_bytes"], None, "bytes"))
    return [dict(zip(RESOURCE_COLUMNS, each, strict=True)) for each in found]
