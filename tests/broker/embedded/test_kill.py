"""A process with an embedded broker is killed in the middle: the restart shows what was acknowledged, and no more.

The sample kills after 120 lines, the whole after 31 too.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oms_journal.broker.block import Option
from oms_journal.broker.drivers.sqlite import SqliteStore
from oms_journal.broker.records import CLOCK, CLOCK_KEY
from tests.support.broker.embedded import KINDS, SERVICE, kind_of
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.project import PYTHONPATH, REPOSITORY
from tests.support.sweeps import split
from tests.support.warm_starts import Process


def killed(directory: Path, words: str, seed: int, lines: int) -> list[list[str]]:
    """Run the program until it has said so many lines, kill it, and return all that it said."""
    environ = os.environ | {"PYTHONPATH": PYTHONPATH}
    program = [sys.executable, "-m", "tests.support.broker.killed", str(directory), *words.split(), str(seed)]
    with Process(program, stdout=subprocess.PIPE, text=True, env=environ, cwd=REPOSITORY) as running:
        assert running.stdout is not None
        said = [running.stdout.readline() for _ in range(lines)]
        time.sleep(random.Random(seed).random() * 0.01)
        running.send_signal(signal.SIGKILL)
        said += running.stdout.readlines()
        assert running.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
    return [line.split() for line in said if line.endswith("\n")]


@pytest.mark.whole
@pytest.mark.parametrize("words", KINDS)
@pytest.mark.parametrize("lines", split([120], [31]))
def test_a_restart_shows_exactly_what_was_acknowledged(tmp_path: Path, words: str, lines: int) -> None:
    with kind_of(words) as kind:
        said = killed(tmp_path / "store", words, lines, lines)
        sent = {int(line[1]) for line in said if line[0] == "sent"}
        sending = {int(line[1]) for line in said if line[0] == "sending"}
        committed = {int(line[1]) for line in said if line[0] == "committed"}
        committing = {int(line[1]) for line in said if line[0] == "committing"}
        answers = {int(line[1]): line[2] for line in said if line[0] == "answering"}
        with kind.open(tmp_path / "store", uwtime="1D") as broker:
            with broker.session("BOB", token="B") as bob:
                bob.register(SERVICE)
                found: list[int] = []
                for unit in bob.receive_units():
                    with unit:
                        bodies = [message.body for message in unit]
                        assert bodies[1:] == [b"more"] * (len(bodies) - 1), "all of it or nothing"
                        found.append(int(bodies[0]))
            with broker.session("ALICE", token="A") as alice:
                answered = {}
                for number, conv_id in answers.items():
                    reply = alice.ask(alice._speaker.receive(None, conv_id, None, option=Option.SYNC))
                    answered[number] = reply.body

    assert found == sorted(found), "in the order of their commits"
    assert len(found) == len(set(found)), "once"
    assert sent - committing <= set(found) <= sending - committed
    for number, body in answered.items():
        assert body in (b"answer %d" % number, None)
        assert (body is None) == (number in found), "both are committed, or neither"


def test_the_clock_goes_on_where_it_was_written_last_and_no_lifetime_is_cut_short(tmp_path: Path) -> None:
    """A crash costs the pseudo-clock at most a tick: what runs on it lives that much longer, never shorter."""
    began = time.monotonic()
    said = killed(tmp_path / "store", "threads SQLITE", 1, 40)
    lived = time.monotonic() - began
    store = SqliteStore.open(tmp_path / "store" / "broker.sqlite")
    value = store.record(CLOCK_KEY)
    store.close()

    assert said[0][0] == "began"
    clock = 0 if value is None else CLOCK.decode(value).clock
    assert 0 <= clock <= lived * 1_000_000
