"""A store is moved between two servers that are processes of their own: whole, once, whatever is killed or cut.

The sample has one of two seeds of kills, and two of the four moments at which the network is cut.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.attributes.attributes import read_attributes
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.server.migration.exchange import MoveFailed
from oms_journal.broker.server.server import Server
from oms_journal.broker.store.start import StartRefused
from tests.broker.server.migration.moving_servers import Side, Wire, free_ports
from tests.support.cli_runner import command_line, environment
from tests.support.servers.guarded_server import Files
from tests.support.servers.moved_stores import attributes, everything, files, lines, write_everything
from tests.support.sweeps import a_sample, split

LONG_BYTES = 200_000


@dataclass(frozen=True)
class Pair:
    """Two attribute files, and how each of the two servers is started."""

    place: Path
    ports: tuple[int, int]
    drivers: tuple[str, str] = ("JOURNAL", "SQLITE")
    addresses: tuple[int, int] = (0, 0)  # ports at which each finds the other; 0: that one's own

    def write(self, side: int, **said: str) -> Path:
        """Write the attribute file of the side: 0 unloads, 1 loads."""
        mode, start = (("PSTORE-UNLOAD", "HOT"), ("PSTORE-LOAD", "COLD"))[side]
        store = self.place / ("old", "new")[side]
        partner = self.addresses[side] or self.ports[1 - side]
        kept = {
            "RUN-MODE": mode,
            "PSTORE": start,
            "PSTORE-TYPE": self.drivers[side],
            "PSTORE-REPORT": "YES",
            "PARTNER-CLUSTER-ADDRESS": f"127.0.0.1:{partner}:TCP",
            "HTTP-PORT": str(self.ports[side]),
            "STOMP-PORT": "0",
        }
        broker = "".join(f"{name}={value}\n" for name, value in (kept | said).items() if value)
        file = self.place / f"{mode}.atr"
        file.write_text(
            f"DEFAULTS=BROKER\n{broker}DEFAULTS=SERVICE\nCLASS=* SERVER=* SERVICE=*\n"
            f"DEFAULTS=JOURNAL\nSPOOL-DIRECTORY={store}\nDEFAULTS=SQLITE\nDATABASE-FILE={store / 'broker.sqlite'}\n"
        )
        return file

    def start(self, side: int, **said: str) -> Side:
        """Start a process."""
        return Side(self.write(side, **said), cwd=self.place)

    def server(self, side: int, **said: str) -> "Here":
        """Return a server for this process."""
        return Here(self.write(side, **said), self.place / f"{('unloaded', 'loaded')[side]}.txt")

    def is_equal(self) -> bool:
        old, new = (everything(self.place / name, self.drivers[side]) for side, name in enumerate(("old", "new")))
        return old == new


class Here:
    """A server in this process."""

    def __init__(self, file: Path, report: Path) -> None:
        self._server = Server(read_attributes(file), report=str(report), show=self._show)
        self.stages: list[str] = []
        self.run = asyncio.ensure_future(self._server.run())

    def _show(self, stage: str, _done: int, _total: int) -> None:
        if stage not in self.stages[-1:]:
            self.stages.append(stage)

    async def says(self, words: str) -> None:
        """Wait until it says so; TimeoutError."""
        await until(lambda: any(words in stage for stage in self.stages))

    async def end(self) -> str:
        """Stop it; return why it ended."""
        self._server.stop()
        return str((await asyncio.gather(self.run, return_exceptions=True))[0])


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.01)


async def moved(first: Here, second: Here) -> tuple[str, str]:
    """Wait for both; return what they say was moved. MoveFailed, StartRefused."""
    async with asyncio.timeout(60):
        a, b = await asyncio.gather(first.run, second.run)
        return a, b


async def failed(first: Here, second: Here) -> tuple[str, str]:
    """Wait for both to fail; return why."""
    async with asyncio.timeout(60):
        found = await asyncio.gather(first.run, second.run, return_exceptions=True)
    assert all(isinstance(one, MoveFailed | StartRefused) for one in found), found
    return str(found[0]), str(found[1])


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    first, second = free_ports(2)
    return Pair(tmp_path, (first, second))


def fill(pair: Pair, count: int) -> None:
    with Broker.open(pair.place / "old") as broker, broker.session("ALICE", token="T") as alice:
        for number in range(count):
            alice.send("A/B/C", number.to_bytes(4, "little") * (LONG_BYTES // 4))


def ask(port: int, path: str, document: object) -> tuple[int, dict[str, Any]]:
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


# Whole, and once.


@pytest.mark.whole
def test_two_processes_move_a_store_and_stop(pair: Pair) -> None:
    write_everything(pair.place / "old")
    before = files(pair.place / "old")
    with pair.start(0) as unload:
        unload.hear(f"waiting for the load broker at 127.0.0.1:{pair.ports[1]}")
        with pair.start(1) as load:
            assert (unload.end(), load.end()) == (0, 0)
            for side in (unload, load):
                assert "equal on both sides: " in side.moved
                assert "Conversation" in side.moved and "never" in side.moved
                assert side.moved in side.log
    assert pair.is_equal()
    assert files(pair.place / "old") == before
    unloaded, loaded = (list(lines(pair.place / f"PSTORE.REPORT.{mode}")) for mode in ("UNLOAD", "LOAD"))
    assert unloaded == loaded
    assert len(loaded) > 30


@pytest.mark.whole
@pytest.mark.parametrize(
    "drivers", split([("SQLITE", "JOURNAL")], [("JOURNAL", "JOURNAL"), ("SQLITE", "SQLITE")]), ids="-".join
)
def test_the_load_broker_may_be_first_and_waits(pair: Pair, drivers: tuple[str, str]) -> None:
    pair = replace(pair, drivers=drivers)
    with Broker.open(attributes=attributes(pair.place / "old", drivers[0])) as broker, broker.session("A") as alice:
        for number in range(5):
            alice.send("A/B/C", b"%d" % number, status_lifetimes=2)

    async def run() -> None:
        load = pair.server(1)
        await load.says(f"waiting for the unload broker at 127.0.0.1:{pair.ports[0]}")
        unload = pair.server(0)
        for said in await moved(unload, load):
            assert "5 Conversation" in said and "5 Message" in said

    asyncio.run(run())
    assert pair.is_equal()
    unloaded, loaded = (list(lines(pair.place / name)) for name in ("unloaded.txt", "loaded.txt"))
    assert unloaded == loaded
    assert len(loaded) >= 7


@pytest.mark.whole
def test_a_move_that_has_ended_is_compared_again_and_nothing_comes_twice(pair: Pair) -> None:
    fill(pair, 2)

    async def run() -> None:
        for turn in range(3):  # as if the unload broker had been killed before it heard how it ended
            unload, load = pair.server(0), pair.server(1)
            await moved(unload, load)
            assert any("which was loaded before" in stage for stage in unload.stages) == (turn > 0)

    asyncio.run(run())
    assert pair.is_equal()
    new = attributes(pair.place / "new", "SQLITE", pstore="HOT")
    with Broker.open(attributes=new) as broker, broker.session("BOB") as bob:
        bob.register("A/B/C")
        assert [len(message.body) for unit in bob.receive_units(wait=0.1) for message in unit] == [LONG_BYTES] * 2


def test_servers_with_users_and_tls_move_a_store(pair: Pair) -> None:
    fill(pair, 2)
    given = Files(pair.place)
    said = {"USERS-FILE": str(given.users_file), "TLS-CERTIFICATE": str(given.chain)}
    said |= {"TLS-CA": str(given.authority_file)}

    async def run() -> None:
        await moved(pair.server(0, **said), pair.server(1, **said))

    asyncio.run(run())
    assert pair.is_equal()


# Interrupted.


def move_among_kills(pair: Pair, seed: int) -> None:
    """Kill one of the two, or both, at two moments, and start them again."""
    chance = random.Random(seed)
    before = files(pair.place / "old")
    pair = replace(pair, drivers=("JOURNAL", ("SQLITE", "JOURNAL")[seed % 2]))
    sides = [pair.start(0), pair.start(1)]
    started = list(sides)
    try:
        for _ in range(2):
            for side in sides:
                side.listens()
            time.sleep(chance.random() * 0.8)
            for which in chance.choice(((0,), (1,), (0, 1))):
                sides[which].end(signal.SIGKILL)
            if all(side.child.poll() == 0 for side in sides):
                break
            for which in (0, 1):
                if sides[which].child.poll() is not None:
                    sides[which] = pair.start(which)
                    started.append(sides[which])
        codes = [sides[0].end()]
        # Killed once all was there, and its partner knew, the one that loads is started for nothing: it waits.
        is_done = any("loaded, and equal" in text for side in started if side is not sides[1] for text in side.log)
        codes.append(0 if is_done and sides[1].end(signal.SIGKILL) else sides[1].end())
    finally:
        for side in started:
            side.__exit__(None, None, None)
    assert codes == [0, 0], [side.log for side in sides]
    assert pair.is_equal()
    assert files(pair.place / "old") == before
    Broker.open(attributes=attributes(pair.place / "new", pair.drivers[1], pstore="HOT")).close()


@pytest.mark.whole
@pytest.mark.parametrize("seed", split([1], [0]))
def test_who_is_killed_and_started_again_moves_the_store_once(pair: Pair, seed: int) -> None:
    fill(pair, 60)
    move_among_kills(pair, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
def test_whoever_is_killed_the_store_is_moved_once(pair: Pair, seed: int) -> None:
    fill(pair, 60)
    move_among_kills(pair, seed)


@a_sample(1)
@pytest.mark.parametrize("cuts_after", split([6_000_000], [200, 1_500_000, 9_990_000]))
def test_a_network_that_is_cut_and_mended_is_waited_for(pair: Pair, cuts_after: int) -> None:
    fill(pair, 50)
    before = files(pair.place / "old")

    async def run(pair: Pair, wire: Wire) -> None:
        unload, load = pair.server(0), pair.server(1)
        await until(lambda: wire.cuts_after is None)
        await asyncio.sleep(0.2)
        wire.mend()
        await moved(unload, load)

    with Wire(pair.ports[1]) as wire:
        wire.cuts_after = cuts_after
        asyncio.run(run(replace(pair, addresses=(wire.port, 0)), wire))
    assert pair.is_equal()
    assert files(pair.place / "old") == before


@pytest.mark.whole
def test_a_load_broker_that_comes_back_begins_anew(pair: Pair) -> None:
    fill(pair, 50)

    async def run(pair: Pair, wire: Wire) -> None:
        unload, load = pair.server(0), pair.server(1)
        await until(lambda: wire.cuts_after is None)
        assert "stopped before the store was moved" in await load.end()
        with pytest.raises(StartRefused, match="was not finished"):
            Broker.open(attributes=attributes(pair.place / "new", "SQLITE", pstore="HOT"))
        wire.mend()
        await moved(unload, pair.server(1))

    with Wire(pair.ports[1]) as wire:
        wire.cuts_after = 3_000_000
        asyncio.run(run(replace(pair, addresses=(wire.port, 0)), wire))
    assert pair.is_equal()


@pytest.mark.whole
def test_who_is_told_to_stop_before_the_end_says_that_it_is_not_done(pair: Pair) -> None:
    fill(pair, 1)
    with pair.start(0) as waiting:
        waiting.hear("waiting for")
        assert waiting.end(signal.SIGTERM) == 4
        assert any("stopped before the store was moved" in text for text in waiting.log)


@pytest.mark.whole
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_shows_whom_it_waits_for(pair: Pair) -> None:
    fill(pair, 1)
    near, far = os.openpty()
    command = command_line("serve", str(pair.write(0)))
    kept = {name: value for name, value in environment().items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=far, env=kept) as child:
        os.close(far)
        shown = b""
        while b"waiting for the load broker at 127.0.0.1:%d \x1b[" % pair.ports[1] not in shown:
            shown += os.read(near, 1000)  # its bar moves; the line in the log has no colours
        child.send_signal(signal.SIGINT)
        with suppress(OSError):  # EIO: it has gone
            while data := os.read(near, 1000):
                shown += data
        assert child.wait() == 4
    os.close(near)
    assert b"stopped before the store was moved" in shown


# Refused.


def test_both_stop_where_they_have_the_same_store(pair: Pair) -> None:
    fill(pair, 1)
    before = files(pair.place / "old")

    async def run() -> None:
        unload = pair.server(0)
        await unload.says("waiting")
        file = pair.write(1, **{"PSTORE-TYPE": "JOURNAL"})
        file.write_text(file.read_text().replace(str(pair.place / "new"), str(pair.place / "old")))
        for why in await failed(unload, Here(file, pair.place / "loaded.txt")):
            assert "both brokers have the same store" in why

    asyncio.run(run())
    assert files(pair.place / "old") == before


@pytest.mark.parametrize("driver", ["SQLITE", "JOURNAL"])
def test_a_target_that_is_not_empty_is_refused_and_the_partner_hears_of_it(pair: Pair, driver: str) -> None:
    fill(pair, 1)
    pair = replace(pair, drivers=("JOURNAL", driver))
    with Broker.open(attributes=attributes(pair.place / "new", driver)) as broker, broker.session("BOB") as bob:
        bob.send("A/B/C", b"mine")

    async def run() -> None:
        unload = pair.server(0)
        await unload.says("waiting")
        for why in await failed(unload, pair.server(1)):
            assert "is not empty: it holds 1 messages" in why

    asyncio.run(run())
    with Broker.open(attributes=attributes(pair.place / "new", driver)) as broker, broker.session("BOB") as bob:
        bob.register("A/B/C")
        assert [m.body for unit in bob.receive_units(wait=0.1) for m in unit] == [b"mine"]


@pytest.mark.whole
def test_another_source_may_not_touch_an_unfinished_load(pair: Pair) -> None:
    fill(pair, 20)

    async def run(pair: Pair, wire: Wire) -> None:
        unload, load = pair.server(0), pair.server(1)
        await until(lambda: wire.cuts_after is None)
        await unload.end()
        await load.end()
        wire.mend()
        (pair.place / "old").rename(pair.place / "first")
        fill(pair, 1)
        for why in await failed(pair.server(0), pair.server(1)):
            assert "holds an unfinished load of" in why
        (pair.place / "old").rename(pair.place / "second")
        (pair.place / "first").rename(pair.place / "old")
        await moved(pair.server(0), pair.server(1))

    with Wire(pair.ports[1]) as wire:
        wire.cuts_after = 2_500_000
        asyncio.run(run(replace(pair, addresses=(wire.port, 0)), wire))
    assert pair.is_equal()


def test_a_partner_that_does_not_load_is_left_alone(pair: Pair) -> None:
    fill(pair, 1)

    async def run() -> None:
        other = pair.server(1, **{"RUN-MODE": "STANDARD", "PSTORE": "WARM"})
        unload = pair.server(0)
        with pytest.raises(MoveFailed, match="does not run with RUN-MODE=PSTORE-LOAD"):
            await unload.run
        assert not other.run.done()
        assert await other.end() == ""

    asyncio.run(run())


@pytest.mark.whole
def test_a_load_broker_believes_its_own_partner_only(pair: Pair) -> None:
    fill(pair, 1)
    stranger = {"PARTNER-CLUSTER-ADDRESS": f"127.0.0.1:{free_ports(1)[0]}:TCP"}

    async def run() -> None:
        load, unload = pair.server(1, **stranger), pair.server(0)
        await unload.says("which is not ready: the partner at")
        for each in (load, unload):
            assert "stopped before the store was moved" in await each.end()

    asyncio.run(run())
    assert not (pair.place / "loaded.txt").exists()


@pytest.mark.parametrize("side", [0, 1])
def test_only_administration_is_answered_while_a_store_is_moved(pair: Pair, side: int) -> None:
    fill(pair, 1)

    async def run() -> None:
        waiting = pair.server(side)
        await waiting.says("waiting")
        assert list(waiting._server._addresses) == ["HTTP"]
        said = {"function": "LOGON", "user_id": "ALICE"}
        status, answer = await asyncio.to_thread(ask, pair.ports[side], "/aci", said)
        assert (status, answer["error_code"]) == (200, "00780624"), answer
        _, answer = await asyncio.to_thread(ask, pair.ports[side], "/info/BROKER", None)
        (row,) = answer["rows"]
        assert row["run_mode"] == ("PSTORE-UNLOAD", "PSTORE-LOAD")[side]
        assert row["partner"].startswith("waiting for the")
        said = {"command": "PURGE", "object": "PSF", "uowid": "1000000100000001"}
        _, answer = await asyncio.to_thread(ask, pair.ports[side], "/command", said)
        assert (answer["code"], answer["error_code"]) == (50, "00780624"), answer
        for verb in ("hello", "chunk/1/0", "check/1", "end/1", "failed", "confirm", "else"):
            for name in ("load", "unload", "other"):
                status, answer = await asyncio.to_thread(ask, pair.ports[side], f"/peer/{name}/{verb}", {})
                assert 400 <= status < 500 or status == 503, (name, verb, answer)
                assert answer["error"]
        mine = (("unload",), ("load",))[side][0]
        lie = {"text": "a lie", "nonce": "x", "offer": {}} | {"offer": OFFER}
        status, answer = await asyncio.to_thread(ask, pair.ports[side], f"/peer/{mine}/failed", lie)
        assert status == 503, "nobody confirms it"
        assert not waiting.run.done()
        await waiting.end()

    asyncio.run(run())


OFFER = {"protocol": 1, "version": "1", "mode": "PSTORE-LOAD", "driver": "JOURNAL", "place": "/x", "host": "h"}
