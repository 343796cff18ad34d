"""The page on the command `oms`, made from the program itself: python -m tests.docs.reference.commands

What stands between its marks is made of the commands' help, arguments and options, and of the exit codes. The rest of
the page is written by hand.
"""

import inspect
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import typer

from oms_journal.cli import failures
from oms_journal.cli.failures import ExitCode
from oms_journal.cli.main import app
from tests.support.project import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "command.md"
SUBJECTS = {
    "Messages": ("send", "receive", "load", "list", "show", "delete", "drop", "release"),
    "What is there": ("stats", "explain", "verify", "dump", "export", "analyze"),
    "Repair and disk": ("recover", "cleanup", "io-test", "estimate"),
    "Backup": ("backup", "restore"),
    "A queue": ("queue",),
    "A broker": ("serve", "info", "cmd", "top", "user", "attributes"),
    "Demonstrations": ("demo", "chess"),
}
WHAT_TO_DO = {
    ExitCode.DONE: "Nothing.",
    ExitCode.NO: "Read the output: it is the answer.",
    ExitCode.USAGE: "Read the line on standard error. It names the argument, what was expected, and what came.",
    ExitCode.LOCKED: "Stop the other process, or wait for it with `--wait SECONDS`. `list`, `show`, `dump`, `stats`, "
    "`explain` and `verify` need no lock. After `oms serve`: another broker has taken the store over.",
    ExitCode.UNUSABLE: "Read the line on standard error. It says why, and what helps. `oms verify` shows damage.",
    ExitCode.BUG: "Report it, with the traceback.",
    ExitCode.HUNG_UP: "What was acknowledged is durable. Start it again.",
    ExitCode.INTERRUPTED: "What was acknowledged is durable. Start it again.",
    ExitCode.PIPE_CLOSED: "Nothing, if you closed the pipe, as `head` does.",
    ExitCode.TERMINATED: "What was acknowledged is durable. Start it again.",
}


def parts() -> dict[str, str]:
    """Return what should stand between the marks of each name."""
    return {
        "exit-codes": _table(("exit code", "means", "what to do"), _exit_codes()),
        "errors": _table(("error", "exit code", "what to do"), _errors()),
        "commands": "\n\n".join(_overview()),
        "variables": _table(("variable", "instead of", "of"), _variables()),
        "details": "\n\n".join(_details()),
    }


def found(name: str) -> str:
    """Return what stands in the page between two marks."""
    begin, end = _marks(name)
    return PAGE.read_text(encoding="utf-8").split(begin)[1].split(end)[0].strip()


