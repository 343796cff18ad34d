"""Calls of a broker elsewhere, without a socket: what is to be asked over HTTP, and what is made of what comes back.

A call is a generator of steps: something to be asked, or a pause. Whoever drives it (`brokers.py`) does the step and
sends in what came of it. So threads and asyncio have the same rules:

    what comes                            then
    an answer                             it is the answer
    02150148, of a server without broker  the partner is asked, while patience lasts; nothing was done
    no connection                         likewise
    00780624                              the partner and this one are asked in turn, while patience lasts
    the session is over                   log on, register and subscribe again, and ask again
    the connection is lost meanwhile      the call is repeated with its identifier: it is answered once, and done once
    likewise, and the session is over     what can be repeated is; else 02150373: whether it was done, LAST tells

A call that is cancelled or interrupted is taken back by its identifier, before the next one of its caller at the
latest. A server that knows no identifiers is told that the session ends; of a connection that is lost there only what
can be repeated is. A RECEIVE can, in a new session: what the old one was receiving is given back, and comes again.
LOGOFF is not repeated: what a lost session had is taken back anyhow. Who was never heard of is not waited for.
"""

import json
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from oms_journal.broker.answers import Answered, Physical, seconds_to_wait
from oms_journal.broker.block import NEW, Function, Option, Reply, Request, Store
from oms_journal.broker.block_json import (
    ACI_PATH,
    CALL_HEADER,
    NEW_SESSION,
    SESSION_HEADER,
    BadBlock,
    decode_answer,
    encode_request,
    parse_json,
)
from oms_journal.broker.codes import Code, detailed
from oms_journal.broker.reachability import checked_url
from oms_journal.broker.sessions.requests import number_of_seconds
from oms_journal.database.arguments import plain_text

POLL_SECONDS = 25.0  # of a WAIT in one request: proxies cut longer ones off
WAIT_SECONDS = 900.0  # of WAIT=YES
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.05, 1.0
_PARTINGS_MAX = 3  # times that the end of a session is said, where connections are lost
_PARTINGS_SECONDS_MAX = 15.0  # that the ends of sessions go unanswered, before the others are not said
_PARTING_SECONDS_MAX = 5.0  # an interrupt is not held up for longer; it is said again
_SPARE_SECONDS = 10.0  # that an answer may take beside what is waited for
_REPEATABLE = frozenset({Function.LOGON, Function.REGISTER, Function.SUBSCRIBE, Function.VERSION, Function.KERNELVERS})
_ASKING = frozenset({Option.QUERY, Option.LAST})
_REFUSALS = {
    400: Code.INVALID_CHARACTER,
    401: Code.PASSWORD_WRONG,
    403: Code.ACCESS_DENIED,
    413: Code.LENGTH_EXCEEDED,
    429: Code.ACCESS_AT_THIS_TIME,  # too many wrong passwords
}
_AGAIN = (408, 502, 503, 504)  # nothing was done


class Ask(NamedTuple):
    """A request over HTTP, and how long its answer may take."""

    method: str
    url: str
    headers: dict[str, str]
    auth: tuple[str, str] | None
    content: bytes
    seconds: float


class Pause(NamedTuple):
    """So long nothing is to be asked."""

    seconds: float


class Heard(NamedTuple):
    """What was answered over HTTP."""

    status: int
    session: str
    content: bytes
    call: str = ""  # the identifier, where the server keeps answers


class Unreached(NamedTuple):
    """There is no connection: nothing was asked."""

    text: str


class Lost(NamedTuple):
    """The connection was lost, or it took too long: whether it was carried out is not known."""

    text: str


AskOutcome = Heard | Unreached | Lost | None
CallSteps = Generator[Ask | Pause, AskOutcome, Answered]


