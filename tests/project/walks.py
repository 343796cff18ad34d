"""Walks through the modules, traced in a real database and a real broker: `python -m tests.project.walks`.

It writes the tables of docs/contributing/walks.md anew. Words that stand beside a module stay; a new one gets its first
sentence. A module is passed where one of its functions runs, or one of its classes is made.
"""

import ast
import asyncio
import gc
import itertools
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

from oms_journal import AsyncBroker, MessageDatabase
from oms_journal.broker.server.runtime.limits import StompLimits
from oms_journal.broker.server.stomp.frames import V12, Frame, encode_frame
from oms_journal.broker.server.stomp.listener import StompListener
from oms_journal.database import maintenance
from oms_journal.database.commits import ledger
from oms_journal.journal.names import LOCK, DataFileName
from oms_journal.recovery.report import Verdict
from tests.project.house_map import first_sentence
from tests.support.project import NAME, REPOSITORY

PAGE = REPOSITORY / "docs" / "contributing" / "walks.md"
SECTIONS = ("add", "add-with-all", "start", "send-to-the-store", "send-in-the-store", "send-to-the-receipt")
_NEVER_SECONDS = 3600.0  # what happens of itself does not happen meanwhile
_COMMITTING = "oms-broker-commit"  # what the threads are called that write for a loop
_ROW = re.compile(r"^\| \d+ \| `(\S+)` \| `(\S+)` \| (.*) \|$", re.MULTILINE)


class Step(NamedTuple):
    """A module that is passed: its path without `.py`, and the first of its functions that is called."""

    module: str
    function: str


