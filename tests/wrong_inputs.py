"""Wrong inputs: a command line or a call that is refused, what its text must name, and what no text may have.

A row of `COMMANDS` is a command line; a row of `CALLS` a call of the library. `faults_of` holds any text against the
rules, so that whatever tells people something can be tested like them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from database import DatabaseView, MessageDatabase

LINES_MAX = 3
CHARACTERS_MAX = 420

# What no text for people has, and whose words it would be.
FORBIDDEN: Mapping[str, str] = {
    r"Traceback": "the interpreter's",
    r"\.py\b": "a file of ours",
    r"\bErrno\b": "the system's numbers",
    r"<class|<function|object at 0x|NoneType": "the interpreter's names",
    r"__\w+__|\bargument of type\b|positional argument|unexpected keyword": "the interpreter's words",
    r"Usage:|Invalid value|Missing (argument|option|parameter|command)|[Nn]o such option": "typer's",
    r"valid (integer|float)": "typer's",
    r"unexpected extra argument|requires an argument|does not take a value|is not in the range": "typer's",
    r"╭|╰|│": "a box",
    r"omsmsg\.\w+|\.new\b": "a file that nobody can act on",
    r"codec can't|invalid literal|out of range\b.*list": "the interpreter's words",
}


def faults_of(text: str, named: tuple[str, ...]) -> list[str]:
    """Return how a text breaks the rules; `named` is what it must name: the argument, and what came."""
    lines = text.rstrip("\n").split("\n")
    found = [
        f"has {whose} words: {hit[0]!r}" for pattern, whose in FORBIDDEN.items() if (hit := re.search(pattern, text))
    ]
    found += [f"does not name {what!r}" for what in named if what not in text]
    if not text.strip():
        found.append("says nothing")
    if len(lines) > LINES_MAX or len(text) > CHARACTERS_MAX:
        found.append(f"is {len(lines)} lines of {len(text)} characters")
    return found


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, with {places}: none, empty, file, binary, other, spool, retained and out."""

    line: tuple[str, ...]
    named: tuple[str, ...]
    code: int = 2
    stdin: bytes = b""
    variables: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        variables = [f"{name}={value}" for name, value in self.variables.items()]
        return " ".join([*variables, "oms", *(word or "''" for word in self.line)])


def _of(line: str, *named: str, code: int = 2, stdin: bytes = b"", **variables: str) -> Command:
    """Return a row; in the line a word of '' is an empty one."""
    words = tuple("" if word == "''" else word for word in line.split())
    return Command(words, named, code, stdin, variables)


# Every command that looks at a directory says so where there is no database, and where there is nothing at all.
LOOKING = (
    *("verify", "list", "list q", "list --held", "show 1", "stats", "explain", "dump", "recover -n", "recover"),
    *("cleanup", "cleanup --dry-run", "receive q", "receive q --peek", "receive q --follow", "release --all --yes"),
    *("delete 1 --yes", "delete --queue q --yes", "drop k --yes", "export --parquet {out}", "backup {out}"),
)
_NO_DATABASE = tuple(
    _of(f"{line} --spool {{{place}}}", says, f"{{{place}}}", "--spool")
    for line in LOOKING
    for place, says in (
        ("empty", "holds no message database"),
        ("other", "holds no message database"),
        ("none", "does not exist"),
        ("file", "is not a directory"),
    )
)
_EMPTY_SPOOL = tuple(_of(f"{line} --spool ''", "--spool", "a path", "empty") for line in LOOKING)

