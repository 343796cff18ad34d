"""What an operator sees of a broker: every page and every selector, against all that there is, asleep or not."""

import random
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.admin.questions import Page, Query, Row, run_steps
from oms_journal.broker.admin.subjects import REFUSED, SUBJECTS, question_of, subject_of
from oms_journal.broker.block import Function, Option, Store
from oms_journal.broker.codes import BrokerError
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.kernel.state.effects import Purge
from oms_journal.broker.kernel.state.world import World
from tests.support.broker.kernel_desk import Desk, Fields, Person
from tests.support.sweeps import for_each

LIMITS = (1, 7, 100, 1000)
CHESS: Fields = {"server_class": "GAME", "server_name": "CHESS", "service": "BLACK"}
GO: Fields = {"server_class": "GAME", "server_name": "GO", "service": "WHITE"}


def page(world: World, name: str, **said: Any) -> Page:
    subject = subject_of(name)
    assert subject.look is not None
    pairs = [(key, each) for key, value in said.items() for each in (value if isinstance(value, list) else [value])]
    return run_steps(subject.look(world, question_of(subject, [(key, str(each)) for key, each in pairs])))


def every(world: World, name: str, limit: int = 1000, **said: Any) -> list[Row]:
    """Return the rows of all pages."""
    rows, cursor = list[Row](), ""
    while True:
        found = page(world, name, limit=limit, cursor=cursor, **said)
        assert len(found.rows) <= limit
        rows += found.rows
        if found.next is None:
            return rows
        assert found.rows, "a page that is not the last has rows"
        cursor = found.next


def busy_desk() -> Desk:
    """Return a desk with some of everything: awake, asleep, packed and loose, complete, sent and received."""
    desk = Desk()
    alice, bert = Person(desk, "ALICE", "A"), Person(desk, "BERT", caller=2)
    for at in range(60):
        who = (alice, bert)[at % 2]
        service = (CHESS, GO)[at % 3 == 0]
        who.send(b"x" * at, ustatus=f"S{at % 4}", uwstatp=1 + at % 2, uwtime="1D", **service)
    for _ in range(6):
        alice.send(b"begun", Option.SYNC, uwtime="1D", store=Store.OFF, **GO)
    desk = desk.restart()
    alice, bert = Person(desk, "ALICE", "A"), Person(desk, "BERT", caller=2)
    server = Person(desk, "CARL", "C", caller=3)
    server.register()
    for _ in range(10):
        got = server.receive()
        if _ % 2:
            server.sync(Option.COMMIT, got.uowid)
    for at in range(40):
        who = (alice, bert)[at % 2]
        who.send(b"y" * at, Option.COMMIT if at % 3 else Option.SYNC, store=Store.OFF if at % 5 == 0 else Store.BROKER)
    for subscriber in (server, bert):
        subscriber.call(Function.SUBSCRIBE, Option.DURABLE, topic="NEWS")
    for at in range(20):
        alice.call(Function.SEND_PUBLICATION, Option.COMMIT, publication_id="NEW", topic="NEWS", body=b"z" * at)
    for _ in range(5):
        got = server.call(Function.RECEIVE_PUBLICATION, publication_id="NEW", topic="NEWS", wait="NO")
        server.call(Function.CONTROL_PUBLICATION, Option.COMMIT, publication_id=got.reply.publication_id)
    bert.call(Function.SEND, body=b"plain", conv_id="NEW", wait="NO", **CHESS)
    return desk


DESK = busy_desk()
WORLD = DESK.kernel.world
KERNEL_SUBJECTS = [name for name, subject in SUBJECTS.items() if subject.look is not None]


@for_each("name", KERNEL_SUBJECTS)
@for_each("limit", LIMITS)
def test_all_pages_together_are_everything_once_and_in_order(name: str, limit: int) -> None:
    everything = every(WORLD, name, 1000)

    assert every(WORLD, name, limit) == everything
    assert everything
    assert all(list(row) == list(SUBJECTS[name].columns) for row in everything)
    total = page(WORLD, name, limit=limit).total
    assert total is None or total == len(everything) or name == "CLIENT"


@pytest.mark.parametrize("name", KERNEL_SUBJECTS)
def test_every_selector_picks_the_rows_that_say_what_it_says(name: str) -> None:
    everything = every(WORLD, name)
    for selector in SUBJECTS[name].selectors:
        columns = _columns(name, selector, everything)
        values = sorted({_said(row[column]) for row in everything for column in columns})
        assert values, selector
        for value in values[:20]:
            expected = [row for row in everything if value in {_said(row[column]) for column in columns}]
            if name == "CONVERSATION" and selector in ("user_id", "token"):
                expected = [row for row in expected if _takes_part(row, selector, value)]
            assert every(WORLD, name, 3, **{selector: value}) == expected, (selector, value)