PATIENCE_SECONDS = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """How a broker elsewhere is spoken to."""

    partner: str = ""  # URL of the standby, until answers name it
    patience_seconds: float | None = None  # that it may take to be there; None: 90 to be there again, 0 the first time
    call_seconds: float = 30.0  # that an answer may take beside WAIT
    ca_file: str = ""  # of the certificate of the server, where it is not a public one

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "RemoteOptions":
        """Return the options of these values; TypeError, ValueError."""
        names = {each.name for each in fields(cls)}
        unknown = sorted(given.keys() - names)
        if unknown:
            text = f"a broker elsewhere has no option {', '.join(unknown)}; it has {', '.join(sorted(names))}"
            raise TypeError(text)
        return cls(**given)

    def __post_init__(self) -> None:
        plain_text(self.partner, "partner")
        plain_text(self.ca_file, "ca_file")
        number_of_seconds(self.call_seconds, "call_seconds")
        if self.patience_seconds is not None:
            number_of_seconds(self.patience_seconds, "patience_seconds", may_be_zero=True)


@dataclass(slots=True)
class CallerState:
    """What is known of a caller: its session, and what it takes to begin another."""

    session: str = ""
    logon: Request | None = None
    others: dict[tuple[str, ...], Request] = field(default_factory=dict)  # REGISTER and SUBSCRIBE
    under_way: str = ""  # the identifier of the request that was asked last
    left: list[Ask] = field(
        default_factory=list
    )  # to be said before the next call: what takes back those that were cut


