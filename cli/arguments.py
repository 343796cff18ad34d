"""Errors of a command line: each names the argument, what was expected, and what came.

What an argument may be is read where it is declared: in the annotations of the command's function. The library that
parses the line says only that something is wrong.
"""

import errno
import inspect
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from oms_journal.cli.failures import Failure, Usage, meaning

NUMBER_MAX = (1 << 63) - 1  # what a count, a message's number or a sequence can be
NEAR = 0.75  # so much of two options alike, of which one may be meant
SHOWN_MAX = 60  # characters of what came
_WORD = re.compile(r"[^\[\] .]+")  # the first of a metavar
_NEGATIVE = re.compile(r"-[0-9.]+")


class ArgumentKind(NamedTuple):
    """What an argument may be: a type, its bounds, and how the command names it."""

    name: str
    type: Any
    low: float | None = None
    high: float | None = None
    any_case: bool = False
    metavar: str = ""
    help: str = ""
    variable: str | None = None
    is_option: bool = True

    def fits(self, text: str) -> bool:
        """Say whether the text is a value of the kind."""
        if issubclass(self.type, Enum):
            said, values = (text.casefold(), str.casefold) if self.any_case else (text, str)
            return said in [values(str(one.value)) for one in self.type]
        if self.type is Path:
            return text.strip() != ""
        if self.type not in (int, float):
            return True
        try:
            value = self.type(text)
        except ValueError:
            return False
        return bool(self._low <= value <= self._high)  # which neither nan nor inf is

    @property
    def _low(self) -> float:
        return -NUMBER_MAX if self.low is None else self.low

    @property
    def _high(self) -> float:
        return NUMBER_MAX if self.high is None else self.high

    def expected(self, text: str) -> str:
        """Say what was expected where this text came."""
        if issubclass(self.type, Enum):
            return f"one of {', '.join(str(one.value) for one in self.type)}"
        if self.type is Path:
            return "a path"
        what = "a whole number" if self.type is int else "a number"
        if self.high is not None and self.low is not None:
            return f"{what} from {_digits(self.low)} to {_digits(self.high)}"
        if text.lstrip("+").isdecimal() and len(text) > len(str(NUMBER_MAX)) - 1:
            return f"{what} up to {NUMBER_MAX:,}"
        return f"{what} of at least {_digits(self.low)}" if self.low is not None else what

    def refusal(self, text: str, variable: str | None = None) -> str:
        """Say that the value is none of the kind."""
        name = f"{self.name} (from {variable})" if variable else self.name
        return f"{name} must be {self.expected(text)}, not {_came(text) if text else 'an empty text'}"

    def missing(self) -> str:
        """Say that there is no value."""
        return f"{self.name} is missing{self.about()}"

    def about(self) -> str:
        """Return what the help says of it, as the end of a sentence."""
        text = self.help.partition("  [")[0].removesuffix(".")
        is_name = text[1:2].isupper()  # the help begins with a word in capitals
        return f": {text if is_name else text[:1].lower() + text[1:]}" if text else ""


def _came(text: str) -> str:
    """Return what came, as far as a person wants to read it."""
    return repr(text) if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]!r}…"


def _digits(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) or not number.is_integer() else f"{int(number):,}"


class Command(TyperCommand):
    """A command whose line is refused in our words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return what is left of the line; Usage where something of it is wrong."""
        line = list(args)
        with _in_our_words(self, ctx, line):
            left = super().parse_args(ctx, args)
            if not ctx.resilient_parsing:
                _check_values(self, ctx, line)
        return left


