"""Wrong inputs: a command line or a call that is refused, what its text must name, and what no text may have.

A row of `COMMANDS` is a command line; a row of `CALLS` a call of the library. `faults_of` holds any text against the
rules, so that whatever tells people something can be tested like them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from oms_journal import (
    AsyncMessageDatabase,
    DatabaseView,
    DiskError,
    InvalidName,
    LimitExceeded,
    MessageDatabase,
    NoSuchMessage,
    NotServed,
    NotUndelivered,
    OutsideBlock,
    SocketRefused,
    back_up,
    connect_queue,
    serve_queue,
)
from oms_journal.database.backup.restore import restore

LINES_MAX = 3
CHARACTERS_MAX = 420

# What no text for people has, and whose words it would be.
FORBIDDEN: Mapping[str, str] = {
    r"Traceback": "the interpreter's",
    r"\.py\b": "a file of ours",
    r"\bErrno\b": "the system's numbers",
    r"<class|<function|object at 0x|NoneType": "the interpreter's names",
    r"__\w+__|\bargument of type\b|positional argument|unexpected keyword": "the interpreter's words",
    r"Usage:|Invalid value(:| for ['\"-])|Missing (argument|option|parameter|command)|[Nn]o such option": "typer's",
    r"valid (integer|float)": "typer's",
    r"unexpected extra argument|requires an argument|does not take a value|is not in the range": "typer's",
    r"╭|╰|│": "a box",
    r"omsmsg\.\w+|\.new\b": "a file that nobody can act on",
    r"codec can't|invalid literal|out of range\b.*list": "the interpreter's words",
    r"embedded null|not a valid \w+$|could not be cast|nonnumeric port|bytearray\(|enclosed in double": "another's",
    r"_ssl\.c|\[SSL|\[X509|Remote end closed|Server disconnected|illegal status": "a library's",
    r"connection attempts failed|Not Found|Method Not Allowed": "a library's",
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
    *(
        Command((*line.split(), "--spool", " "), ("--spool", "a path", "' '"), 2, b"", {})
        for line in ("list", "send q x", "recover")
    ),
    _of("cleanup --spool {spool} --retention-directory ''", "--retention-directory", "a path", "empty"),
)
_AGES = (
    _of("delete --queue q --older 5x --yes --spool {spool}", "--older", "5x"),
    _of("delete --queue q --older -5 --yes --spool {spool}", "--older", "-5"),
    _of("release --newer long --yes --spool {spool}", "--newer", "long"),
    _of("analyze {spool} --out {out} --since yesterday", "--since", "yesterday"),
    _of("analyze {spool} --out {out} --until 2026-13-01", "--until", "2026-13-01"),
    _of("analyze {spool} --out {out} --engine local --since yesterday", "--since", "yesterday"),
)
_WORDS = (
    _of("recover --policy soft --spool {spool}", "--policy", "soft", "salvage"),
    _of("recover --policy SALVAGE --spool {spool}", "--policy", "SALVAGE", "salvage"),
    _of("recover --validation some --spool {spool}", "--validation", "some", "footers"),
    _of("load {file} -q q --format xml", "--format", "xml", "ndjson"),
    _of("analyze {spool} --out {out} --engine duckdb", "--engine", "duckdb", "local"),
    _of("dump --operation TAKE", "--operation", "TAKE", "DELIVER"),
    _of("chess green", "SIDE", "green", "white"),
    _of("chess white e9 --spool {empty}", "e9"),
    _of("user allow {file} USER fly x", "RIGHT", "fly", "send"),
    _of("serve --run-mode FAST", "--run-mode", "FAST", "STANDBY"),
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
    _of("analyze {none} --out {out} --engine local", "{none}", "PATH"),
    _of("analyze {spool} --out {out} --engine local --compare-with {empty}", "--compare-with", "--engine local"),
    _of("analyze {spool} --out {out} --engine local --master local[1]", "--master", "--engine local"),
    _of("export {none} --parquet {out}", "{none}", "PATH"),
    _of("export {other} --parquet {out}", "{other}", "PATH"),
    _of("export {spool} --parquet {spool}", "{spool}", "data files"),
    _of("export {spool} --parquet ''", "--parquet"),
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
    _of("queue serve", "SPOOL"),
    _of("queue take", "take"),
    _of("queue requeue", "DEAD-QUEUE"),
    _of("queue requeue dead first --spool {spool}", "NUMBER", "first"),
    _of("queue requeue dead --spool {file}", "{file}", "not a directory"),
    _of("queue serve {file}", "{file}", "not a directory"),
    _of("queue serve {spool} --socket ''", "--socket", "a path"),
    _of(f"queue serve {{spool}} --socket /{'x' * 120}", "121", "x" * 120),
    _of("queue serve {spool} --socket {file}", "{file}", "not a socket", code=4),
    _of("queue serve {spool} --wait -1", "--wait", "-1"),
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


def _at_socket(db: MessageDatabase, _: Path, *, serving: bool, path: Any) -> object:
    return serve_queue(db, path) if serving else connect_queue(path)


def _open_a_file(place: Path) -> object:
    place.mkdir(exist_ok=True)
    (place / "notes").write_text("not a directory")
    return MessageDatabase.open(place / "notes")


def _at(directory: object, raises: type[Exception], *named: str) -> tuple[Call, ...]:
    """Return what it is to open this for writing, and for looking."""
    return (
        Call(f"open({directory!r})", lambda _, __: MessageDatabase.open(directory), raises, named),  # type: ignore[arg-type]
        Call(f"view({directory!r})", lambda _, __: DatabaseView.open(directory), raises, named),  # type: ignore[arg-type]
        Call(f"back_up to {directory!r}", lambda db, _: back_up(db.directory, directory), raises, named),  # type: ignore[arg-type]
        Call(f"restore into {directory!r}", lambda _, place: restore(place, directory), raises, named),  # type: ignore[arg-type]
    )


def _of_type(name: str, call: Callable[[Any], object], *named: str, raises: type[Exception] = TypeError) -> Call:
    """Return a call with an argument of a wrong type, or of another wrong kind; it is given the database."""
    return Call(name, lambda db, _: call(db), raises, named)


def _in_block(call: Callable[[Any], object]) -> Callable[[Any], object]:
    def entered(db: MessageDatabase) -> None:
        with db.commit() as block:
            call(block)

    return entered


_TYPES: tuple[Call, ...] = (
    _of_type("add a number", lambda db: db.add("q", 5), "payload", "int 5"),
    _of_type("add text", lambda db: db.add("q", "text"), "payload", "str 'text'", "encode"),
    _of_type("add to a number", lambda db: db.add(5, b""), "queue", "int 5"),
    _of_type("add to nobody", lambda db: db.add(None, b""), "queue", "None"),
    _of_type("add to a list", lambda db: db.add(["q"], b""), "queue", "list"),
    _of_type("add to bytes", lambda db: db.add(b"q", b""), "queue", "bytes b'q'"),
    _of_type("add to ''", lambda db: db.add("", b""), "queue name", "empty", raises=InvalidName),
    _of_type("a long queue", lambda db: db.add("q" * 256, b""), "queue name", "255", "256", raises=InvalidName),
    _of_type("a lone surrogate", lambda db: db.add("\ud800", b""), "queue name", raises=InvalidName),
    _of_type("a large payload", lambda db: db.add("q", bytes(7_000_000)), "7000000", "6144000", raises=LimitExceeded),
    _of_type("properties as a list", lambda db: db.add("q", b"", properties=["a"]), "properties", "list"),
    _of_type("properties as text", lambda db: db.add("q", b"", properties=""), "properties", "str ''"),
    _of_type("properties of numbers", lambda db: db.add("q", b"", properties={"a": 1}), "properties", "int 1"),
    _of_type("properties by numbers", lambda db: db.add("q", b"", properties={1: "a"}), "properties", "int 1"),
    _of_type(
        "large properties",
        lambda db: db.add("q", b"", properties={"a": "b" * 65_000, "c": "d" * 999}),
        "properties",
        "65536",
        raises=LimitExceeded,
    ),
    _of_type("a number as identifier", lambda db: db.add("q", b"", producer_id=5), "producer_id", "int 5"),
    _of_type(
        "'' as identifier", lambda db: db.add("q", b"", producer_id=""), "producer identifier", raises=InvalidName
    ),
    _of_type("many in bytes", lambda db: db.add_many("q", b"abc"), "payloads", "iterable", "bytes b'abc'"),
    _of_type("many in text", lambda db: db.add_many("q", "abc"), "payloads", "iterable", "str 'abc'"),
    _of_type("many in a number", lambda db: db.add_many("q", 5), "payloads", "iterable", "int 5"),
    _of_type("many in a mapping", lambda db: db.add_many("q", {b"a": b"b"}), "payloads", "iterable", "dict"),
    _of_type("one of many wrong", lambda db: db.add_many("q", [b"a", 5]), "payloads[1]", "int 5"),
    _of_type("one of many texts", lambda db: db.add_many("q", [b"a"], properties=["a"]), "properties[0]", "str 'a'"),
    _of_type("one mapping for many", lambda db: db.add_many("q", [b"a"], properties={"a": "b"}), "properties", "dict"),
    _of_type(
        "fewer properties",
        lambda db: db.add_many("q", [b"a", b"b"], properties=[None]),
        "payloads has 2",
        "properties has 1",
        raises=ValueError,
    ),
    _of_type("deliver a float", lambda db: db.deliver(1.0), "number", "float 1.0"),
    _of_type("deliver text", lambda db: db.deliver("1"), "number", "str '1'"),
    _of_type("deliver True", lambda db: db.deliver(True), "number", "bool True"),
    _of_type("delete None", lambda db: db.delete(None), "number", "None"),
    _of_type("release text", lambda db: db.release("1"), "number", "str '1'"),
    _of_type("read a float", lambda db: db.read(1.5), "number", "float 1.5"),
    _of_type("read what is not there", lambda db: db.read(7), "7", raises=NoSuchMessage),
    _of_type("deliver many of text", lambda db: db.deliver_many("12"), "numbers", "iterable", "str '12'"),
    _of_type("deliver many of a number", lambda db: db.deliver_many(12), "numbers", "iterable", "int 12"),
    _of_type("delete many, one wrong", lambda db: db.delete_many([1, "2"]), "numbers[1]", "str '2'"),
    _of_type("unhold text", lambda db: db.unhold("1"), "numbers", "str '1'"),
    _of_type("discard None", lambda db: db.discard_held([None]), "numbers[0]", "None"),
    _of_type("take None", lambda db: db.take(None), "queue", "None"),
    _of_type("take a number", lambda db: db.take(5), "queue", "int 5"),
    _of_type("take ''", lambda db: db.take(""), "queue name", raises=InvalidName),
    _of_type("look at a number", lambda db: db.undelivered(5), "queue", "int 5"),
    _of_type("count bytes", lambda db: db.undelivered_count(b"q"), "queue", "bytes b'q'"),
    _of_type("numbers of a number", lambda db: db.numbers(5), "queue", "int 5"),
    _of_type("held of a number", lambda db: db.held(5), "queue", "int 5"),
    _of_type("keys of a number", lambda db: db.keys(5), "prefix", "int 5"),
    _of_type("get a number", lambda db: db.get(5), "key", "int 5"),
    _of_type("put text", lambda db: db.put("k", "v"), "value", "str 'v'"),
    _of_type("put too much", lambda db: db.put("k", bytes(70_000)), "value", "70000", "65536", raises=LimitExceeded),
    _of_type("put an engine's key", lambda db: db.put("\0k", b""), "keys", "engine", raises=InvalidName),
    _of_type("drop None", lambda db: db.drop(None), "key", "None"),
    _of_type("compact no", lambda db: db.cleanup(compact="no"), "compact", "str 'no'"),
    _of_type("a dry run of 1", lambda db: db.cleanup(dry_run=1), "dry_run", "int 1"),
    _of_type("a commit by a number", lambda db: db.commit(producer_id=5), "producer_id", "int 5"),
    _of_type("a block before it", lambda db: db.commit().add("q", b""), "commit block", "entered", raises=OutsideBlock),
    _of_type("a block's number", _in_block(lambda block: block.deliver("1")), "number", "str '1'"),
    _of_type("a block's missing", _in_block(lambda block: block.deliver(9)), "message 9", raises=NotUndelivered),
    _of_type("a block's places", _in_block(lambda block: block.put("k", b"", numbers_at=[8])), "numbers_at", "list"),
    _of_type("a constructor", lambda db: MessageDatabase(db.directory), "MessageDatabase.open"),
    _of_type("an asyncio constructor", lambda db: AsyncMessageDatabase("x"), "AsyncMessageDatabase.open"),  # type: ignore[arg-type]
    _of_type("wrapped text", lambda db: AsyncMessageDatabase.wrap("x"), "database", "str 'x'"),  # type: ignore[arg-type]
    *(
        Call(f"{name}={value!r}", lambda _, at, n=name, v=value: MessageDatabase.open(at, **{n: v}), raises, named)  # type: ignore[misc]
        for name, value, raises, named in (
            ("options", {}, TypeError, ("options", "dict")),
            ("hold_suspects", "no", TypeError, ("hold_suspects", "True or False", "str 'no'")),
            ("unreadable_as_damaged", 1, TypeError, ("unreadable_as_damaged", "int 1")),
            ("create", "yes", TypeError, ("create", "str 'yes'")),
            ("duplicate_count", 1.5, ValueError, ("duplicate_count", "whole number", "1.5")),
            ("duplicate_count", -1, ValueError, ("duplicate_count", "int -1")),
            ("duplicate_age", [], ValueError, ("duplicate_age", "list", "30m")),
            ("max_data_file_size", "25 MB", ValueError, ("max_data_file_size", "25 MB", "25M")),
            ("max_data_file_size", 100, ValueError, ("max_data_file_size", "int 100", "7680")),
            ("max_message_size", 0, ValueError, ("max_message_size", "int 0")),
            ("cleanup_interval", "soon", ValueError, ("cleanup_interval", "soon", "30m")),
            ("cleanup_interval", float("nan"), ValueError, ("cleanup_interval", "nan")),
            ("compact_share", 2, ValueError, ("compact_share", "int 2")),
            ("policy", "Salvage", ValueError, ("policy", "Salvage", "salvage, truncate, refuse")),
            ("validation", 5, ValueError, ("validation", "int 5", "full")),
            ("retention_directory", "", ValueError, ("retention_directory", "empty")),
            ("retention_directory", b"x", TypeError, ("retention_directory", "bytes b'x'")),
            ("group_alignment", 12, ValueError, ("group_alignment", "power of two", "12")),
            ("archives_max", True, ValueError, ("archives_max", "bool True")),
            ("max_data_file_sise", "25M", TypeError, ("max_data_file_sise", "did you mean max_data_file_size")),
            ("clock", 5, TypeError, ("clock", "function", "int 5")),
            ("disk", 5, TypeError, ("disk", "int 5")),
            ("progress", 5, TypeError, ("progress", "function", "int 5")),
        )
    ),
)


CALLS: tuple[Call, ...] = (
    Call("open(a file)", lambda _, place: _open_a_file(place), DiskError, ("notes", "not a directory")),
    *_at("", ValueError, "directory", "empty"),
    *_at(b"", TypeError, "directory", "bytes"),
    *_at(b"spool", TypeError, "directory", "bytes"),
    *_at(None, TypeError, "directory", "None"),
    *_at(5, TypeError, "directory", "int"),
    *_at("a\0b", ValueError, "directory", "NUL"),
    *_at(" ", ValueError, "directory", "' '", "blanks"),
    *_at("\t\n", ValueError, "directory", "blanks"),
    *_at("\ud800x", ValueError, "directory", "\\ud800x"),
    *_TYPES,
    *(
        Call(f"{name} at {path!r}", partial(_at_socket, serving=name == "serve", path=path), raises, (named,))
        for name in ("serve", "connect")
        for path, raises, named in (
            (None, TypeError, "None"),
            (b"q.sock", TypeError, "bytes"),
            ("", ValueError, "empty"),
            (f"/{'x' * 120}", LimitExceeded, "121"),
        )
    ),
    Call(
        "serve where no directory is", partial(_at_socket, serving=True, path="/none/q.sock"), SocketRefused, ("/none",)
    ),
    Call(
        "connect to none",
        partial(_at_socket, serving=False, path="/none/q.sock"),
        NotServed,
        ("/none", "oms queue serve"),
    ),
)