class Connection:
    """The way to one broker and its partner, and the callers that use it."""

    def __init__(self, url: str, options: RemoteOptions, now: Callable[[], float] = time.monotonic) -> None:
        self.targets = [checked_url(url), *([checked_url(options.partner)] if options.partner else [])]
        self._options = options
        self._now = now
        self._at = 0  # of the targets: who answered last
        self._has_heard = False
        self._keeping: set[str] = set()  # URLs of servers that keep answers
        self._callers: dict[Physical, CallerState] = {}

    @property
    def url(self) -> str:
        """Where the next call goes."""
        return self.targets[self._at]

    def begin(self, caller: Physical) -> None:
        """Note that a call begins: what is cut from now on is none that was answered before."""
        standing = self._callers.get(caller)
        if standing is not None:
            standing.under_way = ""

    def calling(self, request: Request, caller: Physical) -> CallSteps:
        """Carry out a call; the generator returns its answer."""
        refusal = _unspeakable(request)
        if refusal is not None:
            return refusal
        standing = self._callers.setdefault(caller, CallerState())
        is_leaving = request.function is Function.LOGOFF  # what it had is taken back anyhow
        yield from self._said(standing, self._now() + (0.0 if is_leaving else self._patience))
        seconds = _waiting_seconds(request)
        if not seconds:
            return (yield from self._reached(request, standing))
        ends = self._now() + seconds
        while True:
            left = max(ends - self._now(), 0.001)
            piece = replace(request, wait=f"{min(left, POLL_SECONDS):.3f}"[:7] + "S")
            answered = yield from self._reached(piece, standing)
            if answered.reply.code is not Code.WAIT_TIMED_OUT or self._now() >= ends:
                return answered

    def cut(self, request: Request, caller: Physical) -> None:
        """Note that a call was left in its middle: what it has done and nobody knows of is to be taken back."""
        standing = self._callers.get(caller)
        if standing is None or not standing.under_way:
            return
        if self.url in self._keeping:
            standing.left.append(self._parting(request, standing.session or NEW_SESSION, standing.under_way))
        elif _begins(request) and standing.session:
            standing.left.append(self._parting(request, standing.session))
            standing.session = ""
        standing.under_way = ""

    def taking_back(self, caller: Physical) -> CallSteps:
        """Take back what was left in its middle, if that can be said at once; else it is said before the next call."""
        standing = self._callers.get(caller)
        if standing is not None:
            yield from self._said(standing, self._now(), gives_up=False)
        return Answered(Reply())

    def _said(
        self, standing: CallerState, ends: float, *, gives_up: bool = True
    ) -> Generator[Ask | Pause, AskOutcome, None]:
        """Say what is left to be said. Where that cannot be done in time, the session begins anew."""
        pause = _PAUSE_SECONDS
        while standing.left:
            ask = standing.left[0]
            outcome = yield ask._replace(url=f"{self.url}{ACI_PATH}")
            is_heard = isinstance(outcome, Heard) and outcome.status not in _AGAIN
            if not is_heard and self._now() < ends:
                yield Pause(pause)
                pause = min(pause * 2, _PAUSE_SECONDS_MAX)
                continue
            if not is_heard and not gives_up:
                return
            if not is_heard and standing.session == ask.headers[SESSION_HEADER]:
                standing.session = ""
            if ask in standing.left:
                standing.left.remove(ask)

    def _parting(self, request: Request | None, session: str, name: str = "") -> Ask:
        """Return what ends a session, or takes back one call of it; a request of the same user says who that is."""
        auth = _auth(request) if request is not None else None
        headers = {SESSION_HEADER: session, CALL_HEADER: name} if name else {SESSION_HEADER: session}
        seconds = min(self._options.call_seconds, _PARTING_SECONDS_MAX)
        return Ask("DELETE", f"{self.url}{ACI_PATH}", headers, auth, b"", seconds)

    def post(self, request: Request, caller: Physical) -> None:
        """Note what takes back the call that was answered last. A session that is over has lost it all."""
        standing = self._callers.get(caller)
        if standing is None or not standing.session or standing.logon is None:
            return
        if self.url in self._keeping and standing.under_way:
            standing.left.append(self._parting(standing.logon, standing.session, standing.under_way))
        else:
            known = replace(request, password=standing.logon.password)
            standing.left.append(self._ask(known, standing, _new_identifier()))
        standing.under_way = ""

    def leaving(self, caller: Physical) -> CallSteps:
        """Say that a caller will not come back, if it can be said at once."""
        return (yield from self.leaving_all([caller]))

    def leaving_all(self, callers: list[Physical]) -> CallSteps:
        """Say of each in the list that it will not come back, and take it out.

        A server that does not answer is not told of all of them: it finds out by time.
        """
        ends = self._now() + _PARTINGS_SECONDS_MAX
        while callers:
            caller = callers[0]
            is_heard = yield from self._end_session(caller)
            self._callers.pop(caller, None)
            if caller in callers:  # else somebody else has said it meanwhile
                callers.remove(caller)
            if not is_heard and self._now() >= ends:
                for each in callers:
                    self._callers.pop(each, None)
                callers.clear()
        return Answered(Reply())

    def _end_session(self, caller: Physical) -> Generator[Ask | Pause, AskOutcome, bool]:
        """Say that the caller's session ends; False when nobody has heard it."""
        standing = self._callers.get(caller)
        if standing is None or not standing.session:
            return True
        for _ in range(_PARTINGS_MAX):
            outcome = yield self._parting(standing.logon, standing.session)
            if not isinstance(outcome, Lost):
                return isinstance(outcome, Heard)
        return False

    def _leave(self, standing: CallerState) -> Generator[Ask | Pause, AskOutcome, None]:
        session, standing.session = standing.session, ""
        if session:
            yield self._parting(standing.logon, session)

    @property
    def _patience(self) -> float:
        said = self._options.patience_seconds
        return PATIENCE_SECONDS if said is None else said

    def _reached(self, request: Request, standing: CallerState) -> CallSteps:
        """Ask until there is an answer, or patience ends."""
        ends, pause, has_logged_on, lost = self._now() + self._patience, _PAUSE_SECONDS, False, ""
        name = _new_identifier()
        while True:
            at = self._at
            outcome = yield self._ask(request, standing, name)
            found = self._made_of(outcome, request, standing)
            if isinstance(outcome, Lost):
                lost = outcome.text
            elif isinstance(found, str):
                self._leave_target(at)
            if isinstance(found, Answered):
                code = found.reply.code
                is_over = code is Code.LOGON_REQUIRED and standing.logon is not None
                if is_over and lost and not _can_be_repeated(request):
                    return _in_doubt(lost)
                if not is_over or has_logged_on or request.function is Function.LOGON:
                    return found
                found = yield from self._begin_anew(standing)
                if not found:
                    has_logged_on = True
                    continue
            if isinstance(outcome, Lost) and request.function is Function.RECEIVE and self.url not in self._keeping:
                yield from self._leave(standing)
            is_leaving = request.function is Function.LOGOFF  # a broker that is gone knows no sessions
            said = self._options.patience_seconds
            is_elsewhere = not self._has_heard and (said is None or isinstance(outcome, Heard))  # a mistaken address
            if is_elsewhere or is_leaving or self._now() >= ends:
                if lost and not _can_be_repeated(request):
                    return _in_doubt(lost)
                return Answered(Reply(code=Code.NOT_ACTIVE, text=detailed(Code.NOT_ACTIVE, found)))
            yield Pause(pause)
            pause = min(pause * 2, _PAUSE_SECONDS_MAX)

    def _ask(self, request: Request, standing: CallerState, name: str) -> Ask:
        session, standing.under_way = standing.session or NEW_SESSION, name
        if not standing.session and standing.logon is not None and request.function is not Function.LOGON:
            session = "over"  # it has to log on again, and is told so
        headers = {"Content-Type": "application/json", SESSION_HEADER: session, CALL_HEADER: name}
        content = json.dumps(encode_request(replace(request, password=""))).encode()
        seconds = _seconds(request) + self._options.call_seconds
        return Ask("POST", f"{self.url}{ACI_PATH}", headers, _auth(request), content, seconds + _SPARE_SECONDS)

    def _made_of(self, outcome: AskOutcome, request: Request, standing: CallerState) -> Answered | str:
        """Return the answer; or why it is to be asked again, of the partner if need be."""
        if isinstance(outcome, Lost):
            is_exact = self.url in self._keeping and request.function is not Function.LOGOFF
            return outcome.text if is_exact or _can_be_repeated(request) else _in_doubt(outcome.text)
        if not isinstance(outcome, Heard):
            return outcome.text if outcome is not None else ""
        answered = _answer_of(outcome)
        if isinstance(answered, str):
            self._has_heard |= outcome.status in _AGAIN
            return f"{self.url}: {answered}"
        self._has_heard = True
        self._note_partner(answered.reply.partner_broker_id)
        code = answered.reply.code
        if not outcome.session and code is Code.NOT_ACTIVE:
            return "there is no broker where one was"
        if code is Code.NOT_OPERATIONAL:
            return "the broker is not operational yet"
        if code is Code.NOT_ACTIVE and request.function is Function.RECEIVE:
            return "the broker has stopped"
        if outcome.session:
            standing.session = outcome.session
            (self._keeping.add if outcome.call else self._keeping.discard)(self.url)
        _note(standing, request, code)
        return answered

    def _begin_anew(self, standing: CallerState) -> Generator[Ask | Pause, AskOutcome, str]:
        """Log on again, with all that belongs to it; return why that is to be tried again, "" once it is done."""
        assert standing.logon is not None, "who has logged on is asked to"
        standing.session, is_done = "", False
        try:
            for request in (standing.logon, *standing.others.values()):
                outcome = yield self._ask(request, standing, _new_identifier())
                found = self._made_of(outcome, request, standing)
                if isinstance(found, str):
                    return found
            is_done = True
        finally:
            if not is_done:  # all of it is done again
                standing.session = ""
        return ""

    def _leave_target(self, at: int) -> None:
        """Turn to the partner, unless somebody else has by now; a standby that is not taking over is left likewise."""
        if self._at == at:
            self._at = (at + 1) % len(self.targets)

    def _note_partner(self, address: str) -> None:
        """Remember PARTNER-BROKER-ID, HOST:PORT:TCP."""
        if not address:
            return
        host, _, rest = address.partition(":")
        url = f"{urlsplit(self.targets[0]).scheme}://{host}:{rest.split(':')[0]}"
        if url not in self.targets:
            self.targets[1:] = [*self.targets[1:], url]


