"""Sessions of people in a browser: a secret in a cookie that stands for who has logged on, for some hours.

Only a hash of the secret is kept. A session ends when nothing was asked for a while, after some hours in any case, with
a logout, and when its user changes. The time comes in as an argument.
"""

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass

from oms_journal.broker.rights import Identity

IDLE_SECONDS = 1800.0
LIFE_SECONDS = 12 * 3600.0
SESSIONS_MAX = 1000  # of all users; the one that was silent for longest makes room
OF_USER_MAX = 20


@dataclass(slots=True)
class _Session:
    identity: Identity
    began: float
    used: float


class BrowserSessions:
    """The sessions there are."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()  # the one used last is last

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, identity: Identity, now: float) -> str:
        """Return the secret of a new session."""
        own = [key for key, each in self._sessions.items() if each.identity.user == identity.user]
        for key in own[: max(0, len(own) - OF_USER_MAX + 1)]:
            del self._sessions[key]
        if len(self._sessions) >= SESSIONS_MAX:
            self._sessions.popitem(last=False)
        secret = secrets.token_urlsafe(32)
        self._sessions[_key(secret)] = _Session(identity, now, now)
        return secret

    def find(self, secret: str, now: float) -> Identity | None:
        """Return whose session it is; None where it is over, or never was."""
        key = _key(secret)
        found = self._sessions.get(key)
        if found is None:
            return None
        is_over = now - found.used > IDLE_SECONDS or now - found.began > LIFE_SECONDS
        if is_over or not found.identity.is_current:
            del self._sessions[key]
            return None
        found.used = now
        self._sessions.move_to_end(key)
        return found.identity

    def end(self, secret: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(_key(secret), None)


def _key(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
