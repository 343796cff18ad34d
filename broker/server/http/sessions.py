"""Callers over HTTP: which live participant of the broker a request belongs to, and when one has gone away.

    the request has                    it belongs to
    header Broker-Session: new         a new session; the one that a call of this Broker-Call has begun
    header Broker-Session              that session; when there is none any more, only LOGON begins a new one
    else a TOKEN                       the session of USER-ID and TOKEN; LOGON begins it anew
    else                               a new session

Every answer names its session in the header. A session ends with LOGOFF, with DELETE, and when nothing was asked for
CLIENT-NONACT and nothing waits: what it was sending or receiving is taken back then, as when a connection is lost.
It ends too when its user changes, since what it has registered for it may have no right to any more.
Where there are too many, who has more of them than the user of a new one loses one for it; else one goes that was used
for a single call, of that user, or of anybody after a while. So no user shuts others out.
"""

import asyncio
import secrets
from collections import OrderedDict

from oms_journal.broker.answers import Physical
from oms_journal.broker.block import Function, Request
from oms_journal.broker.block_json import NEW_SESSION
from oms_journal.broker.durations import MICROSECONDS, NEVER
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.rights import Guard, Identity
from oms_journal.broker.server.http.calls import AnswerRoom, Calls
from oms_journal.broker.server.runtime.limits import WebLimits

_SWEEP_SECONDS = 1.0  # at least, between two looks at who has gone away
_BEGUN_MAX = 10_000  # calls that began a session, or will not
_SILENT_SECONDS = 10.0  # after a single call, until anybody's session makes room: a second one would have come by then


class NoSession(Exception):
    """The session is over, or never was."""


class TakenBack(Exception):
    """What would begin a session was taken back before it came."""


class TooMany(Exception):
    """There is no room for one more; the text says of what."""


class Caller:
    """A session: what the broker takes for a connection."""

    __slots__ = ("calls", "count", "identity", "known", "name", "owner", "physical", "share", "token", "used")

    def __init__(self, name: str, identity: Identity, physical: Physical, share: str, known: Calls) -> None:
        self.name = name
        self.identity = identity
        self.share = share  # the user among whose sessions it counts
        self.owner = identity.user  # who logged on over HTTP
        self.physical = physical
        self.known = known  # calls that have an identifier
        self.token: tuple[str, str, str] | None = None  # under which it is found without the header
        self.calls = 0  # under way
        self.count = 0  # of calls ever
        self.used = 0.0


class _Sessions:
    """Sessions, in each of the two the one that was used longest ago first."""

    __slots__ = ("all", "once")

    def __init__(self) -> None:
        self.all: OrderedDict[str, Caller] = OrderedDict()
        self.once: OrderedDict[str, Caller] = OrderedDict()  # of these, those with a single call

    def note(self, caller: Caller) -> None:
        """Note that it is used."""
        self.all[caller.name] = caller
        self.all.move_to_end(caller.name)
        if caller.count == 1:
            self.once[caller.name] = caller
        else:
            self.once.pop(caller.name, None)

    def forget(self, caller: Caller) -> None:
        self.all.pop(caller.name, None)
        self.once.pop(caller.name, None)