_COUNTS = (
    *(_of(f"show {text}", "NUMBER", text) for text in ("abc", "-1", "-12", "0", "1.5", "9" * 30)),
    *(_of(f"delete {text} --yes --spool {{spool}}", "NUMBER", text) for text in ("abc", "-5", "0")),
    *(_of(f"release {text} --yes --spool {{spool}}", "NUMBER", text) for text in ("x", "-5")),
    *(_of(f"list q --limit {text}", "--limit", text) for text in ("x", "-1", "9" * 20)),
    *(_of(f"receive q --count {text}", "--count", text) for text in ("x", "0", "-3", "9" * 20)),
    *(_of(f"receive q --batch {text}", "--batch", text) for text in ("x", "0")),
    *(_of(f"load {{file}} -q q --batch {text}", "--batch", text) for text in ("0", "1000001", "x")),
    *(_of(f"load {{file}} -q q --skip {text}", "--skip", text) for text in ("-1", "x", "9" * 20)),
    *(_of(f"dump --from {text}", "--from", text) for text in ("0", "x")),
    _of(f"show {'9' * 400}", "NUMBER", "9" * 60),
    _of(f"show {'9' * 5000}", "NUMBER", "9" * 60),
    _of("dump --to -1", "--to", "-1"),
    _of("estimate --uows many --size 1K", "--uows", "many"),
    _of("estimate --uows 5 --size 1K --messages 0", "--messages", "0"),
    _of("estimate --uows 5 --size 1K --statuses -1", "--statuses", "-1"),
    _of("chess --kills 1001", "--kills", "1001", "1,000"),
    _of("chess --seed x", "--seed", "x"),
    _of("demo --flights 5", "--flights", "5"),
    _of("demo --rounds 0", "--rounds", "0"),
    _of("long-uow --pages 3", "--pages", "3"),
    _of("serve --stomp-port 70000", "--stomp-port", "70000", "65,535"),
    _of("serve --http-port x", "--http-port", "x"),
    _of("info --limit 0", "--limit", "0"),
    _of("top --interval x", "--interval", "x"),
)
_SECONDS = (
    *(_of(f"send q x --wait {text}", "--wait", text) for text in ("x", "-1", "nan", "inf", "1e999")),
    *(_of(f"receive q --timeout {text}", "--timeout", text) for text in ("soon", "-0.5", "nan")),
    *(_of(f"io-test {{empty}} --seconds {text}", "--seconds", text) for text in ("0", "3601", "nan")),
    *(_of(f"backup {{out}} --follow --interval {text}", "--interval", text) for text in ("0", "x", "inf", "1e300")),
    _of("estimate --uows 5 --size 1K --rate -1", "--rate", "-1"),
)
_SIZES = (
    *(
        _of(f"load {{file}} -q q --max-data-file-size {text}", "--max-data-file-size", text)
        for text in ("x", "-5", "1K")
    ),
    *(_of(f"send q x --max-message-size {text}", "--max-message-size", text) for text in ("x", "0", "2G")),
    _of("io-test {empty} --bytes much", "--bytes", "much"),
    _of("io-test {empty} --bytes 5", "--bytes", "5"),
    _of("io-test {empty} --max-data-file-size 3", "--max-data-file-size", "3"),
    _of("estimate --uows 5 --size huge", "--size", "huge"),
    _of("send q x", "MAX_MESSAGE_SIZE", "abc", MAX_MESSAGE_SIZE="abc"),
    _of("delete 1 --yes --spool {spool}", "MAX_DATA_FILE_SIZE", "12", MAX_DATA_FILE_SIZE="12"),
    _of("cleanup --spool {spool}", "MSG_CLEANUP_INTERVAL", "often", MSG_CLEANUP_INTERVAL="often"),
    _of("cleanup --spool {spool}", "RETENTION_AGE", "-1d", RETENTION_AGE="-1d"),
    _of("cleanup --spool {spool}", "RETENTION_BYTES", "lots", RETENTION_BYTES="lots"),
    _of("cleanup --spool {spool} --retention-directory ''", "--retention-directory", "a path", "empty"),
)
_AGES = (
    _of("delete --queue q --older 5x --yes --spool {spool}", "--older", "5x"),
    _of("delete --queue q --older -5 --yes --spool {spool}", "--older", "-5"),
    _of("release --newer long --yes --spool {spool}", "--newer", "long"),
    _of("analyze {spool} --out {out} --since yesterday", "--since", "yesterday"),
    _of("analyze {spool} --out {out} --until 2026-13-01", "--until", "2026-13-01"),
)
_WORDS = (
    _of("recover --policy soft --spool {spool}", "--policy", "soft", "salvage"),
    _of("recover --policy SALVAGE --spool {spool}", "--policy", "SALVAGE", "salvage"),
    _of("recover --validation some --spool {spool}", "--validation", "some", "footers"),
    _of("load {file} -q q --format xml", "--format", "xml", "ndjson"),
    _of("dump --operation TAKE", "--operation", "TAKE", "DELIVER"),
    _of("chess green", "SIDE", "green", "white"),
    _of("chess white e9 --spool {empty}", "e9"),
    _of("user allow {file} USER fly x", "RIGHT", "fly", "send"),
    _of("serve --run-mode FAST", "RUN-MODE", "FAST", "STANDBY"),
    _of("info --broker somewhere", "--broker", "somewhere"),
    _of("cmd PING --broker ftp://x", "--broker", "ftp://x"),
    _of("send q x --broker somewhere", "--broker", "somewhere"),
    _of("send q x --property color", "--property", "color"),
    _of("send q x --property =red", "--property", "=red"),
    _of("lst", "lst", "list"),
    _of("''", "''"),
    _of("user", "COMMAND", "add"),
    _of("user ad", "ad", "add"),
    _of("list --limitt 3", "--limitt", "--limit"),
    _of("list -z", "-z"),
    _of("--verbose list", "--verbose"),
    _of("send q -x", "-x", "--"),
    _of("list --limit", "--limit", "N"),
    _of("verify --spool", "--spool", "DIR"),
    _of("list --json=yes", "--json", "yes"),
    _of("show 1 2", "2"),
    _of("verify {spool}", "{spool}"),
)
_MISSING = (
    _of("send", "QUEUE"),
    _of("receive", "QUEUE"),
    _of("show", "NUMBER"),
    _of("drop", "KEY"),
    _of("load", "FILE"),
    _of("load {file}", "--queue"),
    _of("backup", "DEST"),
    _of("restore", "BACKUP"),
    _of("io-test", "DIR"),
    _of("analyze", "PATH"),
    _of("analyze {spool}", "--out"),
    _of("export", "--parquet"),
    _of("estimate", "--uows"),
    _of("user add", "FILE"),
    _of("user allow {file} USER", "RIGHT"),
    _of("delete", "--queue"),
    _of("release", "--all"),
    _of("chess white", "--spool"),
    _of("send q", "standard input", "--empty"),
    _of("send q ''", "TEXT", "--empty"),
)
_FILES = (
    _of("load {none} -q q", "{none}"),
    _of("load {empty} -q q", "{empty}"),
    _of("load '' -q q", "FILE"),
    _of("load {binary} -q q --format ndjson", "line 1", "UTF-8"),
    _of("load {file} -q q --format csv", "line 2", "fields"),
    _of("load {file} --format envelope", "line 1", "JSON"),
    _of("dump {none}", "{none}", "PATH"),
    _of("dump {other}", "{other}", "PATH"),
    _of("dump {file}", "{file}"),
    _of("dump ''", "PATH"),
    _of("analyze {none} --out {out}", "{none}", "PATH"),
    _of("analyze {other} --out {out}", "{other}", "PATH"),
    _of("analyze {empty} --out {out}", "{empty}", "PATH"),
    _of("analyze {file} --out {out}", "{file}", "PATH"),
    _of("analyze {spool} --out {other}", "{other}", "--out"),
    _of("export {none} --parquet {out}", "{none}", "PATH"),
    _of("export {other} --parquet {out}", "{other}", "PATH"),
    _of("release --except {none} --yes --spool {spool}", "--except", "{none}"),
    _of("release --except {binary} --yes --spool {spool}", "--except", "{binary}", "UTF-8"),
    _of("release --except - --yes --spool {spool}", "--except", "standard input"),
    _of("attributes {none}", "{none}"),
    _of("attributes {empty}", "{empty}"),
    _of("attributes {file}", "{file}", "no attribute file"),
    _of("attributes {binary}", "{binary}", "UTF-8"),
    _of("serve {none}", "{none}"),
    _of("serve {file}", "{file}", "no attribute file"),
    _of("chess --pgn {none}", "--pgn", "{none}"),
    _of("chess --pgn {file}", "--pgn", "{file}"),
    _of("io-test {none}", "DIR", "{none}"),
    _of("io-test {file}", "DIR", "{file}"),
    _of("backup --verify {other}", "{other}"),
    _of("backup --verify {none}", "{none}"),
    _of("demo --spool {other} --no-report", "--spool", "{other}"),
    _of("demo --report {other} --spool {out}", "--report", "{other}"),
    _of("long-uow --spool {other}", "--spool", "{other}"),
    _of("chess --spool {other}", "--spool", "{other}"),
    _of("chess white e4 --spool {other}", "--spool", "{other}"),
    _of("chess black --spool {empty}", "{empty}"),
    _of("send q x --spool {other}", "{other}", "--create", "notes.txt"),
    _of("load {file} -q q --spool {other}", "{other}", "--create", "notes.txt"),
    _of("serve --spool {other} --http-port 0 --stomp-port 0", "{other}", "--create", "notes.txt"),
    _of("send q x --spool {file}", "{file}", "--spool"),
    _of("show 1 --spool {spool}", "number 1", code=1),
)
_CONFLICTS = (
    _of("dump --payload --redact", "--payload", "--redact"),
    _of("delete 1 --queue q", "--queue"),
    _of("delete --older 5m", "--older", "--queue"),
    _of("release 1 --all", "--all"),
    _of("release --by number --all", "--by", "--except"),
    _of("release --by color --except {file} --yes --spool {spool}", "--by", "color"),
    _of("release --except {file} --discard", "--except", "--discard"),
    _of("backup {out} --follow --reread --spool {spool}", "--reread", "--follow"),
    _of("chess white --kills 3 --spool {empty}", "--kills"),
    _of("send q x --broker http://127.0.0.1:1 --wait 3", "--wait", "--broker"),
    _of("send q x --broker http://127.0.0.1:1 --create", "--create", "--broker"),
    _of("receive q --broker http://127.0.0.1:1 --peek", "--peek", "--broker"),
    _of("send q x --empty", "--empty", "TEXT"),
    _of("serve --create --run-mode PSTORE-LOAD --partner x:1", "--create", "PSTORE-LOAD"),
    _of("delete 1 --spool {spool}", "--yes"),
    _of("analyze {spool} --out {out} --since 2026-02-01 --until 2026-01-01", "--since", "--until"),
    _of("info --broker http://127.0.0.1:1", "127.0.0.1:1", code=4),
    _of("send q x --broker http://127.0.0.1:1", "127.0.0.1:1", code=4),
    _of(f"send {'q' * 256} x", "queue", "255"),
    _of("send '' x", "queue", "255"),
    _of(f"send q x --producer-id {'p' * 256}", "255"),
    _of("send q 123456 --max-message-size 5", "5"),
    _of("send q --max-message-size 5", "5", "--max-message-size", stdin=b"123456"),
)

