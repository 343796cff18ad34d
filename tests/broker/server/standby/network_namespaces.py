"""Two hosts of one machine: network namespaces with a cable between them, which can be cut."""

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from types import TracebackType

_CLONE_NEWNET = 0x40000000


def missing() -> str:
    """Say what is missing for namespaces, "" for nothing."""
    if os.uname().sysname != "Linux":
        return "network namespaces are Linux'"
    if shutil.which("ip") is None:
        return "`ip` is missing: apt-get install iproute2"
    name = f"oms-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"network namespaces take more rights: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return ""


class Hosts:
    """Two namespaces, 10.77.0.1 and 10.77.0.2 to each other."""

    addresses = ("10.77.0.1", "10.77.0.2")

    def __init__(self) -> None:
        self._names = [f"oms-{os.getpid()}-{number}" for number in range(2)]

    def __enter__(self) -> "Hosts":
        ends = [f"v{os.getpid()}x{number}" for number in range(2)]
        try:
            for name in self._names:
                _ip("netns", "add", name)
            _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
            for name, end, address in zip(self._names, ends, self.addresses, strict=True):
                _ip("link", "set", end, "netns", name)
                _ip("-n", name, "link", "set", end, "name", "cable")
                _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
                for link in ("lo", "cable"):
                    _ip("-n", name, "link", "set", link, "up")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, _: TracebackType | None
    ) -> None:
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def within(self, number: int) -> list[str]:
        """Return what runs a command on host 0 or 1."""
        return ["ip", "netns", "exec", self._names[number]]

    def cut(self) -> None:
        _ip("-n", self._names[0], "link", "set", "cable", "down")

    def mend(self) -> None:
        _ip("-n", self._names[0], "link", "set", "cable", "up")

    def connection(self, number: int, port: int) -> socket.socket:
        """Return a connection that was made on host 0 or 1 to its own port."""
        found: list[socket.socket] = []

        def connect() -> None:  # in a thread: only the one that calls changes its host
            with Path(f"/run/netns/{self._names[number]}").open("rb") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            found.append(socket.create_connection((self.addresses[number], port), 20))

        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()
        return found[0]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
