"""What two brokers that move a store say to each other, and when one refuses. Pure: knows no store and no network.

    of the two stores          is moved
    the same                   no
    versions are different     no
    target holds something     no
    target: unfinished load    from the same source: it is erased and repeated; from another: no
    target: finished load      from the same source: it is compared again; from another: no

(EntireX 8.0, Concepts of Persistent Messaging, "Migrating the Persistent Store". That a load is marked, and repeated,
is ours.)
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

from oms_journal.broker.block_json import parse_json
from oms_journal.broker.migration.stream import Tally

PROTOCOL = 1
UNLOAD, LOAD = "PSTORE-UNLOAD", "PSTORE-LOAD"
MODES = (UNLOAD, LOAD)
BEGUN_MAX = 253_402_300_799_999_999  # the last microsecond of the year 9999: no calendar goes further


class MoveRefused(Exception):
    """The two brokers cannot move a store from one to the other. Nothing was changed by that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOffer:
    """What a broker says of itself and of its store."""

    protocol: int = PROTOCOL
    version: str  # of the program
    mode: str  # its RUN-MODE
    driver: str  # PSTORE-TYPE
    place: str  # the store's directory or file
    host: str
    identity: str = ""  # of the message database, where the store is one
    owner: str = ""  # of a source: whose broker's store it is
    created: int = 0  # likewise, when that broker began it
    parts: int = 0  # likewise, how many messages and records there are

    def __str__(self) -> str:
        whose = f" of broker {self.owner}" if self.owner else ""
        return f"the {self.driver} store{whose} in {self.place} on {self.host}"

    def is_same_store(self, other: "StoreOffer") -> bool:
        """Say whether the two are one store."""
        if self.identity and other.identity:
            return self.identity == other.identity
        return (self.host, self.place) == (other.host, other.place)


def partner_refusal(mine: StoreOffer, theirs: StoreOffer) -> str:
    """Return why the two do not go together, "" where they do."""
    if theirs.protocol != PROTOCOL or theirs.version != mine.version:
        return (
            f"the brokers are of different versions, {mine.version} here and {theirs.version} there: both must be "
            "of the same"
        )
    if theirs.mode != (LOAD if mine.mode == UNLOAD else UNLOAD):
        return f"the partner runs with RUN-MODE={theirs.mode}; beside {mine.mode} it must be the other of {MODES}"
    if mine.is_same_store(theirs):
        return f"both brokers have the same store, {mine}: a load needs another, empty one"
    return ""


def encode_offer(offer: StoreOffer) -> dict[str, Any]:
    """Return the offer as JSON has it."""
    return asdict(offer)


def decode_offer(document: Any) -> StoreOffer:
    """Return what a partner has said of itself. ValueError."""
    if not isinstance(document, dict):
        raise ValueError("an offer is a JSON object")
    types = {field.name: field.type for field in fields(StoreOffer)}
    for name, value in document.items():
        if name not in types or type(value) is not types[name]:
            raise ValueError(f"an offer with {name}={value!r}")
    if missing := [name for name in ("protocol", "version", "mode", "driver", "place", "host") if name not in document]:
        raise ValueError(f"an offer without {', '.join(missing)}")
    return StoreOffer(**document)


# The marks in the target.


@dataclass(frozen=True, slots=True)
class LoadMark:
    """What stands in a store that is, or was, loaded: from where, and once it is finished what."""

    source: StoreOffer
    begun: int  # microseconds since 1970 UTC
    summary: Mapping[str, Tally] | None = None

    def is_of(self, source: StoreOffer) -> bool:
        """Say whether the load is of this source, be it that its broker was started since."""
        mine = self.source
        same = (mine.driver, mine.owner, mine.created) == (source.driver, source.owner, source.created)
        return same and mine.is_same_store(source)

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.begun // 1_000_000, UTC)
        return f"{self.source}, begun {at:%Y-%m-%d %H:%M:%S} UTC"


def encode_mark(mark: LoadMark) -> bytes:
    """Return the mark as the value of its key."""
    document = {"source": str(mark.source), "begun": mark.begun, "offer": encode_offer(mark.source)}
    if mark.summary is not None:
        document["summary"] = encode_summary(mark.summary)
    return json.dumps(document).encode()


def decode_mark(value: bytes) -> LoadMark:
    """Return the mark that stands in a store. ValueError."""
    try:
        document = parse_json(value)
        summary, begun = document.get("summary"), _number(document["begun"])
        if begun > BEGUN_MAX:
            raise ValueError(f"a load that began {begun} microseconds after 1970")
        return LoadMark(decode_offer(document["offer"]), begun, None if summary is None else decode_summary(summary))
    except (AttributeError, KeyError, TypeError) as failure:
        raise ValueError(f"a mark that cannot be read: {failure!r}") from failure


def encode_summary(summary: Mapping[str, Tally]) -> dict[str, Any]:
    """Return a summary as JSON has it."""
    return {name: asdict(tally) for name, tally in summary.items()}


def decode_summary(document: Any) -> dict[str, Tally]:
    """Return the summary that a partner has sent. ValueError."""
    try:
        found = {
            name: Tally(_number(tally["count"]), _number(tally["bytes"]), str(tally["digest"]))
            for name, tally in document.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as failure:
        raise ValueError(f"a summary that cannot be read: {failure!r}") from failure
    return found


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a number that is none")
    return value
