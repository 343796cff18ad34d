"""The tables of the page on limits, from the code: python -m tests.docs.reference.limits writes them.

What is said of a limit stands here, beside the place in the code that has it, so that neither changes alone.
"""

import sys
from dataclasses import fields
from typing import Any

from oms_journal.broker import rules
from oms_journal.broker.admin import commands, figures, questions
from oms_journal.broker.attributes import attributes
from oms_journal.broker.kernel.state import producers, unused_names, world
from oms_journal.broker.server.http import login
from oms_journal.broker.server.runtime.limits import FrameLimits, StompLimits, WebLimits
from oms_journal.broker.server.security import passwords, users
from oms_journal.broker.server.security.login_attempts import LoginBounds
from oms_journal.database import arguments, options, reading
from oms_journal.database.options import Options
from oms_journal.journal import names, operations
from oms_journal.journal.format import frames
from oms_journal.journal.reading import message
from oms_journal.journal.writing import log, supply
from oms_journal.recovery import startup
from tests.support.project import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "limits.md"
Rows = list[tuple[str, str, str]]  # name, value, what happens beyond it
BYTES, SECONDS, COUNT = "bytes", "s", ""

FIELDS = {
    "connections": "open at a time; `MAX-CONNECTIONS` sets it. Over STOMP a further one is refused. Over HTTP an "
    "idle one makes room, or the newest one of the user who has most",
    "connect_seconds": "from the connection to its CONNECT frame; then it is closed",
    "frame_seconds": "for a frame that has begun; then the connection is closed",
    "frame_bytes_per_second": "the slowest sender: a large frame has more time, at this rate",
    "look_seconds": "between two looks at who is too slow",
    "unread_bytes": "of incomplete frames or bodies, of all connections together. When they need more, oms closes a "
    "connection of the user who holds the most",
    "calls": "begun and not answered; beyond it oms reads nothing more (STOMP), or refuses the call (HTTP session)",
    "call_bytes": "bodies of these calls of one connection",
    "waiting_frames": "read, behind a frame that has to be done first",
    "subscriptions": "of one connection",
    "replies": "conversations of one connection whose answers are waited for; a further request is refused",
    "transactions": "open, of one connection",
    "transaction_bytes": "bodies in the open transactions of one connection",
    "prefetch": "messages in flight to a subscriber that names no number",
    "prefetch_max": "messages in flight to a subscriber, at most",
    "write_bytes": "waiting to be written to a connection; beyond it oms receives no message for it",
    "unsent_bytes": "receipts and answers that the client does not read; beyond it oms does nothing more for it",
    "heart_beat_milliseconds": "the shortest interval of heart-beats, either way",
    "log_lines": "about connections that end with an ERROR, between two looks",
    "linger_seconds": "for the last data of a connection that ends",
    "stop_seconds": "for what is under way when the server stops",
    "header_line": "one line of a header",
    "header_lines": "headers of a frame",
    "head": "the command and all headers of a frame",
    "body": "the body of a frame; more where the attributes allow longer messages",
    "newcomers": "connections beyond the bound, until oms knows whose they are",
    "head_bytes": "a request's line and headers",
    "head_seconds": "for them, once they have begun",
    "idle_seconds": "of a connection without a request",
    "body_bytes": "the body of a request; more where the attributes allow longer messages",
    "block_bytes": "beside the message in a call",
    "body_seconds": "for a body; then the request is refused",
    "body_bytes_per_second": "the slowest sender: a large body has more time, at this rate",
    "kept_bytes": "of answers kept so that a call can be repeated, of all sessions together",
    "wait_seconds": "that one call may wait; a longer WAIT is answered 00740074 then",
    "sessions": "of HTTP clients, open at a time",
}
BYTE_FIELDS = ("header_line", "head", "body")


def shown(value: Any, unit: str) -> str:
    """Return a value as people read it."""
    if unit == BYTES:
        for size, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
            if size <= value < 1024 * size and value % size == 0:
                return f"{value // size:,} {name}"
        return f"{value:,} bytes"
    if isinstance(value, float):
        return f"{value:,.10g} {unit}".strip()
    return f"{value:,} {unit}".strip()


def of_bounds(bounds: Any) -> Rows:
    """Return a row for each bound of a dataclass."""
    found: Rows = []
    for field in fields(bounds):
        value = getattr(bounds, field.name)
        if isinstance(value, FrameLimits):
            continue
        unit = SECONDS if field.name.endswith("_seconds") else COUNT
        if field.name.endswith("_bytes") or field.name in BYTE_FIELDS:
            unit = BYTES
        if field.name.endswith("_milliseconds"):
            unit = "ms"
        if field.name.endswith("_bytes_per_second"):
            unit = "bytes a second"
        found.append((f"`{field.name}`", shown(value, unit), FIELDS[field.name]))
    return found


