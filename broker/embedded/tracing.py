"""Tracing: what of a broker's work is logged while somebody wants to know. Off, it costs a look at a number.

    level    of the broker                            of the persistent store
    1        calls that were refused                  groups of commits: how many, how long
    2 to 8   every call, and what it was answered     each commit of a group: what it adds, writes and removes

Contents, passwords and properties are in no line. The first levels are those of TRACE-LEVEL.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from oms_journal.broker.block import Function, Option, Request
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import Answer, Call, Commit, Effect, Input, Level, Log

REMEMBERED_MAX = 10_000  # calls that are not answered


class Tracing:
    """The levels, and the lines."""

    def __init__(self, calls: int = 0, commits: int = 0) -> None:
        self.calls = calls  # 0: none
        self.commits = commits
        self._waiting: OrderedDict[int, str] = OrderedDict()  # calls that are not answered, by handle

    def of_calls(self, given: Input, effects: Sequence[Effect]) -> Iterator[Log]:
        """Yield the lines about an input and what it brings about."""
        if type(given) is Call:
            if len(self._waiting) >= REMEMBERED_MAX:
                self._waiting.popitem(last=False)
            self._waiting[given.handle] = _shown(given.request, given.caller)
            if self.calls > 1:
                yield Log(Level.NOTE, f"trace: call {given.handle}: {self._waiting[given.handle]}")
        for effect in effects:
            if type(effect) is Answer:
                reply, call = effect.reply, self._waiting.pop(effect.handle, "a command")
                if self.calls > 1 or reply.code is not Code.OK:
                    yield Log(
                        Level.NOTE, f"trace: call {effect.handle} answered {reply.code.value} {reply.text}: {call}"
                    )

    def of_group(self, commits: Sequence[Commit], seconds: float) -> Log:
        """Return the line about a group of commits."""
        text = f"trace: {len(commits)} commits in {seconds * 1000:.3f} ms"
        if self.commits > 1:
            text += ": " + "; ".join(map(_commit, commits))
        return Log(Level.NOTE, text)


def _shown(request: Request, caller: int) -> str:
    function, option = request.function, request.option
    words = [function.name if isinstance(function, Function) else str(function)]
    if option:
        words.append(option.name if isinstance(option, Option) else str(option))
    service = "/".join((request.server_class, request.server_name, request.service)).strip("/")
    named = {"service": service, "topic": request.topic, "conv": request.conv_id, "uow": request.uowid}
    words += [f"{name}={value}" for name, value in named.items() if value]
    if request.wait:
        words.append(f"wait={request.wait}")
    return f"{' '.join(words)} by {request.user_id or 'nobody'} on {caller}, {len(request.body)} bytes"


def _commit(commit: Commit) -> str:
    changes = commit.changes
    removed = sum(map(len, (*changes.delivered, *changes.deleted)))
    return f"{len(changes.adds)} added, {len(changes.puts)} written, {len(changes.drops)} dropped, {removed} removed"
