"""`oms long-uow`: a unit of work that takes long, who works at it, who watches it, and the lines to the broker.

What a person sees of a whole run, and Ctrl-C, are left to the whole.
"""

import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.requests import Message, UnitStatus
from oms_journal.broker.sessions.session_parts import ReceivedUnit
from oms_journal.broker.sessions.sessions import Session
from oms_journal.cli.demo.long_uow.line import Line, hand_over, handed_over, serve
from oms_journal.cli.demo.long_uow.run import Act, Run, Seen, Who, differences
from oms_journal.cli.demo.long_uow.work import SERVICE, Progress, sent, watch, work
from tests.support.cli_runner import command_line, environment, oms, oms_json

PAGES = [b"one", b"two", b"three", b"four", b"five"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker.open(tmp_path / "spool", broker_id="LONGUOW", uwstatp="10") as broker:
        yield broker


@pytest.fixture
def sender(broker: Broker) -> Iterator[Session]:
    with broker.session("SENDER", token="FIRST") as session:
        yield session


@pytest.fixture
def worker(broker: Broker) -> Iterator[Session]:
    with broker.session("WORKER", token="W1") as session:
        session.register(SERVICE)
        yield session


def received(worker: Session) -> ReceivedUnit:
    unit = worker.receive_unit(SERVICE)
    assert unit is not None
    return unit


class Crash(Exception):
    """The worker is no more."""


class Pages:
    """What a worker has done. It crashes in its work at some pages, each time once; others call somebody."""

    def __init__(self, *crashes: int, **calls: Callable[[], object]) -> None:
        self.done: list[tuple[int, bytes]] = []
        self._crashes = list(crashes)
        self._calls = {int(name.removeprefix("at_")): call for name, call in calls.items()}

    def __call__(self, number: int, message: Message) -> None:
        self.done.append((number, message.body))
        if number in self._calls:
            self._calls.pop(number)()
        if number in self._crashes:
            self._crashes.remove(number)
            raise Crash

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.done]


# The work.


def test_the_worker_says_in_the_user_status_how_far_it_is(sender: Session, worker: Session) -> None:
    """EntireX, Using Persistence and Units of Work, "Using User Status"."""
    unit = sent(sender, PAGES)
    heard: list[tuple[Status, str]] = []

    def look() -> None:
        status = sender.query(unit.uowid)
        heard.append((status.status, status.user_status))

    pages = Pages(**{f"at_{number}": look for number in range(1, 6)})
    look()
    status = work(received(worker), pages)
    look()

    assert (status.status, status.user_status) == (Status.PROCESSED, "5 of 5")
    assert heard == [
        (Status.ACCEPTED, "0 of 5"),
        *((Status.DELIVERED, f"{number} of 5") for number in range(5)),
        (Status.PROCESSED, "5 of 5"),
    ]
    assert pages.done == list(enumerate(PAGES, start=1))


@pytest.mark.parametrize("page", range(1, 6))
def test_another_worker_goes_on_where_one_has_crashed(page: int, sender: Session, worker: Session) -> None:
    sent(sender, PAGES)
    pages = Pages(page)

    with pytest.raises(Crash):
        work(received(worker), pages)
    unit = received(worker)
    status = work(unit, pages)

    assert unit.delivery_count == 1
    assert status.status is Status.PROCESSED
    assert pages.numbers == [*range(1, page + 1), *range(page, 6)]  # that one was not noted yet


@pytest.mark.parametrize("page", range(1, 6))
def test_the_worker_stops_when_the_sender_wants_it(page: int, sender: Session, worker: Session) -> None:
    """EntireX, Using Persistence and Units of Work, "Using User Status": processing should be abandoned."""
    unit = sent(sender, PAGES)
    ask: Callable[[], object] = lambda: sender.set_user_status(unit.uowid, "STOP after 0 of 5")  # noqa: E731
    pages = Pages(**{f"at_{page}": ask})

    status = work(received(worker), pages)

    assert (status.status, status.user_status) == (Status.CANCELLED, f"stopped after {page} of 5")
    assert pages.numbers == list(range(1, page + 1))
    assert sender.query(unit.uowid).status is Status.CANCELLED


