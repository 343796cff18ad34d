"""`oms user`: makes and changes the users file of a server. It asks for passwords; none is ever an argument."""

import getpass
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from oms_journal.broker.rights import Right
from oms_journal.broker.server.security.passwords import PasswordHash, hash_password
from oms_journal.broker.server.security.users import (
    Patterns,
    User,
    Users,
    UsersInvalid,
    checked_name,
    pattern_of,
    read_users,
    rewriting,
)
from oms_journal.cli import options, output
from oms_journal.cli.arguments import Command, Group
from oms_journal.cli.failures import ExitCode, Failure, Usage

user = typer.Typer(
    name="user",
    cls=Group,
    help="Say who may log on to a server, and may do what.",
    rich_markup_mode=None,
    add_completion=False,
)

UsersFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The users file. Its mode must be 0600.", show_default=False)
]
Name = Annotated[str, typer.Argument(metavar="USER", help="The name that a program logs on with.", show_default=False)]
Pattern = Annotated[
    list[str],
    typer.Argument(
        metavar="PATTERN...",
        help="The services, topics or queues that it is for: CLASS/SERVER/SERVICE, topic/NAME, /queue/NAME, or broker "
        "for the broker itself. * stands for any characters.",
        show_default=False,
    ),
]


class RightName(StrEnum):
    """What a user may do."""

    SEND = "send"
    RECEIVE = "receive"
    LOOK = "look"
    ADMINISTER = "administer"


Which = Annotated[
    RightName,
    typer.Argument(
        metavar="RIGHT",
        help="What the user may do: send, receive, look at what waits, or administer (give commands, and look).",
    ),
]


@user.command(cls=Command)
def add(file: UsersFile, name: Name, as_json: options.AsJson = False) -> None:
    """Add a user, with a password that oms asks for, and no rights yet.

    oms makes the file if there is none. Without a terminal oms reads the password from the first line of standard
    input. Then give the user rights with `oms user allow`.
    """
    with _refusing():
        checked_name(name)
        if name in _users(file, is_new=True):
            raise Failure(f"there is a user {name} already; `oms user password` changes the password", ExitCode.NO)
        kept = _asked(name)
        _change(file, lambda users: {**users, name: User(name, kept)}, is_new=True)
    _say(f"{name} can log on, and may do nothing yet; `oms user allow {file} {name} …`", as_json, added=name)


@user.command(cls=Command)
def remove(file: UsersFile, name: Name, as_json: options.AsJson = False) -> None:
    """Remove a user. Its connections to a running server end within seconds."""
    with _refusing():
        _known(_users(file), name)
        _change(file, lambda users: {each: said for each, said in users.items() if each != name})
    _say(f"{name} cannot log on any more", as_json, removed=name)


@user.command(cls=Command)
def password(file: UsersFile, name: Name, as_json: options.AsJson = False) -> None:
    """Give a user another password, which oms asks for.

    Without a terminal oms reads it from the first line of standard input. A running server notices within seconds.
    """
    with _refusing():
        _known(_users(file), name)
        kept = _asked(name)
        _change(file, lambda users: {**users, name: replace(_known(users, name), password=kept)})
    _say(f"{name} has another password", as_json, changed=name)


@user.command(cls=Command)
def allow(file: UsersFile, name: Name, right: Which, patterns: Pattern, as_json: options.AsJson = False) -> None:
    """Allow a user to do something, on one or more patterns.

    If you have denied the same right on the same pattern before, oms takes the denial back. A running server notices
    within seconds.
    """
    _change_rights(file, name, right, patterns, is_allowed=True)
    _say(f"{name} may {right.value} {', '.join(patterns)}", as_json, user=name, allowed={right.value: patterns})


@user.command(cls=Command)
def deny(file: UsersFile, name: Name, right: Which, patterns: Pattern, as_json: options.AsJson = False) -> None:
    """Deny a user something, on one or more patterns.

    A denial wins over everything that is allowed. If you have allowed the same right on the same pattern before, oms
    takes that back. A running server notices within seconds.
    """
    _change_rights(file, name, right, patterns, is_allowed=False)
    _say(f"{name} may not {right.value} {', '.join(patterns)}", as_json, user=name, denied={right.value: patterns})