def _new_identifier() -> str:
    """Return an identifier that nobody guesses: until it has a session, it is all that a call is found by."""
    return secrets.token_hex(12)


def _in_doubt(text: str) -> Answered:
    """Return what a call is answered of which nobody knows whether it was carried out."""
    text = f"{text}; whether the call was carried out is not known: LAST tells"
    return Answered(Reply(code=Code.TRANSPORT_TIMED_OUT, text=detailed(Code.TRANSPORT_TIMED_OUT, text)))


def _unspeakable(request: Request) -> Answered | None:
    """Return the refusal of a call that has no words in JSON: what is no member, or no text."""
    for kind, value, code in (
        (Function, request.function, Code.INVALID_FUNCTION),
        (Option, request.option, Code.INVALID_OPTION),
        (Store, request.store, Code.INVALID_STORE),
    ):
        if type(value) is not kind:
            return Answered(Reply(code=code, text=code.text))
    return None


def _waiting_seconds(request: Request) -> float:
    """Return how long to go on asking for something to receive; 0.0 where a single request does."""
    if request.function not in (Function.RECEIVE, Function.RECEIVE_PUBLICATION):
        return 0.0
    seconds = _seconds(request)
    return seconds if seconds > POLL_SECONDS else 0.0


def _seconds(request: Request) -> float:
    """Return how long the call may wait."""
    return WAIT_SECONDS if request.wait.strip().upper() == "YES" else seconds_to_wait(request)