class Group(TyperGroup):
    """A group of commands whose line is refused in our words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return what is left of the line; Usage where something of it is wrong."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            raise Usage(f"COMMAND is missing: one of {', '.join(self.commands)}{_see(ctx)}")
        with _in_our_words(self, ctx, list(args)):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the line; Usage where there is none of that name."""
        if args and args[0] not in self.commands and not ctx.resilient_parsing:
            near = get_close_matches(args[0], self.commands, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise Usage(f"there is no command {args[0]!r}{meant}{_see(ctx)}")
        return super().resolve_command(ctx, args)


@contextmanager
def _in_our_words(command: TyperCommand | TyperGroup, ctx: Any, line: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except typer.TyperException as wrong:
        raise _unreadable(wrong, command, ctx, line) or Usage(_text_of(wrong, command, ctx, line) + _see(ctx)) from None


def _unreadable(wrong: typer.TyperException, command: Any, ctx: Any, line: Sequence[str]) -> Failure | None:
    """Return what it means that a path is there and may not be read, as for any other; None where that is not it."""
    kind = _kinds(command).get(getattr(getattr(wrong, "param", None), "name", ""))
    if kind is None or kind.type is not Path:
        return None
    for found, text, _ in _values(command, ctx, line):
        if found == kind and os.access(text, os.F_OK) and not os.access(text, os.R_OK):
            return meaning(PermissionError(errno.EACCES, os.strerror(errno.EACCES), text))
    return None


def _see(ctx: Any) -> str:
    return f"; see `{ctx.command_path} --help`"


def _text_of(wrong: typer.TyperException, command: Any, ctx: Any, line: Sequence[str]) -> str:
    kinds = _kinds(command)
    kind = kinds.get(getattr(getattr(wrong, "param", None), "name", ""))
    option = getattr(wrong, "option_name", None)
    match type(wrong).__name__:
        case "NoSuchOption":
            return _no_option(str(option), kinds.values(), command, line)
        case "BadOptionUsage":
            return _misused(str(option), command, line)
        case "MissingParameter" if kind is not None:
            return kind.missing()
        case "BadParameter" if kind is not None:
            for found, text, variable in _values(command, ctx, line):
                if found == kind and not kind.fits(text):
                    return kind.refusal(text, variable)
        case "UsageError":
            if extra := _parsed(command, ctx, line)[1]:
                return f"there is no place for the argument {extra[0]!r}"
        case _:
            pass
    theirs: str = wrong.format_message()
    return theirs.removesuffix(".")


def _no_option(option: str, kinds: Iterable[ArgumentKind], command: Any, line: Sequence[str]) -> str:
    """Say that there is no such option: perhaps a negative number where a number goes."""
    came = next((text for text in line if text.startswith(option)), option).partition("=")[0]
    arguments = [kind for kind in kinds if not kind.is_option]
    number = next((kind for kind in arguments if kind.type is int), None)
    if _NEGATIVE.fullmatch(came) and number is not None:
        return number.refusal(came)
    near = get_close_matches(came, [name for param in command.params for name in param.opts], n=1, cutoff=NEAR)
    if near and near[0].startswith("-"):
        return f"there is no option {came!r}; did you mean {near[0]}?"
    article = "an" if arguments and arguments[0].metavar[0] in "AEIOU" else "a"
    behind = f"; {article} {arguments[0].metavar} that begins with - goes behind --" if arguments else ""
    return f"there is no option {came!r}{behind}"


def _misused(option: str, command: Any, line: Sequence[str]) -> str:
    """Say that an option has no value, or one that it does not take."""
    kinds = _kinds(command)
    kind = next((kinds.get(param.name) for param in command.params if option in param.opts), None)
    if kind is not None and kind.type is not bool:
        return f"{option} must be followed by {kind.metavar}, and nothing came{kind.about()}"
    came = next((text.partition("=")[2] for text in line if text.startswith(f"{option}=")), "")
    return f"{option} takes no value, and {came!r} came"


def _check_values(command: Any, ctx: Any, line: Sequence[str]) -> None:
    """Usage for values that can be parsed and mean nothing: a path without a name, a number without an end."""
    for kind, text, variable in _values(command, ctx, line):
        if not kind.fits(text):
            raise Usage(kind.refusal(text, variable) + _see(ctx))


def _values(command: Any, ctx: Any, line: Sequence[str]) -> Iterator[tuple[ArgumentKind, str, str | None]]:
    """Yield each value with its kind, and the variable of the environment that gave it."""
    found, _ = _parsed(command, ctx, line)
    for name, kind in _kinds(command).items():
        value, variable = found.get(name), None
        if value is None and kind.variable is not None:
            value, variable = os.environ.get(kind.variable) or None, kind.variable
        for text in value if isinstance(value, list | tuple) else [value]:
            if isinstance(text, str):
                yield kind, text, variable


def _parsed(command: Any, ctx: Any, line: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the texts of the line by the argument that they are for, and what is left over."""
    found, left, _ = command.make_parser(ctx).parse_args(args=list(line))
    return found, left


def _kinds(command: Any) -> dict[str, ArgumentKind]:
    """Return what each argument of the command may be, by its parameter's name."""
    if command.callback is None:
        return {}
    annotations = inspect.signature(inspect.unwrap(command.callback)).parameters
    params = {param.name: param for param in command.params}
    return {
        name: _kind(params[name], *get_args(said.annotation)[:2])
        for name, said in annotations.items()
        if name in params and len(get_args(said.annotation)) > 1
    }


def _kind(param: Any, annotation: Any, said: Any) -> ArgumentKind:
    plain = [one for one in get_args(annotation) if one is not type(None)] or [annotation]
    type_ = get_args(plain[0])[0] if get_origin(plain[0]) is list else plain[0]
    is_option = param.param_type_name == "option"
    word = _WORD.search(said.metavar or str(param.name).upper())
    assert word is not None, "a name has characters"
    name = max(param.opts, key=len) if is_option else word[0]
    return ArgumentKind(
        name,
        type_,
        low=said.min,
        high=said.max,
        any_case=not said.case_sensitive,
        metavar=word[0],
        help=said.help or "",
        variable=said.envvar,
        is_option=is_option,
    )
