"""Wrong command lines of the commands that speak to a broker, serve one, or keep its users: rows like `wrong_inputs`.

Places beside those of files: {open} a broker that anybody may ask, {guarded} one with users, {tls} one with users and
TLS, {as_plain} its port as if it had none, {as_tls} the port of {open} as if it had TLS, {stomp} a
port of STOMP, {page} a web server, {other_json} one that answers JSON, {hangs_up} what ends each connection, {closed} a
port where nobody listens, {users} a users file with ALICE in it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from tests.support.wrong_inputs import Command

NAME = "x" * 65
MALLORY = {"OMS_USER": "MALLORY", "OMS_PASSWORD": "the password of mallory"}
WRONG = {"OMS_USER": "ALICE", "OMS_PASSWORD": "wrong"}


def _of(
    line: str,
    *named: str,
    code: int = 2,
    stdin: bytes = b"",
    who: Mapping[str, str] = MappingProxyType({}),
    **variables: str,
) -> Command:
    words = tuple("" if word == "''" else word for word in line.split())
    return Command(words, named, code, stdin, {**who, **variables})


# Every command that asks a broker, wherever it is sent.
ASKING = ("info", "info SERVICE", "cmd", "cmd CLEANUP", "top", "send q x", "receive q")
_OPERATORS = ASKING[:5]
FEW = ("info SERVICE", "top", "send q x", "receive q")  # a fifth wrong password lets the next one wait
_URLS = (
    "localhost:1971",
    "ftp://h:1",
    "http://",
    "http://h:x",
    "http://h:99999",
    "http://h:-1",
    "http://h:0",
    "http://[::1",
)
WHERE = (
    *(_of(f"{line} --broker {url}", "--broker", url, "http://HOST:1971") for line in ASKING for url in _URLS),
    *(_of(f"{line} --broker ''", "--broker", "empty", "http://HOST:1971") for line in ASKING),
    *(_of(f"{line} --broker http://h:1?x=1", "--broker", "http://h:1...") for line in ASKING),
    *(_of(f"{line} --broker http://A:secret@h:1", "--broker", "user") for line in ASKING),
    *(_of(f"{line} --broker {{closed}}", "{closed}", "Connection refused", code=4) for line in ASKING),
    *(_of(f"{line} --broker http://no-such-host.invalid:1", "no-such-host.invalid", code=4) for line in ASKING),
    *(_of(f"{line} --broker {{page}}", "{page}", "no broker", "oms serve", code=4) for line in ASKING),
    *(_of(f"{line} --broker {{other_json}}", "{other_json}", "no broker", "oms serve", code=4) for line in ASKING),
    *(_of(f"{line} --broker {{hangs_up}}", "{hangs_up}", code=4) for line in ASKING),
    *(_of(f"{line} --broker {{stomp}}", "{stomp}", "no HTTP", "STOMP", code=4) for line in ASKING),
    *(_of(f"{line} --broker {{as_tls}}", "{as_tls}", "no TLS", "http://", code=4) for line in ASKING),
    *(_of(f"{line} --broker {{as_plain}}", "{as_plain}", "https://", code=4) for line in ASKING),
    *(_of(f"{line} --broker {{tls}}", "{tls}", "certificate", "OMS_CA_FILE", code=4) for line in ASKING),
    *(
        _of(f"{line} --broker {{tls}}", f"{{{file}}}", says, OMS_CA_FILE=f"{{{file}}}")
        for line in ASKING
        for file, says in (
            ("none", "No such file"),
            ("empty", "Is a directory"),
            ("file", "no certificate"),
            ("binary", "no certificate"),
        )
    ),
    *(
        _of(f"{line} --broker {{guarded}}", "log on", "OMS_USER" if at > 4 else "--user", "OMS_PASSWORD", code=1)
        for at, line in enumerate(ASKING)
    ),
    *(_of(f"{line} --broker {{guarded}}", "00080003", "OMS_PASSWORD", code=1, who=WRONG) for line in FEW),
    *(_of(f"{line} --broker {{guarded}} --user ALICE", "OMS_PASSWORD", "terminal") for line in _OPERATORS),
)
# Who is known and may not.
MAY_NOT = (
    *(
        _of(f"info {name} --broker {{guarded}}", "MALLORY", "may not look", code=1, who=MALLORY)
        for name in ("BROKER", "STATISTICS", "FILES", "LATENCY", "PARTICIPANT", "CLIENT", "TRANSPORT", "RESOURCE-USAGE")
    ),
    *(
        _of(f"cmd {line} --yes --broker {{guarded}}", "MALLORY", "may not administer", code=1, who=MALLORY)
        for line in (
            "SHUTDOWN BROKER",
            "CLEANUP",
            "DISCONNECT-PSTORE",
            "FORBID-NEWUOWMSGS",
            "STATUS",
            "SUBSCRIBE topic=NEWS user_id=A",
            "SHUTDOWN SERVICE IMMED service=A/B/C",
        )
    ),
    _of("top --broker {guarded}", "MALLORY", "may not look", code=1, who=MALLORY),
    _of("send q x --broker {guarded}", "00080402", "MALLORY", "send", code=1, who=MALLORY),
    _of("receive q --broker {guarded}", "00080402", "MALLORY", "receive", code=1, who=MALLORY),
)
_AT = "--broker {open}"
INFO = (
    _of(f"info SERVICES {_AT}", "SERVICES", "did you mean SERVICE", "oms info"),
    _of(f"info NOTHING-LIKE-IT {_AT}", "NOTHING-LIKE-IT", "oms info"),
    _of(f"info '' {_AT}", "OBJECT", "empty", "oms info"),
    _of(f"info SERVICE TOPIC {_AT}", "SERVICE", "TOPIC"),
    _of(f"info SECURITY {_AT}", "SECURITY", "oms user list"),
    _of(f"info A/B {_AT}", "/info/A/B"),
    _of(f"info ../command {_AT}", "/info/../command"),
    _of(f"info SERVICE colour=red {_AT}", "colour", "server_class"),
    _of(f"info SERVICE =x {_AT}", "''", "server_class"),
    _of(f"info SERVICE limit=0 {_AT}", "limit", "0", "1000"),
    _of(f"info SERVICE cursor=x {_AT}", "cursor"),
    _of(f"info SERVICE queue= {_AT}", "queue", "empty", "64"),
    _of(f"info SERVICE queue={NAME} {_AT}", "queue", "64"),
    _of(f"info PSF status=RED {_AT}", "RED", "ACCEPTED"),
    _of(f"info BROKER --columns colour {_AT}", "colour", "--columns all"),
    _of(f"info BROKER --columns stor {_AT}", "stor", "did you mean store"),
    _of(f"info BROKER --columns , {_AT}", "--columns"),
    _of(f"info SERVICE --limit 0 {_AT}", "--limit", "0"),
    _of(f"info SERVICE --limit {'9' * 20} {_AT}", "--limit", "9" * 20),
    _of("top --interval 0.1", "--interval", "0.1", "0.2"),
    _of("top --interval nan", "--interval", "nan"),
    _of("top --count -1", "--count", "-1"),
)
CMD = (
    _of(f"cmd SHUTDWN {_AT}", "SHUTDWN", "did you mean SHUTDOWN", "oms cmd"),
    _of(f"cmd '' {_AT}", "oms cmd"),
    _of(f"cmd PURGE uowid=1 {_AT}", "--yes", "PURGE"),
    _of(f"cmd PURGE --yes {_AT}", "uowid"),
    _of(f"cmd PURGE uowid=1 uowid=2 --yes {_AT}", "uowid", "twice"),
    _of(f"cmd PURGE uowid=1 --yes {_AT}", "uowid", "'1'", "00780305", code=1),
    _of(f"cmd PURGE SERVER uowid=1 --yes {_AT}", "PURGE", "PSF", "SERVER"),
    _of(f"cmd PURGE uowid={'1' * 300} --yes {_AT}", "uowid", "255"),
    _of(f"cmd SET-UOW-STATUS uowid=1 --yes {_AT}", "ACCEPTED or CANCELLED"),
    _of(f"cmd SET-UOW-STATUS ACCEPTED --yes {_AT}", "uowid"),
    _of(f"cmd SET-UOW-STATUS PROCESSED uowid=1 --yes {_AT}", "ACCEPTED or CANCELLED", "PROCESSED"),
    _of(f"cmd SET-UOW-STATUS DELIVERED uowid=1 --yes {_AT}", "PSF", "DELIVERED"),
    _of(f"cmd SHUTDOWN --yes {_AT}", "SHUTDOWN", "BROKER or SERVER"),
    _of(f"cmd SHUTDOWN SERVICE --yes {_AT}", "IMMED or QUIESCE"),
    _of(f"cmd SHUTDOWN SERVICE IMMED QUIESCE --yes {_AT}", "IMMED", "QUIESCE", "oms cmd"),
    _of(f"cmd SHUTDOWN SERVICE SERVER --yes {_AT}", "SERVICE", "SERVER", "oms cmd"),
    _of(f"cmd SHUTDOWN SERVICE IMMED --yes {_AT}", "class, server and service"),
    _of(f"cmd SHUTDOWN SERVICE IMMED service=A/B/C --yes {_AT}", "A", "B", "C", "oms info SERVER", code=1),
    _of(f"cmd SHUTDOWN SERVER IMMED --yes {_AT}", "client_id", "user_id"),
    _of(f"cmd SHUTDOWN SERVER IMMED user_id=X --yes {_AT}", "user_id=X", "oms info SERVER", code=1),
    _of(f"cmd SHUTDOWN PARTICIPANT IMMED client_id=x --yes {_AT}", "client_id=x", "oms info PARTICIPANT"),
    _of(f"cmd SHUTDOWN PARTICIPANT IMMED client_id={'9' * 30} --yes {_AT}", "9" * 30, code=1),
    _of(f"cmd SHUTDOWN CONVERSATION IMMED --yes {_AT}", "conv_id"),
    _of(f"cmd SHUTDOWN CONVERSATION IMMED conv_id=7 --yes {_AT}", "conv_id", "'7'", code=1),
    _of(f"cmd SHUTDOWN BROKER QUIESCE --yes {_AT}", "SHUTDOWN BROKER", "QUIESCE"),
    _of(f"cmd RELEASE --yes {_AT}", "identifiers", "all"),
    _of(f"cmd RELEASE all=perhaps --yes {_AT}", "all", "perhaps", "yes or no"),
    _of(f"cmd RELEASE older=soon --yes {_AT}", "older", "soon", "30S"),
    _of(f"cmd RELEASE topic=NEWS --yes {_AT}", "topic", "uowid"),
    _of(f"cmd RELEASE all=yes --yes {_AT}", "held", code=1),
    _of(f"cmd RELEASE all=yes --except {{none}} --yes {_AT}", "--except", "{none}"),
    _of(f"cmd RELEASE all=yes --except {{empty}} --yes {_AT}", "--except", "{empty}"),
    _of(f"cmd RELEASE all=yes --except {{binary}} --yes {_AT}", "--except", "{binary}", "UTF-8"),
    _of(f"cmd PURGE --except {{file}} --yes {_AT}", "--except", "RELEASE"),
    _of(f"cmd DISCARD all=yes --yes {_AT}", "PROCESSED or DISCARDED"),
    _of(f"cmd SUBSCRIBE {_AT}", "topic"),
    _of(f"cmd SUBSCRIBE topic=NEWS {_AT}", "user_id"),
    _of(f"cmd SUBSCRIBE topic=NEWS user_id={'x' * 33} {_AT}", "user_id", "32"),
    _of(f"cmd SUBSCRIBE topic={'x' * 97} user_id=A {_AT}", "topic", "96"),
    _of(f"cmd UNSUBSCRIBE topic=NEWS user_id=A --yes {_AT}", "A", "NEWS", "00780305", code=1),
    _of(f"cmd TRACE-ON {_AT}", "TRACE-ON", "there is no trace", code=1),
    _of(f"cmd ENABLE-CMDLOG {_AT}", "ENABLE-CMDLOG", "there is no command log", code=1),
    _of(f"cmd NO-OPERATION colour=red {_AT}", "colour", "uowid"),
    _of(f"cmd NO-OPERATION COLOUR {_AT}", "NO-OPERATION", "COLOUR"),
)
MESSAGES = (
    *(_of(f"{line} {_AT}", "queue", "empty") for line in ("send '' x", "receive ''")),
    *(
        _of(f"{line} {_AT}", "/topic/NEWS", "/service/CLASS/SERVER/SERVICE")
        for line in ("send /topic/NEWS x", "receive /topic/NEWS")
    ),
    *(
        _of(f"{line} {_AT}", "/service/A", "/service/CLASS/SERVER/SERVICE")
        for line in ("send /service/A x", "receive /service/A")
    ),
    *(_of(f"{line} {_AT}", "queue", "64") for line in (f"send {NAME} x", f"receive {NAME}")),
    _of(f"send q x {_AT}", "00200181", "USER-ID", "32", OMS_USER="x" * 33),
    _of(f"send q {_AT}", "standard input", "--empty"),
    _of(f"send q x -p a {_AT}", "--property", "KEY=VALUE"),
    _of(f"send q x --producer-id '' {_AT}", "--producer-id", "empty"),
    _of(f"send q x --producer-id {'p' * 256} {_AT}", "producer", "255"),
    _of(f"receive q --count 0 {_AT}", "--count", "0"),
    _of(f"receive q --timeout soon {_AT}", "--timeout", "soon"),
    _of(f"receive q --batch 5 {_AT}", "--batch", "--broker"),
    _of(f"receive q --wait 5 {_AT}", "--wait", "--broker"),
)
SERVE = (
    *(
        _of(f"{line} {{{file}}}", f"{{{file}}}", says)
        for line in ("serve", "attributes")
        for file, says in (
            ("none", "No such file"),
            ("empty", "directory"),
            ("binary", "UTF-8"),
            ("file", "no attribute file"),
        )
    ),
    _of("serve ''", "ATTRIBUTE-FILE", "empty"),
    _of("attributes ''", "FILE", "empty"),
    _of("attributes", "{none}", ETB_ATTR="{none}"),
    _of("serve --host ''", "--host", "empty", "127.0.0.1"),
    _of("serve --spool {empty} --host 0.0.0.0", "0.0.0.0", "USERS-FILE", "INSECURE-NETWORK", code=4),
    _of("serve --spool {empty} --host no-such.invalid", "no-such.invalid", "USERS-FILE", code=4),
    _of("serve --stomp-port -5", "--stomp-port", "-5", "65,535"),
    _of("serve --http-port 1.5", "--http-port", "1.5", "65,535"),
    _of("serve --run-mode FAST", "--run-mode", "FAST", "STANDBY"),
    _of("serve --run-mode ''", "--run-mode", "empty", "STANDBY"),
    *(_of(f"serve --run-mode {mode}", "--partner", "address") for mode in ("STANDBY", "PSTORE-LOAD", "PSTORE-UNLOAD")),
    *(
        _of(f"serve --partner {text}", "--partner", "HOST:PORT", text.strip("'"))
        for text in ("x", "x:y", "x:0", "x:65536", "x:1:UDP", "http://h:1", ":1", "''")
    ),
    _of("serve --spool ''", "--spool", "empty"),
    _of("serve --spool {file}", "{file}", "not a directory", "--spool"),
    _of("serve --spool {other} --http-port 0 --stomp-port 0", "{other}", "--create"),
    _of("serve --run-mode PSTORE-UNLOAD --partner h:1 --create", "--create", "PSTORE-UNLOAD"),
    _of("serve {none} {file}", "{file}"),
    _of("serve --colour", "--colour", "an ATTRIBUTE-FILE"),
)
GAMES = (
    _of("chess white e4", "--spool", "missing"),
    _of("chess green", "SIDE", "green", "white, black"),
    _of("chess white '' --spool {empty}", "empty", "e4"),
    _of("chess white e44 --spool {empty}", "e44", "Nbd7"),
    _of("chess --seed ''", "--seed", "empty"),
    _of("chess --kills x", "--kills", "x"),
    _of("chess --pgn {binary}", "--pgn", "{binary}", "line 1"),
    _of("chess --pgn {empty}", "--pgn", "{empty}", "directory"),
    _of("chess --spool {file}", "--spool", "{file}"),
    _of("chess --spool ''", "--spool", "empty"),
)
_ALLOWING = ("allow", "deny")
USERS = (
    _of("user", "COMMAND", "add, remove"),
    _of("user frob", "frob", "user --help"),
    *(_of(f"user {line}", "FILE") for line in ("add", "remove", "password", "allow", "deny", "list")),
    *(_of(f"user {line} {{users}}", "USER") for line in ("add", "remove", "password", "allow", "deny")),
    *(_of(f"user {line} '' ALICE", "FILE", "empty") for line in ("add", "remove", "password")),
    *(_of(f"user {line} {{none}} ALICE", "{none}", "No such file", code=4) for line in ("remove", "password")),
    *(_of(f"user {line} {{empty}} ALICE", "{empty}", "not a file", code=4) for line in ("add", "remove", "password")),
    *(_of(f"user {line} {{file}} ALICE", "{file}", "chmod 600", code=4) for line in ("add", "remove", "password")),
    *(_of(f"user list {{{file}}}", f"{{{file}}}", code=4) for file in ("none", "empty", "file", "binary")),
    _of("user list {binary}", "UTF-8", code=4),
    *(_of(f"user {line} {{users}} X", "X", "oms user list", code=1) for line in ("remove", "password")),
    _of("user add {users} ALICE", "ALICE", "oms user password", code=1),
    *(
        _of(f"user add {{none}} {name}", "name of a user", came)
        for name, came in (("''", "''"), ("A:B", "A:B"), ("x" * 33, "32"))
    ),
    *(_of("user add {none} BOB", "password", "8", stdin=said) for said in (b"", b"short\n")),
    _of("user add {none} BOB", "password", "1,025", stdin=b"x" * 1025),
    _of("user password {users} ALICE", "password", "8"),
    *(_of(f"user {line} {{users}} ALICE", "RIGHT", "send, receive") for line in _ALLOWING),
    *(_of(f"user {line} {{users}} ALICE send", "PATTERN", "CLASS/SERVER/SERVICE") for line in _ALLOWING),
    *(_of(f"user {line} {{users}} ALICE fly q", "RIGHT", "fly", "send") for line in _ALLOWING),
    *(
        _of(f"user {line} {{users}} ALICE send {text}", text, "/queue/NAME")
        for line in _ALLOWING
        for text in ("q", "A/B")
    ),
    *(_of(f"user {line} {{users}} ALICE send ''", "pattern", "256", "''") for line in _ALLOWING),
    *(_of(f"user {line} {{users}} X send broker", "X", "oms user list", code=1) for line in _ALLOWING),
)
COMMANDS = (*WHERE, *MAY_NOT, *INFO, *CMD, *MESSAGES, *SERVE, *GAMES, *USERS)
