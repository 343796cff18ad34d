"""The how-to on long units of work: its program runs as it stands there, and its table of ways to stop is right."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oms_journal import Broker, BrokerError
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.requests import UnitStatus
from oms_journal.broker.sessions.session_parts import ReceivedUnit
from oms_journal.broker.sessions.sessions import Session
from tests.support.project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "how-to" / "long-units-of-work.md").read_text(encoding="utf-8")
PROGRAM = PAGE.split("```python\n")[1].split("```")[0]
SHOWN = PAGE.split("```text\n")[1].split("```")[0].splitlines()
SERVICE = "WORK/LONG/PAGES"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    place = tmp_path_factory.mktemp("program")
    (place / "long_unit_of_work.py").write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "long_unit_of_work.py"], cwd=place, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def _of(lines: list[str], total: int) -> list[tuple[str, str, int]]:
    """Return status, words and pages of the lines about the unit of work of so many pages."""
    found = [re.fullmatch(rf"([A-Z]+): (.*?)(\d+) of {total}", line) for line in lines]
    return [(each[1], each[2], int(each[3])) for each in found if each is not None]


@pytest.mark.whole
def test_the_worker_says_how_far_it_is_and_goes_on_where_it_broke_down(printed: list[str]) -> None:
    """EntireX, Using Persistence and Units of Work, "Using User Status"."""
    seen = _of(printed, 6)

    assert seen[0][1:] == ("", 0)
    assert seen[-1] == ("PROCESSED", "", 6)
    assert {status for status, _, _ in seen} <= {"ACCEPTED", "DELIVERED", "PROCESSED"}  # it is ACCEPTED once more
    counts = [done for _, _, done in seen]
    assert counts == sorted(counts)
    assert len(set(counts)) > 2


def test_the_worker_stops_when_its_sender_asks(printed: list[str]) -> None:
    """EntireX, Using Persistence and Units of Work, "Using User Status": processing should be abandoned."""
    seen = _of(printed, 100)
    asked = [done for _, words, done in seen if words == "STOP after "]

    status, words, done = seen[-1]
    assert (status, words) == ("CANCELLED", "stopped after ")
    assert asked == sorted(asked)
    assert 3 <= done < 100


def test_what_nobody_works_at_ends_with_its_lifetime(printed: list[str]) -> None:
    assert printed[-2:] == ["ACCEPTED: 0 of 2", "TIMEOUT: 0 of 2"]


@pytest.mark.parametrize("total", [6, 100, 2])
def test_the_page_shows_what_the_program_prints(total: int, printed: list[str]) -> None:
    shown, seen = _of(SHOWN, total), _of(printed, total)

    assert shown[0][1:] == seen[0][1:]
    assert shown[-1][:2] == seen[-1][:2]
    assert len(SHOWN) == sum(len(_of(SHOWN, each)) for each in (6, 100, 2))


# The ways to stop it.


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker.open(tmp_path / "store") as broker:
        yield broker


@pytest.fixture
def sender(broker: Broker) -> Iterator[Session]:
    with broker.session("SENDER") as sender:
        yield sender


@pytest.fixture
def worker(broker: Broker) -> Iterator[Session]:
    with broker.session("WORKER", token="W1") as worker:
        worker.register(SERVICE)
        yield worker


@pytest.fixture
def sent(sender: Session) -> UnitStatus:
    return sender.send(SERVICE, b"page 1 of 1", user_status="0 of 1", lifetime="1D", status_lifetimes=10)


def received(worker: Session) -> ReceivedUnit:
    unit = worker.receive_unit(SERVICE)
    assert unit is not None
    return unit


def test_another_session_of_its_user_may_watch_and_ask_and_nobody_else(broker: Broker, sent: UnitStatus) -> None:
    with broker.session("SENDER") as same, broker.session("SENDER", token="T") as apart, broker.session("X") as other:
        assert same.query(sent.uowid).user_status == "0 of 1"
        assert same.set_user_status(sent.uowid, "STOP after 0 of 1").user_status == "STOP after 0 of 1"
        for session in (apart, other):
            for call in (session.query, lambda uowid, each=session: each.set_user_status(uowid, "STOP")):
                with pytest.raises(BrokerError, match="00780308"):
                    call(sent.uowid)


def test_a_request_to_stop_that_nobody_has_seen_yet_is_heard_by_who_comes_next(
    sender: Session, worker: Session, sent: UnitStatus
) -> None:
    with pytest.raises(ZeroDivisionError), received(worker):
        raise ZeroDivisionError
    sender.set_user_status(sent.uowid, "STOP after 0 of 1")

    unit = received(worker)
    unit.cancel(user_status="stopped after 0 of 1")

    assert (unit.user_status, unit.delivery_count) == ("STOP after 0 of 1", 1)
    after = sender.query(sent.uowid)
    assert (after.status, after.user_status) == (Status.CANCELLED, "stopped after 0 of 1")


def test_a_request_that_comes_too_late_is_refused(sender: Session, worker: Session, sent: UnitStatus) -> None:
    received(worker).commit(user_status="1 of 1")

    with pytest.raises(BrokerError, match="00780307"):
        sender.set_user_status(sent.uowid, "STOP after 0 of 1")


def test_its_sender_cancels_what_nobody_has_received(sender: Session, worker: Session, sent: UnitStatus) -> None:
    with pytest.raises(ZeroDivisionError), received(worker):
        with pytest.raises(BrokerError, match="00780307"):
            sender.cancel(sent.uowid)
        raise ZeroDivisionError

    assert sender.cancel(sent.uowid).status is Status.CANCELLED
    assert worker.receive_unit(SERVICE) is None


def test_an_operator_cancels_what_nobody_has_received(
    broker: Broker, sender: Session, worker: Session, sent: UnitStatus
) -> None:
    with pytest.raises(ZeroDivisionError), received(worker):
        with pytest.raises(BrokerError, match="00780307"):
            broker.set_uow_status(sent.uowid, Status.CANCELLED)
        raise ZeroDivisionError

    broker.set_uow_status(sent.uowid, Status.CANCELLED)

    assert sender.query(sent.uowid).status is Status.CANCELLED


def test_an_operator_purges_what_a_worker_has_and_the_worker_hears_it(
    broker: Broker, sender: Session, worker: Session, sent: UnitStatus
) -> None:
    unit = received(worker)

    broker.purge(sent.uowid)

    for call in (unit.query, unit.commit, lambda: sender.query(sent.uowid)):
        with pytest.raises(BrokerError, match="00780305"):
            call()


def test_a_sender_that_comes_again_finds_its_unit_of_work(broker: Broker, sent: UnitStatus) -> None:
    with broker.session("SENDER") as again:
        last = again.last()

    assert last is not None
    assert last.uowid == sent.uowid


def test_a_status_that_was_not_asked_for_is_gone_with_the_unit_of_work(sender: Session, worker: Session) -> None:
    unit = sender.send(SERVICE, b"page 1 of 1", user_status="0 of 1")
    received(worker).commit()

    with pytest.raises(BrokerError, match="00780305"):
        sender.query(unit.uowid)
