"""The programs of `examples/` do what they say, each as a reader starts it."""

import asyncio
import importlib.util
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from oms_journal import DatabaseLocked, DatabaseView, MessageDatabase
from tests.support.project import REPOSITORY

EXAMPLES = REPOSITORY / "examples"


def run(name: str, *arguments: str, given: str = "") -> list[str]:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_script_puts_lines_into_a_queue(tmp_path: Path) -> None:
    spool = str(tmp_path / "spool")

    assert run("queue_in_a_script.py", spool, "orders", given="tea\ncoffee\n") == ["1 tea", "2 coffee"]
    assert run("queue_in_a_script.py", spool, "orders", given="milk\n") == ["3 milk"]
    with DatabaseView.open(spool) as view:
        assert [message.payload for message in view.undelivered("orders")] == [b"tea", b"coffee", b"milk"]


def worker(spool: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, str(EXAMPLES / "worker.py"), str(spool)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.whole
def test_a_worker_writes_an_invoice_for_each_order_and_puts_aside_what_fails(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add_many("orders", (b"tea", b"", b"coffee"))

    with worker(tmp_path) as started:
        assert started.stdout is not None
        said = [started.stdout.readline().rstrip() for _ in range(6)]
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 0

    assert said == [
        "ready",
        "order 1: invoice for tea",
        "order 2 failed, attempt 1: an order without a word",
        "order 3: invoice for coffee",
        "order 2 failed, attempt 2: an order without a word",
        "order 2 failed, attempt 3: an order without a word",
    ]
    with MessageDatabase.open(tmp_path, max_attempts=3, dead_letter="orders put aside") as db:
        assert db.take("orders put aside", wait=60) is not None, "where the stop was faster, the next start moves it"
    with DatabaseView.open(tmp_path) as view:
        assert view.queues() == {"invoices": 2, "orders put aside": 1}
        assert view.get("invoices written") == b"2"


def test_a_worker_that_is_killed_loses_no_order(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add_many("orders", [b"%d" % number for number in range(200)])

    with worker(tmp_path) as started:
        assert started.stdout is not None
        for _ in range(20):
            started.stdout.readline()
        started.kill()

    with MessageDatabase.open(tmp_path) as db:
        waiting = [message.payload for message in db.undelivered("orders")]
        invoices = [message.payload for message in db.undelivered("invoices")]
        assert int(db.get("invoices written") or b"0") == len(invoices)
    assert sorted(waiting + [text.removeprefix(b"invoice for ") for text in invoices]) == sorted(
        b"%d" % number for number in range(200)
    )


def flask_client(spool: Path) -> Any:
    return loaded("flask_app").create_app(spool).test_client()


def test_the_flask_application_acknowledges_orders(tmp_path: Path) -> None:
    client = flask_client(tmp_path)
    try:
        assert client.post("/orders", data=b"tea", headers={"Idempotency-Key": "a"}).get_json() == {"number": 1}
        assert client.post("/orders", data=b"tea", headers={"Idempotency-Key": "a"}).get_json() == {"number": 1}
        assert client.post("/orders", data=b"milk", headers={"Idempotency-Key": "a"}).status_code == 409
        assert client.post("/orders", data=b"milk", headers={"Idempotency-Key": "a" * 256}).status_code == 400
        assert client.post("/orders", data=b"x" * 6_144_001).status_code == 400
        assert client.get("/orders").get_json() == {"waiting": 1}
        with pytest.raises(DatabaseLocked):
            loaded("flask_app").create_app(tmp_path)
    finally:
        client.application.extensions["orders"].close()


def test_the_fastapi_application_acknowledges_orders(tmp_path: Path) -> None:
    asyncio.run(_asked(loaded("fastapi_app").create_app(tmp_path)))


async def _asked(app: Any) -> None:
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://orders") as client,
    ):

        async def post(order: bytes, key: str) -> httpx.Response:
            return await client.post("/orders", content=order, headers={"Idempotency-Key": key})

        assert (await post(b"tea", "a")).json() == {"number": 1}
        assert (await post(b"tea", "a")).json() == {"number": 1}
        assert (await post(b"milk", "a")).status_code == 409
        assert (await post(b"milk", "a" * 256)).status_code == 400
        assert (await post(b"x" * 6_144_001, "b")).status_code == 400
        assert (await client.get("/orders")).json() == {"waiting": 1}


def test_each_program_has_a_test() -> None:
    tests = "".join(test.read_text(encoding="utf-8") for test in Path(__file__).parent.glob("test_example_*.py"))

    for program in EXAMPLES.glob("*.py"):
        assert program.stem in tests, program.name


@pytest.mark.parametrize("program", sorted(EXAMPLES.glob("*.py")), ids=lambda program: program.stem)
def test_each_program_says_how_it_is_started(program: Path) -> None:
    text = program.read_text(encoding="utf-8")

    assert program.stem in text.split('"""')[1]