COMMANDS = (
    *_NO_DATABASE,
    *_EMPTY_SPOOL,
    *_COUNTS,
    *_SECONDS,
    *_SIZES,
    *_AGES,
    *_WORDS,
    *_MISSING,
    *_FILES,
    *_CONFLICTS,
)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the library with an open database of its own, what it raises, and what the text must name."""

    name: str
    call: Callable[[MessageDatabase, Path], object]  # the database, and a directory for more
    raises: type[Exception]
    named: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


def _at(directory: object, raises: type[Exception], *named: str) -> tuple[Call, ...]:
    """Return what it is to open this for writing, and for looking."""
    return (
        Call(f"open({directory!r})", lambda _, __: MessageDatabase.open(directory), raises, named),  # type: ignore[arg-type]
        Call(f"view({directory!r})", lambda _, __: DatabaseView.open(directory), raises, named),  # type: ignore[arg-type]
    )


CALLS: tuple[Call, ...] = (
    *_at("", ValueError, "directory", "empty"),
    *_at(b"", TypeError, "directory", "bytes"),
    *_at(b"spool", TypeError, "directory", "bytes"),
    *_at(None, TypeError, "directory", "None"),
    *_at(5, TypeError, "directory", "int"),
    *_at("a\0b", ValueError, "directory", "NUL"),
)
