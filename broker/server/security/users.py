"""The users file: who may log on, and what each may do; read only when it is private, written as a whole.

    {
      "format": "oms users 1",
      "users": {
        "ALICE": {
          "password": "scrypt:15:8:1:…",
          "allow": {"send": ["QUEUE/*"], "receive": ["QUEUE/ORDERS/-", "topic/*"]},
          "deny": {"send": ["QUEUE/SECRET*"]}
        }
      }
    }

`*` stands for any characters. What is denied counts, whatever else allows it; what nothing allows is refused.
`administer` includes `look`.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oms_journal.broker.block import FIELDS
from oms_journal.broker.codes import BrokerError
from oms_journal.broker.destinations import ToService, ToTopic, parse_destination
from oms_journal.broker.patterns import matches
from oms_journal.broker.rights import BROKER, Right, escaped, service_name, topic_name
from oms_journal.broker.server.security import passwords
from oms_journal.broker.service_text import PART_BYTES, QUEUE_CLASS
from oms_journal.database.arguments import shown
from oms_journal.journal.disk import Disk, RealDisk

FORMAT = "oms users 1"
FILE_BYTES_MAX = 16 << 20
USER_BYTES_MAX = FIELDS["USER-ID"].width
PATTERN_BYTES_MAX = 256
QUEUE_BEGIN_BYTES_MAX = PART_BYTES - 8  # no longer name is cut before its 25th byte
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_NAMES_REMEMBERED = 4096  # of one user, with what is allowed
_RIGHTS = {right.value: right for right in Right}
Patterns = Mapping[Right, tuple[str, ...]]


class UsersInvalid(Exception):
    """The users file cannot be used: why, without a word of what is secret in it."""


@dataclass(frozen=True)
class User:
    """A user and its rights. It remembers what it has been asked."""

    name: str
    password: passwords.PasswordHash
    allow: Patterns = field(default_factory=dict)
    deny: Patterns = field(default_factory=dict)
    _known: dict[tuple[Right, str], bool] = field(default_factory=dict, compare=False, repr=False)

    def may(self, right: Right, name: str) -> bool:
        """Return whether it has the right on a name that `guard` has made."""
        key = (right, name)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _NAMES_REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._has(right, name)
        return found

    def _has(self, right: Right, name: str) -> bool:
        rights = (right, Right.ADMINISTER) if right is Right.LOOK else (right,)
        if matches(self.deny.get(right, ()), name):
            return False
        return any(
            matches(self.allow.get(each, ()), name) and not matches(self.deny.get(each, ()), name) for each in rights
        )


Users = Mapping[str, User]


def pattern_of(text: str) -> str:
    """Return the pattern that a person means: a name, or a destination of STOMP. ValueError."""
    if not text or not text.isprintable() or len(text.encode()) > PATTERN_BYTES_MAX:
        raise ValueError(f"a pattern is printable text of 1 to {PATTERN_BYTES_MAX} bytes, not {shown(text)}")
    if text.startswith("/queue/") and "*" in text:
        return _queues(text.removeprefix("/queue/"))
    if text.startswith("/"):
        match _destination(text):
            case ToService(names):
                return service_name(*names)
            case ToTopic(topic):
                return topic_name(topic)
            case _:
                raise ValueError(f"{text} is neither a service nor a topic; write /queue/NAME or /topic/NAME")
    if "*" not in text and text != BROKER and not text.startswith("topic/") and text.count("/") != 2:
        raise ValueError(f"{text} is none of CLASS/SERVER/SERVICE, topic/NAME, {BROKER}, /queue/NAME, or one with *")
    return text


def _queues(text: str) -> str:
    """Return the pattern of queues that begin alike; a longer name is cut into two behind what it takes."""
    begin = text[:-1]
    if "*" in begin or not text.endswith("*") or len(begin.encode()) > QUEUE_BEGIN_BYTES_MAX:
        raise ValueError(f"/queue/{text}: one * at the end, behind at most {QUEUE_BEGIN_BYTES_MAX} bytes")
    return f"{QUEUE_CLASS}/{escaped(begin)}*"


def _destination(text: str) -> object:
    try:
        return parse_destination(text)
    except BrokerError as refusal:
        raise ValueError(refusal.text) from None


def checked_name(name: str) -> str:
    """Return the name of a user. ValueError for what USER-ID cannot hold or a login cannot say."""
    if not name or name != name.strip() or not name.isprintable() or ":" in name:
        text = "the name of a user is printable text, without a colon and blanks around it"
        raise ValueError(f"{text}, not {shown(name)}")
    if len(name.encode()) > USER_BYTES_MAX:
        raise ValueError(f"the name of a user has at most {USER_BYTES_MAX} bytes, not {len(name.encode())}")
    return name


# Reading.


def read_users(path: Path) -> Users:
    """Return the users of a file that nobody but its owner can read. UsersInvalid."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as failure:
        raise UsersInvalid(f"the users file {path} cannot be read: {failure.strerror}") from failure
    try:
        found = os.fstat(descriptor)
        _check_private(path, found)
        if found.st_size > FILE_BYTES_MAX:
            raise UsersInvalid(f"the users file {path} has more than {FILE_BYTES_MAX >> 20} MiB")
        data = b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
    finally:
        os.close(descriptor)
    try:
        return _users(_json(data))
    except ValueError as failure:
        raise UsersInvalid(f"the users file {path} is not valid: {failure}") from None


