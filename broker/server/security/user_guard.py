"""The guard with a users file: passwords are checked beside the loop, and what changes in the file counts at once.

A password that was found right is remembered as a keyed hash, until its user changes: scrypt is for who guesses, not
for each request of who is known. Only so many are checked at a time, the others wait in their order; who says the same
at the same time waits for the same check. The file is looked at with each login, and every other second. Where it
cannot be used any more, what was read last goes on to count, and the log says so.
"""

import asyncio
import contextlib
import hmac
import logging
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from oms_journal.broker.block import Request
from oms_journal.broker.codes import Code
from oms_journal.broker.rights import Denial, Guard, Identity, LogonRefused, Right, check_call
from oms_journal.broker.server.runtime.log import event
from oms_journal.broker.server.security.login_attempts import LoginBounds, LoginLimit
from oms_journal.broker.server.security.passwords import COST, Cost, nobodys
from oms_journal.broker.server.security.users import USER_BYTES_MAX, User, Users, UsersInvalid, read_users

_log = logging.getLogger("oms.security")
CHECKS_AT_ONCE = 2  # each takes 32 MiB
CHECKS_WAITING_MAX = 1000
LOG_LINES = 20  # about logins that were refused, between two looks
_WRONG = "the user or the password is wrong"  # never which
_Seen = tuple[int, int, int, int]


class UserIdentity(Identity):
    """A user of the file, as it was when it logged on."""

    def __init__(self, guard: "UsersFileGuard", user: User, peer: str) -> None:
        super().__init__(user.name, peer)
        self._guard = guard
        self._record = user

    @property
    def is_current(self) -> bool:
        return self._guard.users.get(self.user) is self._record

    def may(self, right: Right, name: str) -> bool:
        return self.is_current and self._record.may(right, name)


class UsersFileGuard(Guard):
    """Lets in who is in the users file. Made by `open`; `look_again` is to be called every few seconds."""

    is_open = False

    def __init__(self, path: Path, users: Users, *, bounds: LoginBounds | None = None, cost: Cost = COST) -> None:
        super().__init__()
        self.path = path
        self.users = users
        self._limit = LoginLimit(bounds)
        self._nobody = nobodys(cost)
        self._key = secrets.token_bytes(32)
        self._right: dict[str, tuple[User, bytes]] = {}  # passwords that were found right, of each user the last
        self._checks = ThreadPoolExecutor(CHECKS_AT_ONCE, "oms-password")
        self._turn = asyncio.Semaphore(CHECKS_AT_ONCE)
        self._waiting: dict[tuple[str, str, bytes], asyncio.Task[User | LogonRefused]] = {}
        self._seen = _seen(path)
        self._said = ""  # what is wrong with the file
        self._noted = 0  # logins that were refused, since it was looked last

    @classmethod
    def open(cls, path: Path, *, bounds: LoginBounds | None = None, cost: Cost = COST) -> "UsersFileGuard":
        """Return the guard of a users file. UsersInvalid."""
        return cls(path, read_users(path), bounds=bounds, cost=cost)

    # Logging on.

    async def log_on(self, user: str, password: str, peer: str) -> Identity:
        """Return the user; `peer` is the address that it comes from. LogonRefused."""
        self.look()
        if not user or not password:
            raise LogonRefused(Code.PASSWORD_WRONG, "a user and its password are needed")
        late = self._too_often(user, peer)
        if late is not None:
            raise late
        found = await self._checked(user, password, peer)
        if isinstance(found, LogonRefused):
            raise found
        return UserIdentity(self, found, peer)

    async def _checked(self, user: str, password: str, peer: str) -> User | LogonRefused:
        mark = self._mark(password)
        known = self._right.get(user)
        if known is not None and known[0] is self.users.get(user) and hmac.compare_digest(known[1], mark):
            self._limit.succeeded(user, peer)
            return known[0]
        key = (user, peer, mark)
        task = self._waiting.get(key)
        if task is None:
            if len(self._waiting) >= CHECKS_WAITING_MAX:
                return LogonRefused(Code.QUEUE_FULL, "too many log on at the same time")
            task = self._waiting[key] = asyncio.get_running_loop().create_task(self._check(user, password, peer))
            task.add_done_callback(lambda _: self._waiting.pop(key, None))
        return await asyncio.shield(task)

    async def _check(self, user: str, password: str, peer: str) -> User | LogonRefused:
        """Look at a password when its turn has come, unless those before it were wrong too often by then."""
        async with self._turn:
            late = self._too_often(user, peer)
            if late is not None:
                return late
            record = self.users.get(user)
            kept = self._nobody if record is None else record.password
            is_right = await asyncio.get_running_loop().run_in_executor(self._checks, kept.fits, password)
            if record is None or not is_right or record is not self.users.get(user):
                self._limit.failed(user, peer, time.monotonic())
                self._note("login_refused", user, peer, _WRONG)
                return LogonRefused(Code.PASSWORD_WRONG, _WRONG)
        self._limit.succeeded(user, peer)
        self._right[user] = (record, self._mark(password))
        return record

    def _too_often(self, user: str, peer: str) -> LogonRefused | None:
        wait = self._limit.seconds_to_wait(user, peer, time.monotonic())
        if not wait:
            return None
        text = f"too many wrong passwords; try again in {wait + 1:.0f} seconds"
        self._note("login_limited", user, peer, text)
        return LogonRefused(Code.ACCESS_AT_THIS_TIME, text)

    def _mark(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), "sha256")

    def _note(self, name: str, user: str, peer: str, text: str) -> None:
        """Log a login that was refused; of very many, only how many."""
        self._noted += 1
        if self._noted <= LOG_LINES:
            shown = user if len(user) <= USER_BYTES_MAX else f"{user[:USER_BYTES_MAX]}…"
            _log.warning("login of %r from %s refused: %s", shown, peer, text, extra=event(name, user=shown, peer=peer))

    # Rights.

    def check_call(self, identity: Identity, request: Request) -> Denial | None:
        return check_call(identity, request)

    # The file.

    def look_again(self) -> None:
        """Look at the file, and tell how many more logins were refused than are in the log. Every few seconds."""
        if self._noted > LOG_LINES:
            _log.warning("%d more logins refused", self._noted - LOG_LINES)
        self._noted = 0
        self.look()

    def look(self) -> None:
        """Read the file again if it has changed; users who have not changed stay the same object."""
        seen = _seen(self.path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            fresh = read_users(self.path)
        except UsersInvalid as invalid:
            if str(invalid) != self._said:
                self._said = str(invalid)
                _log.error("%s; the users that were read before go on to count", invalid)
            return
        self._said = ""
        before = self.users
        self.users = {name: before[name] if before.get(name) == user else user for name, user in fresh.items()}
        changed = [name for name, user in before.items() if self.users.get(name) is not user]
        self._right = {name: kept for name, kept in self._right.items() if self.users.get(name) is kept[0]}
        said = event("users_read", users=len(fresh), changed=len(changed))
        text = "users read again: %d of them, %d of those before have changed or gone"
        _log.info(text, len(fresh), len(changed), extra=said)
        if changed:
            for told in self.on_change:
                told()

    def close(self) -> None:
        """Let go of the threads."""
        self._checks.shutdown(wait=False, cancel_futures=True)


def _seen(path: Path) -> _Seen | None:
    """Return what tells one version of the file from another."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)
    return None
