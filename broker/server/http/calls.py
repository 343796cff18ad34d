"""Calls over HTTP that have an identifier: a session keeps its last answers, so that nothing is done twice.

    a request with the identifier of a call      is
    that its session has not seen                carried out
    that is under way                            answered with it
    that was answered                            answered the same again
    that was taken back                          refused, and nothing is done

A call is taken back as one whose caller was cancelled here: what it had received is handed out again at once and counts
no attempt; what it has committed stands. Who hangs up takes back what nobody else waits for, and may ask anew.
A session keeps its last KEPT_MAX calls; messages of answers only as long as all of them together are within bounds.
"""

import asyncio
from collections import OrderedDict
from dataclasses import replace
from typing import Any
from zlib import crc32

from oms_journal.broker.answers import Answered, Physical, compensation
from oms_journal.broker.block import Function, Reply, Request
from oms_journal.broker.codes import Code, detailed
from oms_journal.broker.embedded.async_broker import AsyncBroker

NAME = "^[!-~]{0,64}$"  # an identifier; "" is none
KEPT_MAX = 8  # calls of a session
_AT_ONCE = ("", "NO")
_WAS_TAKEN_BACK = "this call was taken back; ask again with an identifier of its own"
TAKEN_BACK = Answered(Reply(code=Code.TRANSPORT_TIMED_OUT, text=detailed(Code.TRANSPORT_TIMED_OUT, _WAS_TAKEN_BACK)))
_NOTHING = Request(function=Function.VERSION)
_LET_GO = detailed(Code.TRANSPORT_TIMED_OUT, "the call was carried out, and its message is kept no longer")


class OtherCall(Exception):
    """The identifier is that of another call."""


class HttpCall:
    """A call, and who waits for its answer."""

    __slots__ = ("_check", "_let_go", "answering", "hearers", "is_taken_back", "request", "settling")

    def __init__(self, request: Request, answering: "asyncio.Future[Answered] | None") -> None:
        self.answering = answering  # None: it was taken back before it came
        self.hearers = 0  # requests that wait for the answer
        self.is_taken_back = answering is None
        self.settling = asyncio.Lock()  # held by who takes it back
        self._check = _check_of(request)
        self.request = replace(request, body=b"")
        self._let_go: Reply | None = None

    @property
    def waits(self) -> bool:
        """Whether it may wait for something to come."""
        return self.request.wait.upper() not in _AT_ONCE

    @property
    def is_done(self) -> bool:
        return self.answering is None or self.answering.done()

    @property
    def is_let_go(self) -> bool:
        """Whether its message is kept no longer."""
        return self._let_go is not None

    @property
    def answered(self) -> Answered | None:
        """The answer; None where nothing was done."""
        if self._let_go is not None:
            return Answered(self._let_go)
        found = self.answering
        return found.result() if found is not None and found.done() and not found.cancelled() else None

    @property
    def back(self) -> Request | None:
        """What takes back what the answer tells of."""
        answered = self.answered
        return compensation(self.request, answered.reply) if answered is not None else None

    def is_of(self, request: Request) -> bool:
        """Say whether a request asks for this very call."""
        return self._check == _check_of(request)

    def let_go(self) -> None:
        """Keep the message of the answer no longer."""
        answered = self.answered
        if answered is not None:
            self._let_go, self.answering = answered.reply, None


def _check_of(request: Request) -> dict[str, Any]:
    """Return what a repeat has alike: all that is said, and of the message its checksum."""
    return vars(request) | {"body": (len(request.body), crc32(request.body))}


