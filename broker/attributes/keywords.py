"""Every attribute: its name and short forms, the sections it stands in, what values it takes, and its default.

A default is the one of EntireX; with DEFAULT-VALUES=OMS, as without a file, `DEFAULTS_OF_OMS` come first.
A SERVICE or TOPIC that says nothing takes what its section says before the first definition, then what
BROKER says, then the default.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oms_journal.broker.attributes.text import quoted
from oms_journal.broker.block import UWSTATP_MAX, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.durations import NEVER, parse_duration
from oms_journal.broker.reachability import PORT_MAX

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
COUNT_MAX = (1 << 31) - 1
UNLIMITED = "UNLIM"  # no bound, or no end
_SIZE = re.compile(r"([0-9]{1,40})([BKMG]?)", re.IGNORECASE)
_DIGITS_MAX = 40  # of a number: more is out of any range
_SIZE_UNITS = {"": 1, "B": 1, "K": KIB, "M": MIB, "G": GIB}


class BadValue(ValueError):
    """The value is none that the attribute takes."""

    def __init__(self, reason: str, code: Code = Code.VALUE_INVALID) -> None:
        super().__init__(reason)
        self.code = code


Read = Callable[[str], Any]


class Keyword(NamedTuple):
    """An attribute; a default of "" is none."""

    name: str
    sections: frozenset[str]
    read: Read
    default: str
    short: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        """Its name in the effective values."""
        return self.name.lower().replace("-", "_")


def yes_or_no(text: str) -> bool:
    """Return whether the text says yes."""
    try:
        return {"YES": True, "Y": True, "NO": False, "N": False}[text.upper()]
    except KeyError:
        raise BadValue(f"{quoted(text)} is neither YES nor NO", Code.VALUE_NOT_YES_OR_NO) from None


def one_of(*words: str, **meanings: Any) -> Read:
    """Return a reader of these words, which are their own meaning, and of words that mean something else."""
    known = {word: word for word in words} | {word.replace("_", "-"): value for word, value in meanings.items()}

    def read(text: str) -> Any:
        if text.upper() not in known:
            raise BadValue(f"{quoted(text)} is none of {', '.join(known)}")
        return known[text.upper()]

    return read


def read_count(low: int, high: int = COUNT_MAX, *, unlimited: bool = False) -> Read:
    """Return a reader of whole numbers; None is unlimited."""
    or_else = _or_else(unlimited=unlimited)

    def read(text: str) -> int | None:
        if unlimited and text.upper() == UNLIMITED:
            return None
        if not (text.isascii() and text.isdecimal()):
            raise BadValue(f"{quoted(text)} is not a whole number from {low} to {high}{or_else}")
        return _within(int(text.lstrip("0")[:_DIGITS_MAX] or "0"), low, high, text, or_else)

    return read


def read_size(low: int, high: int) -> Read:
    """Return a reader of sizes in bytes: a number and B, K, M or G."""

    def read(text: str) -> int:
        match = _SIZE.fullmatch(text)
        if match is None:
            raise BadValue(f"{quoted(text)} is not a size; write a number and B, K, M or G, as in 25M")
        return _within(int(match[1]) * _SIZE_UNITS[match[2].upper()], low, high, text)

    return read


def _or_else(*, unlimited: bool) -> str:
    return f", or {UNLIMITED}" if unlimited else ""


def _within(value: int, low: int, high: int, text: str, or_else: str = "") -> int:
    if not low <= value <= high:
        raise BadValue(f"{quoted(text)} is out of range, {low} to {high}{or_else}", Code.VALUE_OUT_OF_RANGE)
    return value


def read_time(*, unlimited: bool = False, zero: bool = False, unit: str = "") -> Read:
    """Return a reader of durations in microseconds; NEVER is unlimited, `unit` what a bare number has."""
    or_else = _or_else(unlimited=unlimited)

    def read(text: str) -> int:
        if unlimited and text.upper() == UNLIMITED:
            return NEVER
        try:
            found = parse_duration(text + unit if text.isdecimal() else text)
        except ValueError as failure:
            raise BadValue(f"{failure}{or_else}") from None
        if not found and not zero:
            raise BadValue(f"{text} is no time at all; write 1S or more{or_else}", Code.VALUE_OUT_OF_RANGE)
        return found

    return read


def text_of(width: int) -> Read:
    """Return a reader of printable text of so many bytes."""

    def read(text: str) -> str:
        if not text.isprintable():
            raise BadValue(f"{quoted(text)} is no value; write characters that can be printed, at most {width} bytes")
        if (size := len(text.encode())) > width:
            raise BadValue(f"it has at most {width} bytes, not {size:,}", Code.VALUE_TOO_LONG)
        return text

    return read


def read_address(text: str) -> str:
    """Return a transport address, host:port:TCP."""
    match = re.fullmatch(r"[^\s:]+:([0-9]{1,5}):TCP", text, re.IGNORECASE)
    if match is None or not 1 <= int(match[1]) <= PORT_MAX or len(text) > 32:
        expected = f"an address host:port:TCP of at most 32 characters, with a port of 1 to {PORT_MAX}"
        raise BadValue(f"{quoted(text)} is not {expected}")
    return text


STORE = one_of(OFF=Store.OFF, NO=Store.OFF, BROKER=Store.BROKER)
PATH = text_of(4096)
_BROKER, _TOPIC, _JOURNAL = frozenset({"BROKER"}), frozenset({"TOPIC"}), frozenset({"JOURNAL"})
_SERVICE = frozenset({"SERVICE"})
_BOTH = _BROKER | _SERVICE  # of every service, unless it says otherwise
_TOPICS = _BROKER | _TOPIC
_STORES = _JOURNAL | {"SQLITE"}
_NO_DRIVER = "there is no driver for it here; the drivers are JOURNAL and SQLITE"


def _driver(text: str) -> str:
    if text.upper() in ("ADABAS", "DIV", "CTREE", "FILE"):
        raise BadValue(f"{text}: {_NO_DRIVER}")
    return str(one_of("JOURNAL", "SQLITE")(text))


# The defaults of DEFAULT-VALUES=OMS, which a start without a file has, where they are others than the vendor's.
DEFAULTS_OF_OMS: Mapping[str, str] = {
    "PSTORE": "WARM",
    "STORE": "BROKER",
    "DEFERRED": "YES",
    "UWTIME": UNLIMITED,
    "MAX-UOWS": UNLIMITED,
    "MAX-MESSAGES-IN-UOW": "10000",
    "MAX-UOW-MESSAGE-LENGTH": "6144000",
    "SUBSCRIBER-STORE": "PSTORE",
    "SUBSCRIPTION-EXPIRATION": UNLIMITED,
    "PUBLICATION-LIFETIME": UNLIMITED,
    "MAX-MESSAGES-IN-PUBLICATION": "10000",
    "MAX-PUBLICATION-MESSAGE-LENGTH": "6144000",
    "ALLOW-DURABLE": "YES",
}

# A store is opened by each mode in its own way.
START_OF_MODE: Mapping[str, str] = {"PSTORE-LOAD": "COLD", "PSTORE-UNLOAD": "HOT", "STANDBY": "HOT"}

KEYWORDS = (
    Keyword("DEFAULT-VALUES", _BROKER, one_of("ENTIREX", "OMS"), "ENTIREX"),
    Keyword("BROKER-ID", _BROKER, text_of(32), "ETB001"),
    Keyword("PSTORE", _BROKER, one_of("NO", "HOT", "COLD", "WARM"), "NO"),
    Keyword("PSTORE-TYPE", _BROKER, _driver, "JOURNAL"),
    Keyword("FORCE-COLD", _BROKER | _STORES, yes_or_no, "NO"),
    Keyword("PSTORE-REPORT", _BROKER, yes_or_no, "NO"),
    Keyword("PSTORE-VERSION", _BROKER, read_count(3, 5), "3"),
    Keyword("STORE", _BOTH | _TOPIC, STORE, "OFF"),
    Keyword("MAX-UOWS", _BOTH, read_count(0, unlimited=True), "0", ("MUOW",)),
    Keyword("MAX-MESSAGES-IN-UOW", _BOTH, read_count(1, 1_000_000), "16", ("UMSG",)),
    Keyword("MAX-UOW-MESSAGE-LENGTH", _BOTH, read_size(1, GIB), "31647"),
    Keyword("UWSTATP", _BOTH, read_count(0, UWSTATP_MAX), "0"),
    Keyword("UWTIME", _BOTH, read_time(unlimited=True), "1D", ("UOW-DATA-LIFETIME",)),
    Keyword("UWSTAT-LIFETIME", _BOTH, read_time(zero=True), "0S", ("UOW-STATUS-LIFETIME",)),
    Keyword("DEFERRED", _BOTH, yes_or_no, "NO"),
    Keyword("MAX-DELIVERY-COUNT", _BOTH, read_count(0, unlimited=True), "10"),
    Keyword("POSTPONE-ATTEMPTS", _BOTH, read_count(0), "0"),
    Keyword("POSTPONE-DELAY", _BOTH, read_time(), "5M"),
    Keyword("CLIENT-NONACT", _BROKER, read_time(unlimited=True), "15M"),
    Keyword("SERVER-NONACT", _BOTH, read_time(unlimited=True), "5M"),
    Keyword("CONV-NONACT", _BOTH, read_time(unlimited=True), "5M"),
    Keyword("CONV-LIMIT", _SERVICE, read_count(1, unlimited=True), UNLIMITED),
    Keyword("NUM-CONVERSATION", _BROKER, read_count(1, unlimited=True), UNLIMITED, ("NUM-CONV",)),
    Keyword("NEW-UOW-MESSAGES", _BROKER, yes_or_no, "YES"),
    Keyword("PUBLISH-AND-SUBSCRIBE", _BROKER, yes_or_no, ""),  # where nothing is said: if there is a topic
    Keyword("SUBSCRIBER-STORE", _BROKER, one_of("NO", "PSTORE", OFF="NO"), "NO"),
    Keyword("SUBSCRIPTION-EXPIRATION", _TOPICS, read_time(unlimited=True), ""),
    Keyword("PUBLICATION-LIFETIME", _TOPICS, read_time(unlimited=True), "1D"),
    Keyword("MAX-MESSAGES-IN-PUBLICATION", _TOPICS, read_count(1, 1_000_000), "16"),
    Keyword("MAX-PUBLICATION-MESSAGE-LENGTH", _TOPICS, read_size(1, GIB), "31647"),
    Keyword("PUBLISHER-NONACT", _TOPICS, read_time(unlimited=True), "15M"),
    Keyword("SUBSCRIBER-NONACT", _TOPICS, read_time(unlimited=True), "15M"),
    Keyword("ALLOW-DURABLE", _TOPIC, yes_or_no, "NO"),
    Keyword("ALLOW-USER-SUBSCRIBE", _TOPIC, yes_or_no, "YES"),
    Keyword("AUTO-COMMIT-FOR-SUBSCRIBER", _TOPIC, yes_or_no, "NO"),
    Keyword("RUN-MODE", _BROKER, one_of("STANDARD", "STANDBY", "PSTORE-LOAD", "PSTORE-UNLOAD"), "STANDARD"),
    Keyword("PARTNER-CLUSTER-ADDRESS", _BROKER, read_address, ""),
    Keyword("HANDSHAKE", _BROKER, yes_or_no, "YES"),
    Keyword("CONTROL-INTERVAL", _BROKER, read_time(), "60S"),
    Keyword("MAX-TAKEOVER-ATTEMPTS", _BROKER, read_count(1, unlimited=True), UNLIMITED),
    Keyword("HOST", _BROKER, text_of(255), "127.0.0.1"),  # where a server listens
    Keyword("STOMP-PORT", _BROKER, read_count(0, PORT_MAX), "61613"),  # 0: any that is free
    Keyword("HTTP-PORT", _BROKER, read_count(0, PORT_MAX), "1971"),
    Keyword("STOMP-TLS-PORT", _BROKER, read_count(0, PORT_MAX), "61612"),  # where there is a certificate
    Keyword("USERS-FILE", _BROKER, PATH, ""),  # who may log on; without one everybody
    Keyword("TLS-CERTIFICATE", _BROKER, PATH, ""),  # the chain, in PEM
    Keyword("TLS-KEY", _BROKER, PATH, ""),  # where it is not in the same file
    Keyword("TLS-CA", _BROKER, PATH, ""),  # whom the partner's certificate is trusted by; without one the system's
    Keyword("INSECURE-NETWORK", _BROKER, yes_or_no, "NO"),  # listens beyond loopback without users and TLS
    Keyword("HTTP-NAMES", _BROKER, text_of(1024), ""),  # host names that requests may say, beside this machine's
    Keyword("MAX-CONNECTIONS", _BROKER, read_count(1, 1_000_000), "5000"),
    Keyword("TRACE-LEVEL", _BROKER | _STORES, read_count(0, 8), "0"),
    Keyword("SPOOL-DIRECTORY", _JOURNAL, PATH, ""),
    Keyword("MAX-DATA-FILE-SIZE", _JOURNAL, read_size(4 * KIB, 16 * GIB), "25M"),
    Keyword("MAX-MESSAGE-SIZE", _JOURNAL, read_size(1, GIB), ""),
    Keyword("MSG-CLEANUP-INTERVAL", _JOURNAL, read_time(zero=True, unit="M"), "30M"),
    Keyword("RETENTION-DIRECTORY", _JOURNAL, PATH, ""),
    Keyword("RETENTION-AGE", _JOURNAL, read_time(zero=True), ""),
    Keyword("RETENTION-BYTES", _JOURNAL, read_size(0, 1 << 50), ""),
    Keyword("DATABASE-FILE", frozenset({"SQLITE"}), PATH, ""),
    Keyword("MIN-FREE-SPACE", _STORES, read_size(0, 1 << 50), "0"),
    # Of drivers that are not here: known, and without effect.
    Keyword("DBID", frozenset({"ADABAS"}), text_of(32), ""),
    Keyword("FNR", frozenset({"ADABAS"}), text_of(32), ""),
    Keyword("ADASVC", frozenset({"NET"}), text_of(32), ""),
)
WITHOUT_EFFECT = ("ADABAS", "NET")
# What is known and not carried out, and why: a start and `oms attributes` say so to whoever says one.
NOT_CARRIED_OUT: Mapping[str, str] = {
    "PSTORE-VERSION": "there is one format of the store",
    "TRACE-LEVEL": "there is no trace",
    "PUBLISHER-NONACT": "what a publisher has begun is dropped with its connection, or after CLIENT-NONACT",
    **dict.fromkeys(("DBID", "FNR", "ADASVC"), "there is no driver for Adabas here"),
}
SECTIONS = ("BROKER", "SERVICE", "TOPIC", "JOURNAL", "SQLITE", *WITHOUT_EFFECT)
# What begins a definition in its section, and what else names it.
NAMES: Mapping[str, tuple[str, ...]] = {"SERVICE": ("CLASS", "SERVER", "SERVICE"), "TOPIC": ("TOPIC",)}
NAME_BYTES_MAX = {"SERVICE": 32, "TOPIC": 96}

OF_SECTION: Mapping[str, Mapping[str, Keyword]] = {
    section: {keyword.name: keyword for keyword in KEYWORDS if section in keyword.sections} for section in SECTIONS
}
CANONICAL: Mapping[str, str] = {
    name: keyword.name for keyword in KEYWORDS for name in (keyword.name, *keyword.short)
}  # long and short forms
