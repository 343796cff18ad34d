"""What the figures were measured on."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("numpy", "xxhash", "uvloop")


def describe(directory: Path, syncs: dict[str, float]) -> list[str]:
    """Return lines that say what the machine is, and what one raw sync takes on it, in seconds by method."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    packages = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    taken = ", ".join(f"{name} {seconds * 1e6:.0f} µs" for name, seconds in syncs.items())
    return [
        f"Machine: {_cpu()}, {os.cpu_count()} cores, {_memory()} of memory, {system}",
        f"File system: {_file_system(directory)}",
        f"Python {platform.python_version()} ({sys.implementation.name}), {packages}",
        f"One raw write of 352 bytes over zeros, with its sync: {taken}",
    ]


class Company:
    """How much of the CPUs' time others than this process and its children took, from its making on."""

    def __init__(self) -> None:
        self._began = self._times()

    def share(self) -> float | None:
        """Return their share of all CPUs' time, the kernel's own threads included; None where it is not known."""
        if self._began is None or (now := self._times()) is None:
            return None
        everyone, ours, seconds = (new - old for new, old in zip(now, self._began, strict=True))
        return max(0.0, everyone - ours) / (seconds * (os.cpu_count() or 1))

    def _times(self) -> tuple[float, float, float] | None:
        """Return the CPU seconds of everyone and of us, and the time."""
        try:
            fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        except OSError:
            return None
        user, nice, system, _, _, interrupts, soft = map(int, fields[1:8])
        ticks = user + nice + system + interrupts + soft
        mine = os.times()
        ours = mine.user + mine.system + mine.children_user + mine.children_system
        return ticks / os.sysconf("SC_CLK_TCK"), ours, mine.elapsed


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "CPU unknown"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GiB"
    except (ValueError, OSError):
        return "unknown"


def _file_system(directory: Path) -> str:
    """Return the mount that holds the directory, and what the kernel says of its disk's cache."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    resolved = directory.resolve()
    holding = [mount for mount in mounts if resolved.is_relative_to(mount[1])]
    device, point, kind, options = max(holding, key=lambda mount: len(mount[1]))[:4]
    queue = Path("/sys/class/block") / Path(device).name / "queue"
    cache = [(queue / name).read_text().strip() for name in ("write_cache", "scheduler") if (queue / name).exists()]
    return ", ".join([f"{kind} on {device} at {point} ({options})", *cache])
