"""Two brokers on one store: their attribute files, and `oms serve` of each as a process of its own."""

import json
import os
import random
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from oms_journal.broker.attributes.attributes import BUILT_IN
from tests.support.servers.stomp_server import TIMEOUT_SECONDS, NotServing, Serving, eventually

_PORTS = range(10_000, 32_000)  # below those that systems give to whoever asks for any


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at, and that nobody is given meanwhile who asks for any port.

    Were a port one that the system gives away, somebody else could have it before a broker does.
    """
    chance = random.SystemRandom()
    found: dict[int, socket.socket] = {}
    with ExitStack() as held:
        while len(found) < count:
            port = chance.choice(_PORTS)
            with suppress(OSError):
                found[port] = held.enter_context(socket.create_server(("127.0.0.1", port)))
        return list(found)


class Pair:
    """Two brokers that are each other's partner. Ends both with its block, however they are."""

    def __init__(self, directory: Path, *, hosts: Sequence[str] = ("127.0.0.1",) * 2, **attributes: str) -> None:
        self.directory = directory
        self.spool = directory / "spool"
        self.attributes = {"CONTROL_INTERVAL": "2S"} | attributes
        self.hosts = hosts
        self.ports = free_ports(4)  # HTTP and STOMP of the first, and of the second
        self.started: list[Serving] = []
        self.failed: list[Serving] = []  # that did not listen

    def file(self, number: int, mode: str, **attributes: str) -> Path:
        """Write the attribute file of broker 0 or 1."""
        partner = self.ports[2 - 2 * number]
        said = {"RUN_MODE": mode, "PSTORE": "WARM" if mode == "STANDARD" else "HOT", "BROKER_ID": f"ETB00{number + 1}"}
        said |= {"HOST": self.hosts[number], "PARTNER_CLUSTER_ADDRESS": f"{self.hosts[1 - number]}:{partner}:TCP"}
        said |= self.attributes | attributes
        lines = [f"  {name.replace('_', '-')}={value}" for name, value in said.items()]
        text = BUILT_IN.replace("PSTORE=WARM", "").replace("DEFAULTS=BROKER", "DEFAULTS=BROKER\n" + "\n".join(lines), 1)
        path = self.directory / f"etbfile{number}"
        path.write_text(text)
        return path

    def start(self, number: int, mode: str, *, within: Iterable[str] = (), **attributes: str) -> Serving:
        """Start broker 0 or 1; return when it says where it listens."""
        file = self.file(number, mode, **attributes)
        http, stomp = self.ports[2 * number : 2 * number + 2]
        try:
            serving = Serving(self.spool, str(file), port=stomp, http_port=http, within=list(within))
        except NotServing as failure:
            self.failed.append(failure.serving)
            raise
        self.started.append(serving)
        return serving

    @contextmanager
    def without_data(self, first: Serving, second: Serving) -> Iterator[None]:
        """Kill the standard broker, and let its standby find no data in the store until the block ends."""
        second.child.send_signal(signal.SIGSTOP)
        first.kill()
        away = self.directory / "away"
        away.mkdir()
        moved = [path.rename(away / path.name) for path in self.spool.iterdir() if path.name != "omsmsg.lock"]
        second.child.send_signal(signal.SIGCONT)
        yield
        for path in moved:
            path.rename(self.spool / path.name)

    def __enter__(self) -> "Pair":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, _: TracebackType | None
    ) -> None:
        for serving in self.started:
            if serving.child.poll() is None:
                os.kill(serving.child.pid, signal.SIGCONT)
                serving.stop()
            serving._close()


def asked(port: int, path: str, body: object = None) -> dict[str, Any]:
    """Return what the broker answers over HTTP."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        found = json.load(answer)
    assert isinstance(found, dict)
    return found


def says(serving: Serving, *texts: str) -> Callable[[], bool]:
    """Return whether its log has such a line."""
    return lambda: any(all(text in line for text in texts) for line in serving.texts())


def wait_for(serving: Serving, *texts: str) -> None:
    """Wait until its log has such a line."""
    try:
        eventually(says(serving, *texts))
    except TimeoutError:
        raise AssertionError(f"waited for {texts}: {serving.log}") from None