def _can_be_repeated(request: Request) -> bool:
    if request.function is Function.RECEIVE or request.function in _REPEATABLE:
        return True
    if request.function in (Function.SYNCPOINT, Function.CONTROL_PUBLICATION):
        return request.option in _ASKING
    return request.function is Function.SEND and request.option is Option.COMMIT and bool(request.producer)


def _begins(request: Request) -> bool:
    """Say whether a call may hand something out, or begin something whose identifier its answer tells."""
    begins = request.option is Option.SYNC
    return (
        request.function in (Function.RECEIVE, Function.RECEIVE_PUBLICATION)
        or (request.function is Function.SEND and begins and request.conv_id.upper() == NEW)
        or (request.function is Function.SEND_PUBLICATION and begins and request.publication_id.upper() == NEW)
    )


def _auth(request: Request) -> tuple[str, str] | None:
    return (request.user_id, request.password) if request.password else None


def _answer_of(heard: Heard) -> Answered | str:
    """Return what the server says in the words of the broker; why it is to be asked again, where it has none."""
    try:
        said: Any = parse_json(heard.content)
        if heard.status == 200:
            return decode_answer(said)
        text = str(said["error"])
    except (BadBlock, KeyError, TypeError):
        return f"what answers there is no broker (HTTP status {heard.status}); give the address of `oms serve`"
    if heard.status in _AGAIN:
        return text
    code = _REFUSALS.get(heard.status, Code.NOT_ACTIVE)
    is_said = text.startswith(code.value)  # with the code's own text
    return Answered(Reply(code=code, text=text.removeprefix(code.value).strip() if is_said else detailed(code, text)))


def _note(standing: CallerState, request: Request, code: Code) -> None:
    """Remember what it would take to begin another session."""
    if code is not Code.OK:
        return
    function = request.function
    if function is Function.LOGON:
        standing.logon = request
    elif function is Function.LOGOFF:
        standing.session, standing.logon = "", None
        standing.others.clear()
    elif function in (Function.REGISTER, Function.SUBSCRIBE):
        standing.others[_key(request)] = request
    elif function in (Function.DEREGISTER, Function.UNSUBSCRIBE):
        named = _key(request)
        for key in list(standing.others):
            if key == named or (function is Function.DEREGISTER and not any(named[1:]) and key[0] == named[0]):
                del standing.others[key]


def _key(request: Request) -> tuple[str, ...]:
    is_topic = request.function in (Function.SUBSCRIBE, Function.UNSUBSCRIBE)
    return ("topic" if is_topic else "", request.server_class, request.server_name, request.service, request.topic)
