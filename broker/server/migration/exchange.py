"""A store on its way from one server to another: what both sides say, how it is told, and how it fails.

    unload                                    load
    opens its store, unchanged                opens its store: empty, or of an unfinished load
    POST /peer/load/hello, until answered     waits for it; asks /peer/unload/confirm at its own partner's address
    POST /peer/load/chunk/LOAD/NUMBER, each   takes the chunks in, one after the other
    after the other is answered
    POST /peer/load/check/LOAD, until it      makes all of it durable, reads it, compares
    is compared
    POST /peer/load/end/LOAD                  stops
    stops

Whoever cannot go on for good says so (POST /peer/…/failed), and both stop. A connection that is lost ends nothing:
each waits for the other again, and the load begins anew. (EntireX 8.0, Concepts of Persistent Messaging, "Migrating the
Persistent Store": three steps, of which this is each.)
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from oms_journal.broker.block_json import parse_json
from oms_journal.broker.migration.agreement import StoreOffer, decode_offer, decode_summary
from oms_journal.broker.migration.stream import Tally
from oms_journal.broker.server.runtime.state import ServerState

_log = logging.getLogger("oms.server")
LINE_SECONDS = 10.0  # between two lines in the log of what goes on

Show = Callable[[str, int, int], None]  # the stage, how much of it is done, and of how much; 0 is not known


def no_show(_stage: str, _done: int, _total: int) -> None:
    """Show nothing."""


class MoveFailed(Exception):
    """The store was not moved. What it says is for people."""


class ExchangeRefused(Exception):
    """A request of the partner cannot be carried out; with the status of its answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class MoveProgress:
    """Says how far a move is: on the terminal, in the log now and then, and to who asks the server."""

    def __init__(self, served: ServerState, show: Show) -> None:
        self._served = served
        self._show = show
        self._stage = ""
        self._said = 0.0

    def say(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Say it; a new stage at once, the same one every LINE_SECONDS. On the loop only."""
        amount = f": {done:,} of {total:,} ({100 * done // total} %)" if total else ""
        self._served.partner = stage + amount
        self._show(stage, done, total)
        now = time.monotonic()
        if stage != self._stage or now - self._said >= LINE_SECONDS:
            self._stage, self._said = stage, now
            _log.info("%s%s", stage, amount)


def hello_in(body: bytes) -> tuple[str, StoreOffer]:
    """Return the nonce of a partner that begins, and what it says of its store. ExchangeRefused."""
    try:
        document = _document(body)
        return _nonce(document), decode_offer(document["offer"])
    except (KeyError, ValueError) as failure:
        raise ExchangeRefused(400, f"a hello that cannot be read: {failure}") from None


def check_in(body: bytes) -> tuple[dict[str, Tally], int]:
    """Return what a partner has counted of its store, and the last number there. ExchangeRefused."""
    try:
        document = _document(body)
        last = document["last"]
        if type(last) is not int:
            raise ValueError("its last number is none")
        return decode_summary(document["summary"]), last
    except (KeyError, ValueError) as failure:
        raise ExchangeRefused(400, f"a summary that cannot be read: {failure}") from None


def failure_in(body: bytes, mine: StoreOffer) -> tuple[str, str]:
    """Return what a partner says of its failure, in the words of who knows both, and its nonce. ExchangeRefused."""
    try:
        document = _document(body)
        text, nonce, theirs = str(document["text"]), _nonce(document), decode_offer(document["offer"])
    except (KeyError, ValueError):
        raise ExchangeRefused(400, "a failure that cannot be read") from None
    return (f"both brokers have the same store, {mine}" if mine.is_same_store(theirs) else text), nonce


def nonce_in(body: bytes) -> str:
    """Return the nonce that a partner wants confirmed. ExchangeRefused."""
    try:
        return _nonce(_document(body))
    except (KeyError, ValueError):
        raise ExchangeRefused(400, "a confirmation that cannot be read") from None


def _document(body: bytes) -> dict[str, Any]:
    """Return an object in JSON. ValueError; anybody may send these, before anything is known of who it is."""
    found = parse_json(body)
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def _nonce(document: dict[str, Any]) -> str:
    nonce = document["nonce"]
    if not isinstance(nonce, str) or not nonce.isascii():
        raise ValueError("its nonce is none")
    return nonce
