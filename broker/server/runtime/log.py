"""What the log says of itself in fields: the events of a server that tools may wait for, and what each carries.

event            fields                      when
listening        addresses, seconds          it serves, so long after its start; again after a takeover
standby          addresses                   it stands by
stopping         why                         it was told to stop
stopped          connections, seconds        it has: so many were ended, in so much time
taken_over       -                           another broker has the store
connection       connection, user            a STOMP connection ends with an ERROR
login_refused    user, peer                  a wrong user or password
login_limited    user, peer                  too many of them: nothing is looked at for a while
users_read       users, changed              the users file was read again
certificate_read -                           a renewed certificate is used
attributes       warnings, differences       the attribute file makes it other than a start without one
held             uows, publications          so much is held since the store was restored from a backup
insecure         host                        INSECURE-NETWORK=YES lets everybody in the network in
exhausted        reason                      the system has no descriptor or memory left for a connection
wide             path, mode                  others can reach what only the broker should
message          -                           any other line

What the loop complains of, as lines of the log: one line each, and no more than one in a while of the same kind.

With no descriptor free the loop would say so for every connection that waits, a hundred times a second, with a
traceback each: a log that grows faster than what it is about.
"""

import asyncio
import errno
import logging
import time
from collections.abc import Callable
from itertools import takewhile
from typing import Any

# Of the table above. A tool may rely on these names, and on their fields.
EVENTS = frozenset(line.split()[0] for line in takewhile(str.strip, (__doc__ or "").splitlines()[3:]))


def event(name: str, **fields: Any) -> dict[str, Any]:
    """Return what a line of the log is given as `extra`; the fields go into JSON as they are."""
    assert name in EVENTS or not EVENTS, name
    return {"fields": {"event": name, **fields}}


AGAIN_SECONDS = 10.0  # before the same is said again
KINDS_MAX = 100  # that are remembered: their texts may have anything in them
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger("oms.server")


class LoopErrorLog:
    """An exception handler for a loop: `loop.set_exception_handler(LoopErrorLog())`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[str, float] = {}  # when
        self._kept_back: dict[str, int] = {}

    def __call__(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        is_exhausted = isinstance(failure, OSError) and failure.errno in _EXHAUSTED
        text = "no connection can be taken" if is_exhausted else str(context.get("message", "a task failed"))
        kind = f"{text}: {failure}" if failure is not None else text
        now = self._clock()
        if now - self._said.get(kind, -AGAIN_SECONDS) < AGAIN_SECONDS:
            self._kept_back[kind] = self._kept_back.get(kind, 0) + 1
            return
        self._said.pop(kind, None)
        self._said[kind] = now
        if len(self._said) > KINDS_MAX:
            oldest = next(iter(self._said))
            del self._said[oldest]
            self._kept_back.pop(oldest, None)
        count = self._kept_back.pop(kind, 0)
        more = f" ({count} times since it was last said)" if count else ""
        if is_exhausted:
            _log.error("%s%s; others are served on", kind, more, extra=event("exhausted", reason=str(failure)))
        else:
            _log.error("%s%s", kind, more, exc_info=failure)