def test_a_request_to_stop_that_nobody_has_seen_yet_is_heard_by_who_comes_next(
    sender: Session, worker: Session
) -> None:
    unit = sent(sender, PAGES)
    pages = Pages(3)
    with pytest.raises(Crash):
        work(received(worker), pages)
    sender.set_user_status(unit.uowid, "STOP after 2 of 5")

    status = work(received(worker), pages)

    assert (status.status, status.user_status) == (Status.CANCELLED, "stopped after 2 of 5")
    assert pages.numbers == [1, 2, 3]


@pytest.mark.parametrize("text", ["", "7", "7 of", "STOP", "stop after 7 of 24", "7 of 24 ", "a of b"])
def test_a_user_status_of_somebody_else_is_not_guessed_at(text: str) -> None:
    with pytest.raises(ValueError, match="does not say how far"):
        Progress.read(text)


@pytest.mark.parametrize("done", [0, 7, 24])
def test_the_progress_is_read_as_it_was_written(done: int) -> None:
    progress = Progress(done, 24)

    assert Progress.read(str(progress)) == progress
    assert Progress.read(f"STOP after {progress}") == progress._replace(is_stop=True)
    assert Progress.read(f"stopped after {progress}") == progress._replace(is_stop=True)
    assert len(f"stopped after {Progress(10_000, 10_000)}") <= 32  # of a user status


# The sender.


def test_a_sender_that_comes_again_finds_its_unit_of_work(broker: Broker, sender: Session) -> None:
    unit = sent(sender, PAGES)

    assert sent(sender, PAGES).uowid == unit.uowid
    with broker.session("SENDER", token="SECOND") as another:
        assert sent(another, PAGES).uowid != unit.uowid


def test_what_a_sender_had_not_committed_when_it_crashed_is_sent_anew(
    broker: Broker, sender: Session, tmp_path: Path
) -> None:
    unit = sender.unit_of_work(SERVICE, user_status="0 of 5")
    unit.send(PAGES[0])
    shutil.copytree(tmp_path / "spool", tmp_path / "crashed")  # what a crash would leave now

    with Broker.open(tmp_path / "crashed", broker_id="LONGUOW", uwstatp="10") as after:
        with after.session("SENDER", token="FIRST") as again:
            last = again.last()
            assert last is not None and last.status is Status.BACKEDOUT
            sent(again, PAGES)
        with after.session("WORKER", token="W1") as worker:
            worker.register(SERVICE)
            assert [message.body for message in received(worker)] == PAGES


def test_who_watches_asks_again_when_its_request_was_overwritten(sender: Session, worker: Session) -> None:
    """The user status is one field: the last to write it decides."""
    unit = sent(sender, PAGES)
    works = received(worker)
    works.set_user_status("2 of 5")
    heard: list[str] = []

    def hear(status: UnitStatus) -> None:
        heard.append(status.user_status)
        if status.user_status == "STOP after 2 of 5":
            works.set_user_status("3 of 5")
        elif status.user_status == "STOP after 3 of 5":
            works.cancel(user_status="stopped after 4 of 5")

    status = watch(sender, unit, stop_at=2, hear=hear)

    assert status.status is Status.CANCELLED
    assert heard == [
        *("0 of 5", "2 of 5", "STOP after 2 of 5", "3 of 5", "STOP after 3 of 5"),
        "stopped after 4 of 5",
    ]


def test_a_request_that_comes_too_late_changes_nothing(sender: Session, worker: Session) -> None:
    unit = sent(sender, PAGES)
    works = received(worker)
    works.set_user_status("4 of 5")

    def hear(status: UnitStatus) -> None:
        if status.user_status == "4 of 5":
            works.commit(user_status="5 of 5")

    status = watch(sender, unit, stop_at=4, hear=hear)

    assert (status.status, status.user_status) == (Status.PROCESSED, "5 of 5")


