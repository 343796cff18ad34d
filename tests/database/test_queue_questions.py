"""What is asked of one queue, and that it is emptied: `ready_count`, `oldest_age`, `peek`, `purge`, on every face."""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal import AsyncMessageDatabase, DatabaseView, InvalidName, Message, MessageDatabase
from oms_journal.database import maintenance
from tests.database.test_holds import damaged
from tests.support.crashes.crash_model import open_unattended
from tests.support.disks.watched_disk import HandClock

SMALL = 7680
Ask = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_vouching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no commit come from the thread that vouches after a second: commits are counted here."""
    monkeypatch.setattr(maintenance, "VOUCH_SECONDS", 3600.0)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def db(tmp_path: Path, clock: HandClock) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path, clock=clock, cleanup_interval=0, max_data_file_size=SMALL) as opened:
        yield opened


@pytest.fixture(params=["threads", "tasks"])
def ask(request: pytest.FixtureRequest, db: MessageDatabase) -> Ask:
    """Asks the database, from this thread or from a task."""

    def asked(verb: str, *given: Any) -> Any:
        async def main() -> Any:
            async with AsyncMessageDatabase.wrap(db) as wrapped:
                answer = getattr(wrapped, verb)(*given)
                return await answer if inspect.isawaitable(answer) else answer

        return getattr(db, verb)(*given) if request.param == "threads" else asyncio.run(main())

    return asked


def numbers(db: MessageDatabase, count: int, queue: str = "q") -> list[int]:
    return [db.add(queue, b"%d" % place) for place in range(count)]


# How many can be handed out.


def test_what_is_taken_is_not_ready_and_what_comes_back_is(db: MessageDatabase, ask: Ask) -> None:
    numbers(db, 5)
    numbers(db, 2, "other")
    assert ask("ready_count", "q") == 5

    first, second = db.take_many("q", 2)
    assert db.take("other") is not None
    assert ask("ready_count", "q") == 3

    db.release(first)
    assert ask("ready_count", "q") == 4
    db._handing.give_back([second.number])
    assert ask("ready_count", "q") == 5
    db.deliver(first)
    assert (ask("ready_count", "q"), ask("ready_count", "none")) == (4, 0)


def test_what_stays_away_is_not_ready_and_is_purged_with_what_is_known_of_it(db: MessageDatabase, ask: Ask) -> None:
    numbers(db, 3)
    message = db.take("q")
    assert message is not None and db.release(message, delay=1000)
    assert ask("ready_count", "q") == 2
    assert ask("peek", "q").number == message.number + 1
    leased = db.take("q", lease=0.001)
    assert leased is not None
    time.sleep(0.002)
    assert ask("ready_count", "q") == 2, "a lease that has ended gives back"
    assert ask("peek", "q").number == leased.number

    assert ask("purge", "q") == 3
    assert (ask("ready_count", "q"), ask("peek", "q"), db._ledger.index.returned.entries) == (0, None, {})


@pytest.mark.parametrize("is_taken", [False, True])
def test_what_is_held_back_is_not_ready(is_taken: bool) -> None:
    disk, old, new = damaged()
    with open_unattended(disk, hold_suspects=True) as db:
        assert db.ready_count("q") == len(new)
        if is_taken:
            assert db.take("q") is not None
        db.unhold(old[:1])
        assert db.ready_count("q") == len(new) - is_taken + (old[0] in set(db.numbers("q")))
        db.unhold()
        assert db.ready_count("q") == db.undelivered_count("q") - is_taken


# How old the oldest is.


def test_the_oldest_is_the_one_with_the_lowest_number_whoever_has_it(
    db: MessageDatabase, ask: Ask, clock: HandClock
) -> None:
    assert ask("oldest_age", "q") is None
    first = db.add("q", b"first")
    clock.advance(30)
    db.add("other", b"")
    db.add("q", b"second")
    clock.advance(12)
    before = ask("oldest_age", "q")
    assert 42 <= before < 43
    assert db.take("q") is not None
    assert 42 <= ask("oldest_age", "q") < 43

    db.deliver(first)

    assert 12 <= ask("oldest_age", "q") < 13


def test_the_age_is_not_below_zero_when_the_clock_was_set_back(db: MessageDatabase, ask: Ask, clock: HandClock) -> None:
    db.add("q", b"")
    clock.advance(-1000)

    assert ask("oldest_age", "q") == 0.0


def test_what_is_held_back_is_as_old_as_it_is() -> None:
    disk, _, _ = damaged()
    with open_unattended(disk) as db:
        age = db.oldest_age("q")
    with open_unattended(disk, hold_suspects=True) as db:
        assert age is not None and (db.oldest_age("q") or 0) >= age


# What comes next.


def test_a_peek_is_what_the_next_take_gives_and_takes_nothing(db: MessageDatabase, ask: Ask) -> None:
    assert ask("peek", "q") is None
    every = numbers(db, 4)
    taken: list[Message | None] = []
    for number in every:
        assert [ask("peek", "q").number for _ in range(2)] == [number] * 2
        assert ask("ready_count", "q") == 4 - len(taken)
        taken.append(db.take("q"))
    assert ask("peek", "q") is None

    for message in reversed(taken):
        assert message is not None and db.release(message)
        assert ask("peek", "q") == message


def test_a_peek_passes_over_what_cannot_be_read_as_a_take_does(db: MessageDatabase, ask: Ask, tmp_path: Path) -> None:
    first, second = numbers(db, 2)
    lost = db.read(first)
    path = tmp_path / f"omsmsg-{lost.sequence:010}.data"
    data = bytearray(path.read_bytes())
    data[data.index(b"0", lost.offset + 56)] ^= 1
    path.write_bytes(data)

    assert ask("peek", "q").number == second
    assert ask("ready_count", "q") == 1
    assert [message and message.number for message in (db.take("q"), db.take("q"))] == [second, None]


def test_a_view_peeks_at_the_first_that_is_not_held_back(db: MessageDatabase, tmp_path: Path) -> None:
    first, _ = numbers(db, 2)
    db.take("q")
    db.put("behind", b"")  # vouches for what stands before it
    with DatabaseView.open(tmp_path) as view:
        assert (view.peek("q"), view.peek("none")) == (view.read(first), None)
        assert view.oldest_age("none") is None and (view.oldest_age("q") or 0) > 0


# All of it.


def test_a_purge_deletes_what_is_there_and_nothing_else(db: MessageDatabase, ask: Ask) -> None:
    numbers(db, 150)
    others = numbers(db, 3, "other")
    db.deliver_many(range(1, 11))
    taken = db.take("q")
    assert taken is not None

    assert ask("purge", "q") == 140

    assert (db.undelivered_count("q"), db.take("q"), db.deliver(taken), db.release(taken)) == (0, None, False, False)
    assert list(db.numbers("other")) == others
    assert (ask("purge", "q"), ask("purge", "none")) == (0, 0)
    assert db.take("q") is None and db.add("q", b"new") and db.peek("q")


def test_a_purge_takes_what_is_held_back_too() -> None:
    disk, _, _ = damaged()
    with open_unattended(disk, hold_suspects=True) as db:
        count = db.undelivered_count("q")
        assert list(db.held("q"))
        assert (db.purge("q"), db.undelivered_count("q"), list(db.held())) == (count, 0, [])


@pytest.mark.parametrize("most", [1, 7, 64, 65, 100])
def test_a_purge_makes_as_few_commits_as_the_limit_allows(
    db: MessageDatabase, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oms_journal.database.database.OPERATIONS_MAX", most)
    db.add_many("q", [b"x"] * 100)
    before = db._group.acknowledged

    assert db.purge("q") == 100
    assert db._group.acknowledged - before == -(-100 // most)


def test_of_those_that_purge_and_deliver_at_once_each_message_is_counted_once(db: MessageDatabase) -> None:
    counts: list[int] = []
    db.add_many("q", [b"x"] * 400)

    def deliver(first: int) -> None:
        counts.extend(db.deliver(number) for number in range(first, 401, 4))

    callers = [threading.Thread(target=deliver, args=(first,)) for first in (1, 2, 3, 4)]
    callers += [threading.Thread(target=lambda: counts.append(db.purge("q"))) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()

    assert (sum(counts), db.undelivered_count()) == (400, 0)


@pytest.mark.parametrize("verb", ["ready_count", "oldest_age", "peek", "purge"])
@pytest.mark.parametrize(
    ("queue", "refusal"), [(None, TypeError), (5, TypeError), ("", InvalidName), ("x" * 256, InvalidName)]
)
def test_a_queue_is_asked_for_by_its_name(
    verb: str, queue: object, refusal: type[Exception], ask: Ask, tmp_path: Path
) -> None:
    with pytest.raises(refusal, match="queue"):
        ask(verb, queue)
    if hasattr(DatabaseView, verb):
        with DatabaseView.open(tmp_path) as view, pytest.raises(refusal, match="queue"):
            getattr(view, verb)(queue)
