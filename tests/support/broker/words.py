"""The words in which the oracle calls and answers: a call, who makes it, and what it is told."""

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from oms_journal.broker.block import Function, Option, Store
from oms_journal.broker.codes import Code

NEW, OLD, ANY, NONE, BOTH = "NEW", "OLD", "ANY", "NONE", "BOTH"

Answer = dict[str, Any]
Name = tuple[str, str, int]  # USER-ID, TOKEN, and without a token the connection


class Order(Enum):
    """What an operator says of what is held."""

    RELEASE = "RELEASE"
    DISCARD = "DISCARD"
    CONFIRM = "DISCARD PROCESSED"


class Refused(Exception):
    """The call is answered with a code, or with another that says the same, and has changed nothing."""

    def __init__(self, *codes: Code) -> None:
        self.code = codes[0]
        self.codes = codes


@dataclass(frozen=True)
class Person:
    """Who calls, and over which connection."""

    user: str
    token: str
    connection: int

    @property
    def name(self) -> Name:
        return (self.user, self.token, 0 if self.token else self.connection)


OPERATOR = Person("OPERATOR", "", 0)


@dataclass(frozen=True)
class Ask:
    """A call. `talk` and `uow` are the model's numbers or a word; `wait` is seconds, 0 for NO.

    An operator's order is about what is `held`: units of work, or publications of a topic for its `reader`, none for
    all of those.
    """

    who: Person
    function: Function | Order
    option: Option = Option.NONE
    talk: int | str = ""
    uow: int | str = ""
    service: str = ""
    body: bytes = b""
    ustatus: str = ""
    store: Store = Store.UNSAID
    uwtime: int = 0
    uwstatp: int = 0
    uwstat_lifetime: int = 0
    producer: str = ""
    wait: int = 0
    topic: str = ""
    publication: int | str = ""
    held: tuple[int | str, ...] = ()
    reader: tuple[str, str] = ("", "")  # USER-ID, TOKEN

    def __str__(self) -> str:
        option = "" if self.option is Option.NONE else f" {self.option.name}"
        said = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self)[3:]]
        unsaid = [f"{each.name}={each.default!r}" for each in fields(self)[3:]]
        return " ".join([f"{self.who.user}{self.who.token} {self.function.name}{option}", *sorted({*said} - {*unsaid})])


def is_same(me: Name, name: Name | None) -> bool:
    """Say whether I am the one; after a restart who has no token is any of that USER-ID without one."""
    return name is not None and me[:2] == name[:2] and name[2] in (0, me[2])