# The lines.


@pytest.fixture
def control(broker: Broker) -> Iterator[socket.socket]:
    """Yield the control socket of a broker that serves what it is handed over, as its process does."""
    ours, theirs = socket.socketpair()
    threads: list[threading.Thread] = []

    def listen() -> None:
        for connection in handed_over(theirs):
            threads.append(threading.Thread(target=serve, args=(broker, connection)))
            threads[-1].start()

    listening = threading.Thread(target=listen)
    listening.start()
    with ours, theirs:
        yield ours
        ours.shutdown(socket.SHUT_RDWR)
        listening.join()
        for thread in threads:
            thread.join()


def line(control: socket.socket) -> Line:
    from multiprocessing.connection import Connection

    return Line(Connection(hand_over(control).detach()))


def test_a_session_over_a_line_is_as_one_on_the_broker(control: socket.socket, sender: Session) -> None:
    unit = sent(sender, PAGES)

    with Session(line(control), "WORKER", "W1", {}) as worker:
        worker.register(SERVICE)
        status = work(received(worker), pages := Pages())
        with pytest.raises(BrokerError) as refused:
            worker.query("1000000000000000")
        worker._broker.gone(0)

    assert (status.uowid, status.status) == (unit.uowid, Status.PROCESSED)
    assert pages.done == list(enumerate(PAGES, start=1))
    assert refused.value.code is Code.UOW_NOT_FOUND


def test_what_a_line_that_ends_was_receiving_is_given_back(
    control: socket.socket, sender: Session, worker: Session
) -> None:
    unit = sent(sender, PAGES)
    lost = Session(line(control), "WORKER", "W2", {})
    lost.log_on()
    lost.register(SERVICE)
    received(lost).set_user_status("2 of 5")

    lost._broker.gone(0)

    while sender.query(unit.uowid).status is Status.DELIVERED:
        time.sleep(0.005)
    work(received(worker), pages := Pages())
    assert pages.numbers == [3, 4, 5]


def test_a_call_over_a_line_that_has_ended_is_answered_with_a_code(control: socket.socket) -> None:
    session = Session(line(control), "WORKER", "W1", {})
    session.log_on()
    session._broker.gone(0)

    with pytest.raises(BrokerError) as refused:
        session.register(SERVICE)

    assert refused.value.code is Code.NOT_ACTIVE


# The run.


def test_a_run_with_kills_holds_and_says_so_in_json(tmp_path: Path) -> None:
    seen = oms_json("long-uow", "--pages", "12", "--kills", "2", "--seed", "5", spool=tmp_path)

    assert (seen["holds"], seen["findings"], seen["kept"]) == (True, [], False)
    first, second = seen["units"]
    assert sorted(first["killed"]) == ["broker", "worker"]
    assert first["heard"][-1] == {"status": "PROCESSED", "user_status": "12 of 12"}
    assert (first["done"], first["done_again"] <= 2) == (12, True)
    assert second["heard"][-1]["status"] == "CANCELLED"
    assert 6 <= second["done"] < 120
    assert list(tmp_path.iterdir()) == []


@pytest.mark.whole
def test_a_person_sees_what_the_three_do_and_the_verdict(tmp_path: Path) -> None:
    spool = tmp_path / "spool"

    text = oms("long-uow", "--pages", "4", "--kills", "0", "--spool", str(spool)).stdout

    lines = [line.strip() for line in text.splitlines()]
    assert "sender  hears ACCEPTED, '0 of 4'" in lines
    assert "worker  ends it: PROCESSED, '4 of 4'" in lines
    assert any(line.startswith("sender  hears CANCELLED, 'stopped after ") for line in lines)
    assert "Verdict: it holds." in text
    assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 80
    assert oms_json("verify", spool=spool)["intact"] is True
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spool", "spool.pages"]