def _takes_part(row: Row, selector: str, value: str) -> bool:
    column = "user" if selector == "user_id" else "token"
    is_client = row[f"client_{column}"] == value
    return is_client or (row["server_user"] is not None and row[f"server_{column}"] == value)


def _said(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str("" if value is None else value)


def _columns(name: str, selector: str, rows: Sequence[Row]) -> list[str]:
    if selector in rows[0]:
        return [selector]
    short = "user" if selector == "user_id" else selector
    return {"PSF": [f"sender_{short}"], "CONVERSATION": [f"client_{short}", f"server_{short}"]}[name]


def test_selectors_are_taken_together_and_values_of_one_by_themselves() -> None:
    everything = every(WORLD, "PSF")

    found = every(WORLD, "PSF", 2, status=["ACCEPTED", "PROCESSED"], user_id="ALICE", service="BL*")

    assert found == [
        row
        for row in everything
        if row["status"] in ("ACCEPTED", "PROCESSED") and row["sender_user"] == "ALICE" and row["service"] == "BLACK"
    ]
    assert {row["status"] for row in found} == {"ACCEPTED", "PROCESSED"}


def test_units_of_work_are_shown_as_they_are() -> None:
    desk = Desk()
    alice, carl = Person(desk, "ALICE", "A"), Person(desk, "CARL", "C", caller=2)
    sent = alice.send(b"e4", ustatus="NEW", uwtime="1H", uwstatp=2)
    desk.tick(60)

    (row,) = page(desk.kernel.world, "PSF", uowid=sent.uowid).rows

    assert row["status"] == "ACCEPTED"
    assert row["ustatus"] == "NEW"
    assert (row["sender_user"], row["sender_token"], row["receiver_user"]) == ("ALICE", "A", "")
    assert (row["messages"], row["size"], row["lifetime"], row["uwstatp"]) == (1, 2, 3600, 2)
    assert row["ends_in"] == 3540
    assert row["created"] == row["committed"] == "2023-11-14T22:13:20.000Z"
    assert row["asleep"], "nobody serves it"

    carl.register()
    carl.receive()
    (row,) = page(desk.kernel.world, "PSF", conv_id=sent.conv_id).rows
    assert (row["status"], row["receiver_user"], row["asleep"]) == ("DELIVERED", "CARL", False)


def test_services_tell_what_waits_how_old_it_is_and_what_was_done() -> None:
    desk = Desk()
    alice, carl = Person(desk, "ALICE", "A"), Person(desk, "CARL", "C", caller=2)
    for _ in range(4):
        alice.send()
        desk.tick(10)
    alice.send(option=Option.SYNC)
    carl.register()
    for _ in range(2):
        got = carl.receive()
    carl.sync(Option.COMMIT, got.uowid)
    desk.tick(5)

    (row,) = page(desk.kernel.world, "SERVICE").rows

    assert (row["servers"], row["active"], row["waiting"], row["sending"], row["delivering"]) == (1, 4, 2, 1, 1)
    assert row["oldest_age"] == 25
    assert (row["accepted"], row["processed"]) == (4, 1)


def test_a_topic_tells_how_far_its_slowest_subscriber_is_behind() -> None:
    (topic,) = every(WORLD, "TOPIC")
    subscribers = {row["user_id"]: row for row in every(WORLD, "SUBSCRIBER")}

    assert topic["largest_lag"] == subscribers["BERT"]["lag"] == 20
    assert subscribers["CARL"]["lag"] == 15
    assert topic["published"] == 20
    assert {row["remaining"] for row in every(WORLD, "PUBLICATION")} == {1, 2}


def test_statistics_of_units_of_work_are_those_of_the_units_themselves() -> None:
    active = [row for row in every(WORLD, "PSF") if row["status"] in ("RECEIVED", "ACCEPTED", "DELIVERED")]
    for row in every(WORLD, "UOW-STATISTICS"):
        mine = [each for each in active if each["service"] == row["service"]]
        assert row["active"] == len(mine)
        assert row["messages"] == sum(each["messages"] for each in mine)
        assert row["bytes"] == sum(each["size"] for each in mine)
        assert row["most_bytes"] == max(each["size"] for each in mine)
        assert row["oldest"] == min(each["created"] for each in mine)
        assert row["newest"] == max(each["created"] for each in mine)
    counts = Counter(each["service"] for each in active)
    assert counts == {row["service"]: row["active"] for row in every(WORLD, "SERVICE") if row["active"]}


def made(count: int) -> Desk:
    """Return a desk with so many units of work, some of which are packed and some not."""
    desk = Desk()
    alice = Person(desk, "ALICE", "A")
    for _ in range(count // 2):
        alice.send()
    desk = desk.restart()
    alice = Person(desk, "ALICE", "A")
    for at in range(count // 2):
        alice.send(store=Store.BROKER if at % 4 else Store.OFF)
    return desk


many = cache(made)  # to be looked at only


def calls_per_step(world: World, name: str, **said: Any) -> int:
    """Return how many calls of functions the longest step of an answer takes."""
    subject = subject_of(name)
    assert subject.look is not None
    steps = subject.look(world, question_of(subject, [(key, str(value)) for key, value in said.items()]))
    longest = 0
    while True:
        count = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            next(steps)
        except StopIteration:
            return longest
        finally:
            sys.setprofile(None)
            longest = max(longest, count)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "said"),
    [("PSF", {}), ("PSF", {"ustatus": "NONE"}), ("CONVERSATION", {"user_id": "NOBODY"}), ("UOW-STATISTICS", {})],
    ids=["page", "nothing found", "conversations", "statistics"],
)
def test_a_step_is_as_short_with_many_units_of_work_as_with_few(name: str, said: dict[str, str]) -> None:
    calls = [
        calls_per_step(world, name, limit=1000, **said)
        for world in (many(2_000).kernel.world, many(8_000).kernel.world)
    ]

    assert calls[1] <= 1.5 * calls[0] + 100


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(3))
def test_what_happens_between_two_steps_spoils_no_answer(seed: int) -> None:
    chance = random.Random(seed)
    desk = made(2_000)
    alice, carl = Person(desk, "ALICE", "A"), Person(desk, "CARL", "C", caller=2)
    carl.register()
    world = desk.kernel.world
    before = [row["uowid"] for row in every(world, "PSF")]
    steps = {name: SUBJECTS[name].look for name in ("PSF", "CONVERSATION", "UOW-STATISTICS")}
    for name, look in steps.items():
        assert look is not None
        going = look(world, Query(limit=1000))
        done: set[str] = set()
        while True:
            try:
                next(going)
            except StopIteration as end:
                found: Page = end.value
                break
            for _ in range(chance.randrange(8)):
                if chance.random() < 0.5:
                    alice.send()
                else:
                    got = carl.receive()
                    carl.sync(Option.COMMIT, got.uowid)
                    done.add(got.uowid)
        keys = [row.get("uowid", row.get("conv_id", row["service"])) for row in found.rows]
        assert keys == sorted(set(keys))
        if name == "PSF":
            assert set(before[:900]) - done <= set(keys)


