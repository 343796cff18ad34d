"""`oms cmd RELEASE … --except FILE`: what a consumer says it has is discarded as PROCESSED, the rest is released.

What is held is asked for by pages and compared here, so that FILE may be of any length; what is to be done is said in
commands of bounded size, the oldest first. Who is interrupted gives the command again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oms_journal.cli.broker.operator import Server
from oms_journal.cli.failures import Failure, Usage
from oms_journal.cli.messages.sources import lines_of

PAGE = 1000  # rows of an answer, and identifiers of a command
SHOWN_MAX = 10  # subscriptions in a message
_NOTHING_HELD = (902, 903)  # codes of the command and information services
_UNITS = ("conv_id", "user_id", "token", "server_class", "server_name", "service")


@dataclass(slots=True)
class Split:
    """What is held, by whether the consumer has it."""

    found: Sequence[str]  # identifiers, the oldest first
    has: frozenset[str]
    unknown: int  # names in the file of nothing that is held

    @property
    def lacks(self) -> int:
        """How much the consumer has not."""
        return len(self.found) - len(self.has)


def check(order: Mapping[str, Any]) -> None:
    """Usage for what the broker would refuse, or not be asked: what is not understood must not widen an order."""
    from oms_journal.broker.admin.codes import CisRefused
    from oms_journal.broker.admin.commands import SELECTORS, order_of

    try:
        checked = order_of(order)
    except CisRefused as refused:
        raise Usage(refused.text) from None
    if checked.command != "RELEASE":
        raise Usage("--except goes with RELEASE: what FILE names is discarded, the rest released")
    if checked.uowid:
        raise Usage("uowid names one alone: give it without --except")
    if checked.everything and any(order.get(name) for name in SELECTORS if name != "all"):
        raise Usage("say which: what they have in common, or all")


def names_in(file: Path) -> frozenset[str]:
    """Return the lines of a file, which are UOWIDs, PUBLICATION-IDs or producers' identifiers. Usage."""
    return frozenset(lines_of(file, "--except").values())


def compared(server: Server, order: Mapping[str, Any], names: frozenset[str]) -> Split:
    """Return what of that which the order is about the consumer has, and has not.

    Usage where that may be any subscription's list: what one has others may not have.
    """
    is_topics = order.get("object") == "SUBSCRIBER"
    subscriptions = _subscriptions(server, order) if is_topics else []
    rows = _publications(server, {each["topic"] for each in subscriptions}) if is_topics else _uows(server, order)
    key = "publication_id" if is_topics else "uowid"
    found = sorted(rows, key=lambda row: (row["committed"] or "", row[key]))
    met = names & {name for row in found for name in (row[key], row["producer"])}
    has = frozenset(row[key] for row in found if row[key] in names or row["producer"] in names)
    if has and len(subscriptions) > 1:
        several = ", ".join(
            f"topic={each['topic']} user_id={each['user_id']}" + (f" token={each['token']}" if each["token"] else "")
            for each in subscriptions[:SHOWN_MAX]
        )
        more = ", …" if len(subscriptions) > SHOWN_MAX else ""
        raise Usage(f"what one subscriber has others may not have: say which of {several}{more}")
    return Split([row[key] for row in found], has, len(names - met))


def _uows(server: Server, order: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return _rows(server, "PSF", [*_said(order, _UNITS), ("held", "yes")])


def _subscriptions(server: Server, order: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the subscriptions that the order is about for which anything is held."""
    return [row for row in _rows(server, "SUBSCRIBER", _said(order, ("topic", "user_id", "token"))) if row["held"]]


def _publications(server: Server, topics: Collection[str]) -> Iterator[Mapping[str, Any]]:
    """Return what is held of these topics, for whomever."""
    return (row for row in _rows(server, "PUBLICATION", ()) if row["held"] and row["topic"] in topics)


def _said(order: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, str(order[name])) for name in names if order.get(name)]


def _rows(server: Server, subject: str, said: Sequence[tuple[str, str]]) -> Iterator[Mapping[str, Any]]:
    cursor = ""
    while True:
        more = [("cursor", cursor)] if cursor else []
        page = server.get("info", subject, has="rows", said=[*said, ("limit", str(PAGE)), *more])
        yield from page["rows"]
        cursor = page["next"] or ""
        if not cursor:
            return


def given(server: Server, command: Mapping[str, Any]) -> int:
    """Give a command; return how much it has changed. What is not held (any more) is passed over. Failure."""
    try:
        return int(server.post("/command", command)["affected"])
    except Failure as refused:
        if refused.facts.get("cis_code") in _NOTHING_HELD and refused.facts.get("error_code") == "00000000":
            return 0
        raise


def orders(order: Mapping[str, Any], split: Split) -> Iterator[dict[str, Any]]:
    """Yield the commands: of the oldest what is discarded, and what is released; then of those that are next.

    Where all older publications are decided about, the broker need not note each of them.
    """
    about = {name: value for name, value in order.items() if name not in ("command", "all")}
    for start in range(0, len(split.found), PAGE):
        part = split.found[start : start + PAGE]
        if has := [each for each in part if each in split.has]:
            yield {"command": "DISCARD", **about, "identifiers": has, "option": "PROCESSED"}
        if has_not := [each for each in part if each not in split.has]:
            yield {"command": "RELEASE", **about, "identifiers": has_not}
