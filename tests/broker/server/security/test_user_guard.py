"""The guard with a users file: who is let in, how often, and what a change of the file brings about."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.block import NEW, Function, Request
from oms_journal.broker.codes import Code
from oms_journal.broker.rights import Identity, LogonRefused, Right
from oms_journal.broker.server.security.login_attempts import LoginBounds
from oms_journal.broker.server.security.passwords import Cost, hash_password
from oms_journal.broker.server.security.user_guard import UsersFileGuard
from oms_journal.broker.server.security.users import User, Users, UsersInvalid, write

CHEAP = Cost(log_n=4)
SECRET = "correct horse battery"
HERE, THERE = "192.0.2.1", "192.0.2.2"
ALICE = User("ALICE", hash_password(SECRET, CHEAP), {Right.SEND: ("QUEUE/*",)})
BOB = User("BOB", hash_password(SECRET + "!", CHEAP))


def guarded(
    path: Path, test: Callable[[UsersFileGuard], Awaitable[None]], users: Users | None = None, **bounds: Any
) -> None:
    """Run a test with a guard of a users file."""
    write(path, users or {"ALICE": ALICE, "BOB": BOB})

    async def run() -> None:
        guard = UsersFileGuard.open(path, bounds=LoginBounds(**bounds), cost=CHEAP)
        try:
            await test(guard)
        finally:
            guard.close()

    asyncio.run(run())


async def code(guard: UsersFileGuard, user: str, password: str, peer: str = HERE) -> Code:
    """Return how a login ends."""
    try:
        identity = await guard.log_on(user, password, peer)
    except LogonRefused as refused:
        assert password not in refused.text or not password
        return refused.code
    assert (identity.user, identity.peer, identity.is_current) == (user, peer, True)
    return Code.OK


def test_only_a_user_with_its_password_is_let_in_and_nobody_learns_which_was_wrong(tmp_path: Path) -> None:
    async def test(guard: UsersFileGuard) -> None:
        assert await code(guard, "ALICE", SECRET) is Code.OK
        texts = set()
        for user, password in [("ALICE", SECRET + "!"), ("NOBODY", SECRET), ("alice", SECRET), ("BOB", SECRET)]:
            with pytest.raises(LogonRefused) as refused:
                await guard.log_on(user, password, HERE)
            texts.add((refused.value.code, refused.value.text))
        assert len(texts) == 1
        for user, password in [("", SECRET), ("ALICE", ""), ("", "")]:
            assert await code(guard, user, password) is Code.PASSWORD_WRONG

    guarded(tmp_path / "users", test, user_failures=100, address_failures=100)


def test_a_user_locked_out_here_gets_in_from_elsewhere_and_the_right_password_is_not_looked_at_here(
    tmp_path: Path,
) -> None:
    async def test(guard: UsersFileGuard) -> None:
        found = [await code(guard, "ALICE", f"guess {n}") for n in range(8)]
        assert found == [Code.PASSWORD_WRONG] * 3 + [Code.ACCESS_AT_THIS_TIME] * 5
        assert await code(guard, "ALICE", SECRET) is Code.ACCESS_AT_THIS_TIME
        assert await code(guard, "ALICE", SECRET, THERE) is Code.OK
        assert await code(guard, "ALICE", SECRET) is Code.ACCESS_AT_THIS_TIME  # though it is remembered by now

    guarded(tmp_path / "users", test, user_failures=3, wait_seconds=60)


def test_guesses_made_all_at_once_are_counted_like_those_one_after_another(tmp_path: Path) -> None:
    async def test(guard: UsersFileGuard) -> None:
        found = await asyncio.gather(*(code(guard, "ALICE", f"guess {n}") for n in range(200)))
        looked_at = found.count(Code.PASSWORD_WRONG)
        assert 3 <= looked_at <= 3 + 2  # as many more as are looked at together
        assert found.count(Code.ACCESS_AT_THIS_TIME) == 200 - looked_at

    guarded(tmp_path / "users", test, user_failures=3, wait_seconds=60)


def test_very_many_logins_of_who_is_known_wait_for_one_check(tmp_path: Path) -> None:
    async def test(guard: UsersFileGuard) -> None:
        found = await asyncio.gather(*(code(guard, "ALICE", SECRET) for _ in range(2000)))
        assert set(found) == {Code.OK}

    guarded(tmp_path / "users", test, user_failures=1, address_failures=1)


def test_no_more_logins_wait_than_there_is_room_for(tmp_path: Path) -> None:
    async def test(guard: UsersFileGuard) -> None:
        found = await asyncio.gather(
            *(code(guard, f"USER{n}", "guess", f"10.0.{n // 256}.{n % 256}") for n in range(1100))
        )
        assert found.count(Code.QUEUE_FULL) == 100

    guarded(tmp_path / "users", test)


def test_a_user_whose_rights_or_password_change_has_to_log_on_again_and_others_do_not(tmp_path: Path) -> None:
    path = tmp_path / "users"

    async def test(guard: UsersFileGuard) -> None:
        told: list[str] = []
        guard.on_change.append(lambda: told.append("changed"))
        alice, bob = await guard.log_on("ALICE", SECRET, HERE), await guard.log_on("BOB", SECRET + "!", HERE)
        sent = Request(
            function=Function.SEND, user_id="ALICE", conv_id=NEW, server_class="QUEUE", server_name="A", service="-"
        )
        assert guard.check_call(alice, sent) is None

        write(path, {"ALICE": User("ALICE", ALICE.password, {Right.SEND: ("QUEUE/B*",)}), "BOB": BOB})
        guard.look()
        assert (alice.is_current, bob.is_current, told) == (False, True, ["changed"])
        assert refused(guard, alice, sent) is Code.SECURITY_TOKEN_WRONG
        assert not alice.may(Right.SEND, "QUEUE/B/-")
        again = await guard.log_on("ALICE", SECRET, HERE)
        assert refused(guard, again, sent) is Code.USER_NOT_AUTHORIZED

        write(path, {"ALICE": User("ALICE", hash_password(SECRET + "?", CHEAP)), "BOB": BOB})
        assert await code(guard, "ALICE", SECRET) is Code.PASSWORD_WRONG  # seen with the login itself
        assert await code(guard, "ALICE", SECRET + "?") is Code.OK
        write(path, {"BOB": BOB})
        assert await code(guard, "ALICE", SECRET + "?") is Code.PASSWORD_WRONG
        assert bob.is_current

    guarded(path, test)


def refused(guard: UsersFileGuard, identity: Identity, request: Request) -> Code | None:
    found = guard.check_call(identity, request)
    return None if found is None else found[0]


@pytest.mark.parametrize("spoil", ["chmod", "garbage", "gone"])
def test_a_file_that_cannot_be_used_any_more_changes_nothing_and_is_told_once(
    tmp_path: Path, spoil: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "users"

    async def test(guard: UsersFileGuard) -> None:
        alice = await guard.log_on("ALICE", SECRET, HERE)
        if spoil == "chmod":
            path.chmod(0o644)
        elif spoil == "garbage":
            path.write_text("{}")
        else:
            path.unlink()
        for _ in range(3):
            guard.look()
        assert alice.is_current and await code(guard, "BOB", SECRET + "!") is Code.OK
        assert sum("go on to count" in text for text in caplog.messages) == 1

        path.unlink(missing_ok=True)
        write(path, {"BOB": BOB})
        guard.look()
        assert not alice.is_current

    with caplog.at_level(logging.INFO, "oms"):
        guarded(path, test)


def test_a_login_that_is_cancelled_leaves_the_check_to_whom_it_is_shared_with(tmp_path: Path) -> None:
    async def test(guard: UsersFileGuard) -> None:
        first = asyncio.ensure_future(guard.log_on("ALICE", SECRET, HERE))
        second = asyncio.ensure_future(guard.log_on("ALICE", SECRET, HERE))
        alone = asyncio.ensure_future(guard.log_on("BOB", "wrong", HERE))
        await asyncio.sleep(0)
        first.cancel()
        alone.cancel()
        assert (await second).user == "ALICE"
        assert await code(guard, "ALICE", SECRET) is Code.OK

    guarded(tmp_path / "users", test)


def test_of_very_many_refused_logins_the_log_has_a_few_and_no_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(guard: UsersFileGuard) -> None:
        for n in range(100):
            await code(guard, "A\nLICE" * 1000, f"hunter2-{n}")

    with caplog.at_level(logging.DEBUG, "oms"):
        guarded(tmp_path / "users", test, user_failures=50, address_failures=50)

    assert len(caplog.records) == 20
    assert not any("hunter2" in text or "\n" in text or len(text) > 300 for text in caplog.messages)


def test_a_guard_does_not_begin_with_a_file_that_others_can_reach(tmp_path: Path) -> None:
    path = tmp_path / "users"
    write(path, {"ALICE": ALICE})
    path.chmod(0o640)

    with pytest.raises(UsersInvalid):
        UsersFileGuard.open(path)