@pytest.mark.whole
def test_ctrl_c_ends_all_three_and_removes_the_directory(tmp_path: Path) -> None:
    with subprocess.Popen(
        command_line("long-uow", "--pages", "40"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment() | {"TMPDIR": str(tmp_path)},
    ) as running:
        while not any(tmp_path.glob("*/pages")) and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)

    assert (running.returncode, errors) == (130, b"oms: interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--pages", "3"], "from 4 to 1,000"),
        (["--pages", "many"], "must be a whole number"),
        (["--kills", "-1"], "from 0 to 100"),
        (["--spool", "full"], "not an empty directory"),
        (["--spool", "empty"], "empty.pages is there already"),
        (["extra"], "extra"),
    ],
)
def test_wrong_usage_is_one_line_and_changes_nothing(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "empty.pages").write_text("")
    before = sorted(tmp_path.rglob("*"))

    result = oms("long-uow", *arguments, code=2)

    assert said in result.stderr
    assert (len(result.stderr.splitlines()), result.stdout) == (1, "")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")

    result = oms("long-uow", "--spool", str(tmp_path / "file" / "spool"), code=4)

    assert len(result.stderr.splitlines()) == 1
    assert "the broker failed: cannot make" in result.stderr


def test_a_run_that_does_not_hold_is_told_and_its_directory_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Forging(Run):
        def run(self) -> Seen:
            act = Act(name="FIRST", pages=4, stop_at=0, kills=[], uowid="1", heard=[("PROCESSED", "4 of 4")])
            return Seen(settings=self._settings, acts=[act, act], done={"1": Counter()}, findings=["a page is missing"])

    monkeypatch.setattr("oms_journal.cli.demo.long_uow.run.Run", Forging)

    result = oms("long-uow", code=1)

    assert "Verdict: it does NOT hold; 1 difference." in result.stdout
    assert "- a page is missing" in result.stdout
    assert len(list(tmp_path.iterdir())) == 1


ALL_DONE = Counter(range(1, 6))
PROCESSED = Act(
    name="FIRST", pages=5, stop_at=0, kills=[], killed=[Who.WORKER], uowid="1", heard=[("PROCESSED", "5 of 5")]
)
STOPPED = replace(PROCESSED, stop_at=2, heard=[("CANCELLED", "stopped after 3 of 5")])


@pytest.mark.parametrize(
    ("act", "done", "said"),
    [
        (PROCESSED, ALL_DONE, ""),
        (PROCESSED, ALL_DONE + Counter([3]), ""),
        (PROCESSED, ALL_DONE + Counter([3, 4]), "2 pages were done again after 1 kills"),
        (PROCESSED, ALL_DONE - Counter([3]), "4 are done, of which 5 is the last"),
        (replace(PROCESSED, heard=[("CANCELLED", "5 of 5")]), ALL_DONE, "was to be processed"),
        (replace(PROCESSED, heard=[("PROCESSED", "4 of 5")]), ALL_DONE, "was to be processed"),
        (
            replace(PROCESSED, heard=[("DELIVERED", "3 of 5"), ("ACCEPTED", "2 of 5"), *PROCESSED.heard]),
            ALL_DONE,
            "went back",
        ),
        (STOPPED, Counter(range(1, 4)), ""),
        (STOPPED, ALL_DONE, "5 are done"),
        (replace(STOPPED, heard=PROCESSED.heard), ALL_DONE, "was to be stopped"),
    ],
)
def test_what_has_not_become_of_a_unit_of_work_what_should_is_found(act: Act, done: Counter[int], said: str) -> None:
    found = differences(act, done)

    assert (said in "\n".join(found)) if said else found == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_long_run_holds_whoever_is_killed(seed: int, tmp_path: Path) -> None:
    seen = oms_json("long-uow", "--pages", "200", "--kills", "40", "--seed", str(seed), spool=tmp_path)

    assert (seen["holds"], seen["kills"]) == (True, 40)