class AnswerRoom:
    """What messages of answers take that are kept, of all sessions of a listener; the oldest goes first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[HttpCall, int] = OrderedDict()
        self._size = 0

    def keep(self, call: HttpCall) -> None:
        answered = call.answered
        if answered is None or not answered.body or call in self._held:
            return
        self._held[call] = len(answered.body)
        self._size += len(answered.body)
        while self._size > self._bytes_max:
            oldest = next(iter(self._held))
            self.free(oldest)
            oldest.let_go()

    def free(self, call: HttpCall) -> None:
        self._size -= self._held.pop(call, 0)


class Calls:
    """The calls of one session."""

    def __init__(self, broker: AsyncBroker, caller: Physical, room: AnswerRoom) -> None:
        self._broker = broker
        self._caller = caller
        self._room = room
        self._calls: OrderedDict[str, HttpCall] = OrderedDict()  # by identifier

    async def begin(self, name: str, request: Request) -> HttpCall:
        """Return the call that is asked for, which is carried out if it is new; `hear` tells its answer. OtherCall."""
        while name and (call := self._calls.get(name)) is not None:
            async with call.settling:
                if self._calls.get(name) is not call:
                    continue
                if call.answering is not None and not call.is_of(request):
                    raise OtherCall
                if not call.is_let_go or call.is_taken_back:
                    return call
                back = call.back
                if back is None:
                    return call
                await self._broker.call(back, caller=self._caller)
                self._forget(name)
        call = HttpCall(request, asyncio.ensure_future(self._broker.call(request, caller=self._caller)))
        if name:
            self._calls[name] = call
            self._trim()
        return call

    def heard(self, call: HttpCall) -> Answered | None:
        """Return what a request is answered that has waited for the call; None while there is nothing to tell."""
        if call.is_taken_back:
            return TAKEN_BACK
        if call.is_let_go:
            return Answered(Reply(code=Code.TRANSPORT_TIMED_OUT, text=_LET_GO))
        return call.answered

    def keep(self, name: str, call: HttpCall) -> None:
        """Keep the answer of a call."""
        if self._calls.get(name) is call:
            self._room.keep(call)

    async def stop(self, name: str, call: HttpCall) -> None:
        """Let a call wait no longer for which nobody waits; nothing of it was done, unless it was answered by now."""
        async with call.settling:
            if not call.hearers and not call.is_done:
                await self._stopped(call)
                if call.answered is None and self._calls.get(name) is call:
                    self._forget(name)

    async def give_back(self, name: str, call: HttpCall) -> None:
        """Take back what an answer tells of that nobody has heard; the call can be made anew."""
        async with call.settling:
            if call.hearers or call.is_taken_back:
                return
            if call.back is not None:
                await self._broker.call(call.back, caller=self._caller)
            call.is_taken_back = True
            if self._calls.get(name) is call:
                self._forget(name)

    async def take_back(self, name: str) -> Answered | None:
        """Take a call back, or see to it that it will not be carried out; return the answer of one that stands."""
        call = self._calls.get(name)
        if call is None:
            call = HttpCall(_NOTHING, None)
        self._calls[name] = call
        self._trim()
        async with call.settling:
            self._calls[name] = call  # also where who hung up has taken it back meanwhile
            if call.is_taken_back:
                return None
            await self._stopped(call)
            back, answered = call.back, call.answered
            if back is None and answered is not None:
                return Answered(answered.reply)
            call.is_taken_back = True
            self._room.free(call)
            if back is not None:
                await self._broker.call(back, caller=self._caller)
            return None

    async def _stopped(self, call: HttpCall) -> None:
        """Return once a call is over: one that waits is cancelled, any other has its answer soon."""
        if call.answering is None:
            return
        if call.waits:
            call.answering.cancel()
        await asyncio.wait([call.answering])
        if call.answering.cancelled():
            await self._broker._settled(self._caller)

    def _trim(self) -> None:
        over = len(self._calls) - KEPT_MAX
        done = [name for name, call in self._calls.items() if call.is_done and not call.settling.locked()]
        for name in done[: max(0, over)]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._room.free(self._calls.pop(name))

    def close(self) -> None:
        """Keep nothing any more: the session has ended."""
        for name in list(self._calls):
            self._forget(name)