class HttpSessions:
    """The sessions of one broker, on its loop."""

    def __init__(self, broker: AsyncBroker, limits: WebLimits, *, guard: Guard) -> None:
        self.broker = broker
        self._guard = guard
        self._sessions_max = limits.sessions
        self._calls_max = limits.calls
        self._room = AnswerRoom(limits.kept_bytes)
        self._loop = asyncio.get_running_loop()
        nonact = broker.attributes.broker.client_nonact
        self._seconds = None if nonact == NEVER else nonact / MICROSECONDS
        self._sessions = _Sessions()
        self._shares: dict[str, _Sessions] = {}  # of each user
        self._tokens: dict[tuple[str, str, str], Caller] = {}
        self._begun: OrderedDict[tuple[str, str], str] = OrderedDict()  # by user and identifier; "": it was taken back
        self._sweeping: asyncio.TimerHandle | None = None
        guard.on_change.append(self._end_changed)

    def __len__(self) -> int:
        return len(self._sessions.all)

    def of(self, request: Request, named: str | None, identity: Identity, call: str = "") -> Caller:
        """Return whose call it is, which has begun; `done` ends it. NoSession, TooMany, TakenBack."""
        owner = identity.user
        is_new = named == NEW_SESSION
        caller = self._begun_by(owner, call) if is_new else self._known(request, named, owner)
        if caller is None:
            caller = self._new(request, identity)
            if is_new and call:
                self._note_begun(owner, call, caller.name)
            if named is None and request.token:
                caller.token = (owner, request.user_id, request.token)
                self._tokens[caller.token] = caller
        if caller.calls >= self._calls_max:
            raise TooMany(f"a session has at most {self._calls_max:,} calls under way")
        caller.calls += 1
        caller.count += 1
        self._note(caller)
        return caller

    def _note(self, caller: Caller) -> None:
        self._sessions.note(caller)
        self._shares.setdefault(caller.share, _Sessions()).note(caller)

    def done(self, caller: Caller) -> None:
        """A call of it is answered."""
        caller.calls -= 1
        caller.used = self._loop.time()
        if caller.name in self._sessions.all:
            self._note(caller)
        self._sweep_later()

    def end(self, caller: Caller) -> None:
        """Let a session end: what it was sending or receiving is taken back."""
        if caller.name not in self._sessions.all:
            return
        self._sessions.forget(caller)
        own = self._shares[caller.share]
        own.forget(caller)
        if not own.all:
            del self._shares[caller.share]
        if caller.token is not None and self._tokens.get(caller.token) is caller:
            del self._tokens[caller.token]
        caller.known.close()
        self.broker.gone(caller.physical)

    def named(self, named: str, owner: str) -> Caller:
        """Return the owner's session of this name. NoSession."""
        caller = self._sessions.all.get(named)
        if caller is None or caller.owner != owner:
            raise NoSession
        return caller

    def take_back(self, call: str, owner: str) -> None:
        """Let the session end that a call of this identifier has begun, and not begin if it comes later."""
        begun = self._begun.get((owner, call), "")
        self._note_begun(owner, call, "")
        caller = self._sessions.all.get(begun)
        if caller is not None:
            self.end(caller)

    def _begun_by(self, owner: str, call: str) -> Caller | None:
        """Return the session that this call has begun, None where it has come for the first time. TakenBack."""
        begun = self._begun.get((owner, call)) if call else None
        if begun == "":
            raise TakenBack
        return self._sessions.all.get(begun or "")

    def _note_begun(self, owner: str, call: str, name: str) -> None:
        self._begun[owner, call] = name
        if len(self._begun) > _BEGUN_MAX:
            self._begun.popitem(last=False)

    def _known(self, request: Request, named: str | None, owner: str) -> Caller | None:
        is_logon = request.function is Function.LOGON
        if named is not None:
            try:
                return self.named(named, owner)
            except NoSession:
                if not is_logon:
                    raise
                return None
        if not request.token:
            return None
        caller = self._tokens.get((owner, request.user_id, request.token))
        if caller is not None and is_logon:
            self.end(caller)
            return None
        return caller

    def _new(self, request: Request, identity: Identity) -> Caller:
        share = request.user_id if self._guard.is_open else identity.user
        if len(self) >= self._sessions_max:
            self._make_room(share)
        physical = self.broker.new_caller()
        known = Calls(self.broker, physical, self._room)
        caller = Caller(secrets.token_urlsafe(18), identity, physical, share, known)
        caller.used = self._loop.time()
        return caller

    def _make_room(self, share: str) -> None:
        """Let a session end, so that the user can have one more. TooMany."""
        own = self._shares.get(share, _Sessions())
        more = [each for each in self._shares.values() if len(each.all) > len(own.all)]
        more.sort(key=lambda each: len(each.all), reverse=True)
        found = next((idle for each in more if (idle := _idle(each.once) or _idle(each.all))), _idle(own.once))
        if found is None:
            found = _idle(self._sessions.once)
            if found is not None and self._loop.time() - found.used < _SILENT_SECONDS:
                found = None
        if found is None:
            raise TooMany(f"there are at most {self._sessions_max:,} sessions: try again")
        self.end(found)

    # Who has gone away.

    def _end_changed(self) -> None:
        for caller in list(self._sessions.all.values()):
            if not caller.identity.is_current:
                self.end(caller)

    def _sweep_later(self) -> None:
        if self._sweeping is None and self._seconds is not None and self._sessions.all:
            oldest = next(iter(self._sessions.all.values()))
            due = max(oldest.used + self._seconds - self._loop.time(), _SWEEP_SECONDS)
            self._sweeping = self._loop.call_later(due, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        assert self._seconds is not None, "else nobody sweeps"
        since = self._loop.time() - self._seconds
        for caller in list(self._sessions.all.values()):
            if caller.calls:
                continue
            if caller.used > since:
                break
            self.end(caller)
        self._sweep_later()

    def close(self) -> None:
        """Look after nobody any more: the broker ends."""
        self._guard.on_change.remove(self._end_changed)
        if self._sweeping is not None:
            self._sweeping.cancel()


def _idle(sessions: OrderedDict[str, Caller]) -> Caller | None:
    """Return the session that was used longest ago of those without a call under way."""
    return next((caller for caller in sessions.values() if not caller.calls), None)
