"""Who calls, and what they have in their hands: sessions, and what sessions give out, as the player knows them."""

from dataclasses import dataclass, field
from typing import Any

from tests.support.broker.words import Person


class Body(bytes):
    """A message as it is sent, with what goes with it."""

    beside: tuple[object, ...] = ()


@dataclass(eq=False)
class Place:
    """A session of somebody, and the connection that it is for the model."""

    who: str
    session: Any
    person: Person
    services: list[str] = field(default_factory=list)
    topics: dict[str, bool] = field(default_factory=dict)  # with whether it is durable


@dataclass(eq=False)
class Handle:
    """Something that a session gave out."""

    number: int
    kind: str
    thing: Any
    place: Place
    to: dict[str, Any] = field(default_factory=dict)  # fields of the next SEND
    terms: dict[str, Any] = field(default_factory=dict)
    uowid: str = ""  # or the publication's identifier
    conv_id: str = ""
    topic: str = ""
    is_open: bool = False
    is_settled: bool = False  # what is sent was committed or dropped
    is_lost: bool = False  # what is received was given back, and came again
    is_sure: bool = True  # no call about it was cut
    count: int = 0  # deliveries before, as it was received
    is_last: bool = False  # its last message was handed out
    answer: "Handle | None" = None
