"""The example of a small broker runs, answers every order, and goes on with a store that it finds."""

import subprocess
import sys
from pathlib import Path

from oms_journal import Broker
from tests.support.project import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "small_broker.py"
ANSWERS = ["on its way: 3 apples", "on its way: 2 pears, 1 melon", "on its way: 12 eggs"]


def run(directory: Path) -> list[str]:
    command = [sys.executable, str(EXAMPLE), str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_small_broker_answers_every_order_each_time(tmp_path: Path) -> None:
    assert [run(tmp_path / "store") for _ in range(2)] == [ANSWERS, ANSWERS]


def test_the_small_broker_handles_what_was_left_in_its_store(tmp_path: Path) -> None:
    with Broker.open(tmp_path) as broker, broker.session("ALICE", token="SHOP") as shop:
        left = shop.send("SHOP/ORDERS/NEW", b"1 lemon", status_lifetimes=2)

    run(tmp_path)

    with Broker.open(tmp_path) as broker, broker.session("ALICE", token="SHOP") as shop:
        assert shop.query(left.uowid).status.name == "PROCESSED"