class Walk:
    """The modules in the order of their first calls, each with its thread. While it is open, it may be traced.

    Of other threads only those that commit for a broker on a loop belong to a walk. What OMS_CHECK adds for tests is
    left out.
    """

    def __init__(self) -> None:
        self._is_on = False
        self._checks: str | None = None
        self._thread_of: dict[str, int] = {}
        self._function_of: dict[str, tuple[str, bool]] = {}  # and whether it is but a look at a property

    def __enter__(self) -> "Walk":
        self._checks = os.environ.pop("OMS_CHECK", None)
        threading.setprofile(self._note)  # of threads that begin from here on
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        if self._checks is not None:
            os.environ["OMS_CHECK"] = self._checks

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Take what happens in the block for the walk, and nothing that old garbage brings about."""
        gc.collect()
        gc.disable()
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False
            gc.enable()

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if not self._is_on or event != "call" or not module.startswith(f"{NAME}."):
            return
        thread = threading.current_thread()
        if thread is not threading.main_thread() and not thread.name.startswith(_COMMITTING):
            return
        self._thread_of.setdefault(module, thread.ident or 0)
        function, is_property = _called(frame)
        if module not in self._function_of or (self._function_of[module][1] and not is_property):
            self._function_of[module] = function, is_property

    def parts(self) -> list[list[Step]]:
        """Return the steps; a new list begins where another thread goes on."""
        found = itertools.groupby(self._thread_of, self._thread_of.__getitem__)
        return [[Step(_path(module), self._function_of[module][0]) for module in part] for _, part in found]


def _called(frame: FrameType) -> tuple[str, bool]:
    """Return the name of what is called, of an `__init__` the class alone; and whether it is a property."""
    code = frame.f_code
    name = code.co_qualname.split(".<locals>")[0]
    owner = type(frame.f_locals[code.co_varnames[0]]) if code.co_argcount else None
    if code.co_name == "__init__" and owner is not None:
        return owner.__qualname__, False
    return name, isinstance(getattr(owner, code.co_name, None), property)


def _path(module: str) -> str:
    return module.removeprefix(f"{NAME}.").replace(".", "/")


def of_add(directory: Path, **more: Any) -> list[Step]:
    """Return the walk of a payload from `add` to the disk, in a database that has the queue, and such a message."""
    with Walk() as walk, MessageDatabase.open(directory) as database:
        database.add("orders", b"first", **more | {name: "another" for name in more if name == "producer_id"})
        with walk.traced():
            database.add("orders", b"second", **more)
    (part,) = walk.parts()
    return part


def of_start(directory: Path) -> list[Step]:
    """Return the walk of an opening of a directory that was left without a close, its last frame torn."""
    running, crashed = directory / "running", directory / "crashed"
    crashed.mkdir(parents=True)
    with MessageDatabase.open(running) as database:
        for payload in (b"first", b"second", b"third"):
            database.add("orders", payload)
        data = (running / str(DataFileName(1))).read_bytes()
        shutil.copy(running / LOCK, crashed)
    end = len(data.rstrip(b"\0"))
    (crashed / str(DataFileName(1))).write_bytes(data[: end - 1] + bytes(len(data) - end + 1))
    with Walk() as walk, walk.traced():
        database = MessageDatabase.open(crashed)
    with database:
        assert [report.verdict for report in database.recovery.files] == [Verdict.TORN]
    (part,) = walk.parts()
    return part


def of_send(directory: Path) -> list[list[Step]]:
    """Return the walk of a SEND frame to its RECEIPT, at a broker that has the destination and a data file.

    It has three parts: on the loop; in the thread that commits, while the device is not known to be fast; on the loop.
    """
    with Walk() as walk:
        asyncio.run(_send(directory, walk))
    return walk.parts()


async def _send(directory: Path, walk: Walk) -> None:
    async with AsyncBroker.open(directory, tick_seconds=_NEVER_SECONDS) as broker:
        limits = StompLimits(look_seconds=_NEVER_SECONDS)
        listener = StompListener(broker, limits)
        (address,) = await listener.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        send = encode_frame(Frame("SEND", {"destination": "/queue/orders", "receipt": "1"}, b"an order"), V12)
        said = [encode_frame(Frame("CONNECT", {"accept-version": "1.2", "heart-beat": "0,0"}, b""), V12), send]
        for data, answer in zip(said, (b"CONNECTED", b"RECEIPT"), strict=True):
            writer.write(data)
            assert answer in await reader.readuntil(b"\0")
        with walk.traced():
            writer.write(send)
            assert b"RECEIPT" in await reader.readuntil(b"\0")
        writer.close()
        await listener.stop()


def traced(directory: Path) -> dict[str, list[Step]]:
    """Return the steps of each section."""
    # A thread vouches after a second without a commit, and once a second it is looked whether the clock was set.
    never = patch.object(maintenance, "VOUCH_SECONDS", _NEVER_SECONDS)
    with never, patch.object(ledger, "MICROSECONDS", _NEVER_SECONDS * 1e6):
        return _traced(directory)


def _traced(directory: Path) -> dict[str, list[Step]]:
    plain = of_add(directory / "plain")
    full = of_add(directory / "full", properties={"kind": "order"}, producer_id="order 1")
    start = of_start(directory / "start")
    return dict(zip(SECTIONS, [plain, full, start, *of_send(directory / "broker")], strict=True))


def _section(name: str) -> re.Pattern[str]:
    return re.compile(f"<!-- {name}:begin -->\n(.*?)<!-- {name}:end -->", re.DOTALL)


def rows(name: str) -> list[tuple[str, str, str]]:
    """Return the rows of a section of the page: module, function, words."""
    found = _section(name).search(PAGE.read_text(encoding="utf-8"))
    assert found is not None, name
    return _ROW.findall(found[1])


def drawn(name: str, steps: list[Step]) -> str:
    """Return a section as it should stand in the page."""
    words = {module: said for module, _, said in rows(name)}
    lines = ["| | module | first called | what happens there |", "| --- | --- | --- | --- |"]
    for number, (module, function) in enumerate(steps, start=1):
        said = words.get(module) or _first_sentence(module)
        lines.append(f"| {number} | `{module}` | `{function}` | {said} |")
    return "\n".join([f"<!-- {name}:begin -->", *lines, f"<!-- {name}:end -->"])


def _first_sentence(module: str) -> str:
    text = (REPOSITORY / f"{module}.py").read_text(encoding="utf-8")
    return first_sentence(ast.get_docstring(ast.parse(text)) or "")


def write() -> None:
    """Put the walks into the page."""
    with tempfile.TemporaryDirectory() as directory:
        found = traced(Path(directory))
    for name, steps in found.items():
        section = drawn(name, steps)
        before, behind = _section(name).split(PAGE.read_text(encoding="utf-8"))[::2]
        PAGE.write_text(f"{before}{section}{behind}", encoding="utf-8")


if __name__ == "__main__":
    write()