def write() -> None:
    """Put all parts into the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, part in parts().items():
        begin, end = _marks(name)
        before, behind = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n\n{part}\n\n{end}{behind}"
    PAGE.write_text(text, encoding="utf-8")


def commands() -> dict[str, Any]:
    """Return every command that does something, by what is typed: those of a group as `user add`."""
    found: dict[str, Any] = {}
    group = typer.main.get_command(app)
    for name in group.list_commands(None):  # type: ignore[attr-defined]
        context = group.commands[name].make_context(name, [], resilient_parsing=True)  # type: ignore[attr-defined]
        command: Any = context.command  # imported by now
        below = getattr(command, "commands", None)
        found |= {name: command} if below is None else {f"{name} {each}": below[each] for each in below}
    return found


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}:begin -->", f"<!-- {name}:end -->"


def _exit_codes() -> Iterator[Sequence[str]]:
    told = dict(re.findall(r"^ {4}(\d+) +(.+)$", failures.__doc__ or "", re.MULTILINE))
    for code in ExitCode:
        yield str(int(code)), told[str(int(code))], WHAT_TO_DO[code]


def _errors() -> Iterator[Sequence[str]]:
    for kind, code, advice in failures._MEANING:
        yield f"`{kind.__name__}`", str(int(code)), _sentence(advice)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _overview() -> Iterator[str]:
    every = commands()
    for subject, names in SUBJECTS.items():
        rows = [
            (f"[`oms {name}`](#{_anchor(name)})", _paragraphs(command)[0])
            for name, command in every.items()
            if name.split()[0] in names
        ]
        yield f"**{subject}**"
        yield _table(("command", "does"), sorted(rows, key=lambda row: names.index(re.split(r"[ `]", row[0])[2])))


def _anchor(name: str) -> str:
    return f"oms-{name.replace(' ', '-')}"


def _variables() -> Iterator[Sequence[str]]:
    uses: dict[tuple[str, str], list[str]] = {}
    for name, command in commands().items():
        for parameter in command.params:
            if isinstance(parameter.envvar, str):
                uses.setdefault((parameter.envvar, _long(parameter)), []).append(f"`{name}`")
    for (variable, option), names in sorted(uses.items()):
        yield f"`{variable}`", f"`{option}`", ", ".join(names)


def _long(parameter: Any) -> str:
    return str(parameter.opts[0] if parameter.param_type_name == "option" else parameter.opts[0].upper())


def _details() -> Iterator[str]:
    every = commands()
    for names in SUBJECTS.values():
        for first in names:
            for name, command in every.items():
                if name.split()[0] == first:
                    yield from _detail(name, command)


def _detail(name: str, command: Any) -> Iterator[str]:
    yield f"### oms {name}"
    context = command.make_context(name, [], resilient_parsing=True)
    arguments = [each for each in command.params if each.param_type_name == "argument" and not each.hidden]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    names = " ".join(_placed(each, context) for each in arguments)
    yield f"```text\noms {name} [OPTIONS] {names}".rstrip() + "\n```"
    yield from _paragraphs(command)
    if arguments:
        yield _table(("argument", "is", "default"), (_row(each, context) for each in arguments))
    yield _table(("option", "does", "default"), (_row(each, context) for each in options))


def _paragraphs(command: Any) -> list[str]:
    """Return the help's paragraphs; what is drawn there in columns stays as it is."""
    found = []
    for text in inspect.cleandoc(command.help or "").split("\n\n"):
        if "\b" in text:
            found.append(f"```text\n{inspect.cleandoc(text.replace(chr(8), '').strip(chr(10)))}\n```")
        elif text.strip():
            found.append(" ".join(text.split()))
    return found


def _row(parameter: Any, context: Any) -> Sequence[str]:
    said, hint = _split(parameter.help or "")
    notes = []
    if getattr(parameter, "min", None) is not None or getattr(parameter, "max", None) is not None:
        notes.append(_bounds(parameter.min, parameter.max))
    if parameter.multiple and "again" not in said:
        notes.append("may be given several times")
    if isinstance(parameter.envvar, str):
        notes.append(f"or `{parameter.envvar}`")
    text = " ".join([said, *(f"({note})" for note in notes)])
    return f"`{_typed(parameter, context)}`", text, hint or _default(parameter)


def _typed(parameter: Any, context: Any) -> str:
    record = parameter.get_help_record(context)
    assert record is not None
    typed = re.sub(r"<list\[(.+)\]>", r"<\1>", re.sub(r" <[^|>]+>$", "", record[0]))  # of types choices alone
    return f"{typed}..." if parameter.nargs == -1 and not typed.endswith("...") else typed


def _placed(argument: Any, context: Any) -> str:
    """Return an argument as it stands in the command's line: in brackets where it may be left out."""
    typed = _typed(argument, context)
    return typed if argument.required or typed.startswith("[") else f"[{typed}]"


def _split(text: str) -> tuple[str, str]:
    """Return what a help says, and the default that it says in brackets."""
    matched = re.fullmatch(r"(.*?)  \[(?:default: )?(.*)\]", text, re.DOTALL)
    return (matched[1], matched[2]) if matched else (text, "")


def _bounds(low: float | None, high: float | None) -> str:
    if high is None:
        return f"at least {low:,}"
    return f"at most {high:,}" if low is None else f"{low:,} to {high:,}"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default is False or default in ((), [], ""):
        return ""
    if isinstance(default, Enum):
        default = default.value
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def _table(heads: Sequence[str], rows: Any) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


if __name__ == "__main__":
    write()