@user.command("list", cls=Command)
def list_users(file: UsersFile, as_json: options.AsJson = False) -> None:
    """List the users and their rights, and nothing of their passwords."""
    with _refusing():
        users = _users(file)
    if as_json:
        output.print_json({"users": [_shown(users[name]) for name in sorted(users)]})
        return
    rows = []
    for name in sorted(users):
        found = users[name]
        said = [(word, right, each) for word, right, each in _rows(found)]
        rows += [(name if not at else "", *row) for at, row in enumerate(said or [("may nothing", "", "")])]
    columns = (output.Column("user"), output.Column(""), output.Column("right"), output.Column("on", shrinks=True))
    output.print_table(columns, rows)


def _rows(found: User) -> Iterator[tuple[str, str, str]]:
    for word, patterns in (("may", found.allow), ("may not", found.deny)):
        for right, each in patterns.items():
            if each:
                yield word, right.value, ", ".join(each)


def _shown(found: User) -> Mapping[str, Any]:
    allowed, denied = (
        {right.value: list(each) for right, each in patterns.items() if each} for patterns in (found.allow, found.deny)
    )
    return {"user": found.name, "allow": allowed, "deny": denied}


def _say(text: str, as_json: bool, **facts: Any) -> None:
    if as_json:
        output.print_json(facts)
    else:
        output.print_line(text)


# The file.


@contextmanager
def _refusing() -> Iterator[None]:
    """Tell what is wrong with the file or the arguments as a failure of the command."""
    try:
        yield
    except UsersInvalid as invalid:
        raise Failure(str(invalid), ExitCode.UNUSABLE) from None
    except FileExistsError as failure:
        text = f"{failure.filename} is there: another `oms user` is at work, or was interrupted; then remove it"
        raise Failure(text, ExitCode.LOCKED) from None
    except ValueError as refused:
        raise Usage(str(refused)) from None


def _users(file: Path, *, is_new: bool = False) -> Users:
    return {} if is_new and not file.exists() else read_users(file)


def _known(users: Users, name: str) -> User:
    try:
        return users[name]
    except KeyError:
        raise Failure(f"there is no user {name}; `oms user list` shows who there is", ExitCode.NO) from None


def _change(file: Path, change: Callable[[Users], Users], *, is_new: bool = False) -> None:
    """Write what the change makes of the file as it is by now."""
    with rewriting(file) as write:
        write(change(_users(file, is_new=is_new)))


def _change_rights(file: Path, name: str, right: RightName, patterns: list[str], *, is_allowed: bool) -> None:
    with _refusing():
        wanted = [pattern_of(pattern) for pattern in patterns]

        def changed(users: Users) -> Users:
            found = _known(users, name)
            to, of = (found.allow, found.deny) if is_allowed else (found.deny, found.allow)
            to, of = _with(to, Right(right.value), wanted), _without(of, Right(right.value), wanted)
            allow, deny = (to, of) if is_allowed else (of, to)
            return {**users, name: replace(found, allow=allow, deny=deny)}

        _change(file, changed)


def _with(patterns: Patterns, right: Any, wanted: list[str]) -> Patterns:
    return {**patterns, right: tuple(dict.fromkeys([*patterns.get(right, ()), *wanted]))}


def _without(patterns: Patterns, right: Any, unwanted: list[str]) -> Patterns:
    return {**patterns, right: tuple(each for each in patterns.get(right, ()) if each not in unwanted)}


def _asked(name: str) -> PasswordHash:
    """Ask for a new password: twice at a terminal, else it is the first line of standard input."""
    if not sys.stdin.isatty():
        return hash_password(sys.stdin.readline().rstrip("\r\n"))
    first = getpass.getpass(f"Password of {name}: ")
    kept = hash_password(first)
    if getpass.getpass("The same again: ") != first:
        raise Failure("the two are not the same; nothing was changed", ExitCode.NO)
    return kept