def _json(data: bytes) -> Any:
    """Return the value of a text in JSON. ValueError, with a text for people."""
    try:
        return json.loads(data.decode(), object_pairs_hook=_no_repeats)
    except json.JSONDecodeError as failure:
        reason = f"it is not JSON, at line {failure.lineno}, character {failure.colno}"
    except UnicodeDecodeError as failure:
        reason = f"it is not UTF-8, at byte {failure.start + 1}"
    except RecursionError:
        reason = "it is nested too deeply"
    raise ValueError(reason)


def _check_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UsersInvalid(f"the users file {path} is not a file")
    mode = stat.S_IMODE(found.st_mode)
    if mode & _OTHERS:
        text = f"the users file {path} has mode {mode:04o}: others can reach it; chmod 600 it"
        raise UsersInvalid(text)
    if found.st_uid not in (os.geteuid(), 0):
        raise UsersInvalid(f"the users file {path} belongs to somebody else")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _users(document: Any) -> Users:
    members = _members(document, "the file", {"format", "users"})
    if members.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
    users = _members(members.get("users"), "users", None)
    return {checked_name(name): _user(name, said) for name, said in users.items()}


def _user(name: str, said: Any) -> User:
    members = _members(said, name, {"password", "allow", "deny"})
    password = members.get("password")
    if not isinstance(password, str):
        raise ValueError(f"{name} has no password")
    try:
        kept = passwords.parse_password_hash(password)
    except ValueError as failure:
        raise ValueError(f"the password of {name}: {failure}") from None
    allow, deny = (_rights(name, members.get(word, {})) for word in ("allow", "deny"))
    return User(name, kept, allow, deny)


def _rights(name: str, said: Any) -> Patterns:
    found = {}
    for word, patterns in _members(said, f"the rights of {name}", set(_RIGHTS)).items():
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise ValueError(f"{word} of {name} is not a list of patterns")
        if patterns:
            found[_RIGHTS[word]] = tuple(pattern_of(pattern) for pattern in patterns)
    return found


def _members(value: Any, what: str, known: set[str] | None) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object")
    unknown = set(value) - known if known is not None else ()
    if unknown:
        raise ValueError(f"{what} has {sorted(unknown)[0]!r}, which is not known")
    return value


# Writing.


def write(path: Path, users: Users, disk: Disk | None = None) -> None:
    """Put the users into the file; see `rewriting`."""
    with rewriting(path, disk) as put:
        put(users)


@contextmanager
def rewriting(path: Path, disk: Disk | None = None) -> Iterator[Callable[[Users], None]]:
    """Let the block read the file and write it anew, while nobody else does.

    What it writes is there whole and durable with its end, or not at all; only its owner can read it. OSError;
    FileExistsError when another is at it, or was interrupted.
    """
    disk = disk or RealDisk()
    fresh = path.with_name(path.name + ".new")
    file = disk.create(fresh)
    is_there = True

    def put(users: Users) -> None:
        nonlocal is_there
        document = {"format": FORMAT, "users": {name: _said(users[name]) for name in sorted(users)}}
        data = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
        if len(data) > FILE_BYTES_MAX:
            raise ValueError(f"a users file has at most {FILE_BYTES_MAX >> 20} MiB")
        file.write_durably([data], 0)
        disk.rename(fresh, path)
        is_there = False
        disk.sync_directory(path.parent)

    try:
        yield put
    finally:
        file.close()
        if is_there:
            disk.unlink(fresh)


def _said(user: User) -> dict[str, Any]:
    said: dict[str, Any] = {"password": str(user.password)}
    for word, patterns in (("allow", user.allow), ("deny", user.deny)):
        some = {right.value: list(patterns[right]) for right in Right if patterns.get(right)}
        if some:
            said[word] = some
    return said