def of_library() -> Rows:
    commit = f"{shown(1 << 30, BYTES)} + {shown(frames.FRAME_BYTES_MAX - (1 << 30), BYTES)}"
    return [
        ("a queue, a key, a producer identifier", f"1 to {operations.NAME_BYTES_MAX} bytes of UTF-8", "`InvalidName`"),
        (
            "a message, with its properties",
            f"{shown(Options().max_message_size, BYTES)} (`max_message_size`), at most "
            f"{shown(operations.MESSAGE_BYTES_MAX, BYTES)}",
            "`LimitExceeded`",
        ),
        ("the properties of a message", shown(operations.PROPERTIES_BYTES_MAX, BYTES), "`LimitExceeded`"),
        ("the value of a key", shown(operations.VALUE_BYTES_MAX, BYTES), "`LimitExceeded`"),
        ("a commit", f"{commit}, {frames.OPERATIONS_MAX:,} operations", "`LimitExceeded`"),
        ("numbers named in one call", f"{arguments.NUMBERS_MAX:,}", "`LimitExceeded`"),
        (
            "a data file",
            f"{shown(Options().max_data_file_size, BYTES)} (`max_data_file_size`), "
            f"{shown(log.DATA_FILE_BYTES_MIN, BYTES)} to {shown(log.DATA_FILE_BYTES_MAX, BYTES)}",
            "the next one begins. A commit that is larger has a file of its own",
        ),
        ("data files of a database, ever", f"{names.SEQUENCE_MAX:,}", ""),
        ("archives of one data file", f"{names.VERSION_MAX:,}", "`RecoveryRefused`: move some of them away"),
        ("numbers of messages", "8 bytes, below 2⁶²", ""),
        (
            "producer identifiers remembered",
            f"{Options().duplicate_count:,} (`duplicate_count`), {shown(Options().duplicate_age, SECONDS)} "
            "(`duplicate_age`)",
            "the oldest is forgotten",
        ),
        ("data files that wait to be sealed", f"{supply.ROLLED_MAX}", "commits wait"),
        ("data files open for reading", f"{reading.OPEN_FILES_MAX}", "the one not read for longest is closed"),
        ("memory for what large commits say", shown(message.KEPT_BYTES_MAX, BYTES), "it is read again"),
        ("suspects in a report, as ranges", f"{startup.SUSPECTS_MAX:,}", "the report names the first ones"),
        ("a duration", f"{options.SECONDS_MAX:,} s", "`ValueError`"),
    ]


def of_server() -> Rows:
    return [
        ("a producer identifier", f"{rules.PRODUCER_BYTES_MAX} bytes", "refused"),
        ("properties of a message", shown(rules.PROPERTIES_BYTES_MAX, BYTES), "refused"),
        ("producer identifiers remembered", f"{producers.PRODUCERS_MAX:,}", "the oldest is forgotten"),
        (
            "services, and topics, that only a pattern names and that are empty",
            f"{unused_names.NAMES_KEPT:,} each",
            "the others are forgotten, and begin to count anew",
        ),
        ("ended conversations whose partner can still be told why", f"{world.ENDED_MAX:,}", "the oldest is forgotten"),
        ("services, and topics, by name in `/metrics`", f"{figures.NAMED_MAX} each", "the others are summed"),
        ("rows of one answer of `/info`", f"{questions.LIMIT_MAX:,}", "the answer has a cursor for the next ones"),
        ("identifiers in one command", f"{commands.IDENTIFIERS_MAX:,}", "refused"),
        ("an attribute file", shown(attributes.FILE_BYTES_MAX, BYTES), "refused"),
        ("a users file", shown(users.FILE_BYTES_MAX, BYTES), "refused"),
        (
            "a password",
            f"{passwords.PASSWORD_CHARACTERS_MIN} characters to {shown(passwords.PASSWORD_BYTES_MAX, BYTES)}",
            "refused",
        ),
        ("wrong passwords for a user, from one address", f"{LoginBounds().user_failures}", "who guesses has to wait"),
        (
            "wrong passwords for all users, from one address",
            f"{LoginBounds().address_failures}",
            "who guesses has to wait",
        ),
        ("the longest such wait", shown(LoginBounds().wait_seconds_max, SECONDS), ""),
        (
            "browsers that are logged on",
            f"{login.SESSIONS_MAX:,}, {login.OF_USER_MAX} of one user",
            "the one that was silent for longest is logged off",
        ),
        (
            "a browser's session",
            f"{shown(login.IDLE_SECONDS, SECONDS)} idle, {shown(login.LIFE_SECONDS, SECONDS)} in all",
            "it is logged off",
        ),
    ]


def parts() -> dict[str, str]:
    """Return the tables of the page, by their marks."""
    return {
        "library": table(("what", "limit", "beyond it"), of_library()),
        "broker": table(("what", "limit", "beyond it"), of_server()),
        "frames": table(("limit", "value", "of"), of_bounds(FrameLimits())),
        "stomp": table(("limit", "value", "of"), of_bounds(StompLimits())),
        "http": table(("limit", "value", "of"), of_bounds(WebLimits())),
    }


def table(heads: tuple[str, ...], rows: Rows) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def written(page: str) -> str:
    """Return the page with its tables as they should be."""
    for name, rows in parts().items():
        begin, end = f"<!-- limits {name}:begin -->", f"<!-- limits {name}:end -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}\n\n{rows}\n\n{end}{rest.split(end, 1)[1]}"
    return page


def main() -> None:
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write("docs/reference/limits.md\n")


if __name__ == "__main__":
    main()