@for_each("cursor", ["x", "{}", '["a"]', "7", '"zz"', "[[", '"' + "F" * 40 + '"'])
@for_each("name", KERNEL_SUBJECTS)
def test_a_cursor_that_no_answer_has_said_is_refused_or_finds_something(name: str, cursor: str) -> None:
    try:
        found = page(WORLD, name, cursor=cursor)
    except CisRefused as refused:
        assert refused.code is CommandCode.INVALID_SELECTOR
    else:
        assert found.next is None or found.rows


@pytest.mark.parametrize("name", ["", "NONE", *REFUSED])
def test_what_is_no_information_object_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(CisRefused) as refused:
        subject_of(name)

    assert refused.value.code is (CommandCode.INVALID_SUBJECT if name else CommandCode.SUBJECT_MISSING)
    assert REFUSED.get(name, "") in str(refused.value)


@pytest.mark.parametrize(
    "said", [("limit", "0"), ("limit", "1001"), ("limit", "x"), ("limit", ""), ("colour", "red"), ("status", "DONE")]
)
def test_wrong_selectors_are_refused(said: tuple[str, str]) -> None:
    with pytest.raises(CisRefused) as refused:
        run_steps(SUBJECTS["PSF"].look(WORLD, question_of(SUBJECTS["PSF"], [said])))  # type: ignore[misc]

    assert refused.value.code is CommandCode.INVALID_SELECTOR


def test_threads_look_at_a_broker_while_others_send(tmp_path: Path) -> None:
    with Broker.open(tmp_path) as broker, broker.session("ALICE", token="A") as alice:
        look = SUBJECTS["PSF"].look
        assert look is not None
        sender = threading.Thread(target=lambda: [alice.send("GAME/CHESS/BLACK", b"e4") for _ in range(100)])
        sender.start()
        while sender.is_alive():
            broker._look(lambda world: look(world, Query(limit=1000)))
        sender.join()
        found = broker._look(lambda world: look(world, Query(limit=1000)))

        assert found.total == len(found.rows) == 100
        assert broker._administer(lambda handle: Purge(handle, found.rows[0]["uowid"])).uowid == found.rows[0]["uowid"]
    with pytest.raises(BrokerError):
        broker._look(lambda world: look(world, Query()))
