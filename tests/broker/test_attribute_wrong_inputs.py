"""Whatever is wrong in an attribute file is told with file, line and attribute, what is allowed, and what came."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from oms_journal.broker.attributes.attributes import FILE_BYTES_MAX, parse_attributes, read_attributes
from oms_journal.broker.attributes.keywords import KEYWORDS, NAMES, OF_SECTION, SECTIONS, Keyword
from oms_journal.broker.attributes.text import AttributesInvalid, Fault
from tests.support.sweeps import for_each
from tests.support.wrong_inputs import faults_of

FILE = "etbfile"
SERVED = "DEFAULTS=SERVICE\n  CLASS=*, SERVER=*, SERVICE=*\n"

# Of every attribute: each value that it does not take is refused, and every refusal says what is allowed.
VALUES = (
    *("", "-1", "1.5", "x", "YES AND NO", "5X", "9" * 20, "9" * 5000, "x" * 5000, "\x01", "²", "٣", "ä" * 20),
    *("0", "1e9", "0x10", "+5", "NaN", "UNLIMITED", "1 2", "25M", "1D", "101Y", "99999D", "h:0:TCP", "h:65536:TCP"),
)
SAYS = (
    "none of",
    "neither YES nor NO",
    "whole number from",
    "is out of range, ",
    "write a",
    "write 1S",
    "write char",
    "write it",
)
ALLOWED = (*SAYS, "at most", "host:port:TCP", "the drivers are", "write a shorter time")


def faults_in(text: str, file: str = FILE) -> list[Fault]:
    try:
        parse_attributes(text, file)
    except AttributesInvalid as invalid:
        return invalid.faults
    return []


@for_each("keyword", KEYWORDS)
def test_every_value_that_an_attribute_does_not_take_is_refused_in_words(keyword: Keyword) -> None:
    refused = 0
    for section in sorted(keyword.sections):
        for value in VALUES:
            names = "".join(f" {name}=A" for name in NAMES.get(section, ()))
            more = SERVED if section != "SERVICE" else ""
            faults = faults_in(f'DEFAULTS={section}\n {names}\n {keyword.name}="{value}"\n{more}')
            refused += len(faults)
            for fault in faults:
                assert (fault.file, fault.line, fault.keyword) == (FILE, 3, keyword.name)
                assert any(word in fault.reason for word in ALLOWED), fault
                assert value[:40].strip() in fault.reason or not value.isprintable() or "at most" in fault.reason, fault
                assert faults_of(str(fault), ()) == [], fault
            assert faults or value not in ("", "\x01", "x" * 5000)
    assert refused >= 3


def test_every_attribute_in_a_section_of_others_is_sent_where_it_belongs() -> None:
    count = 0
    for section in SECTIONS:
        begun = f"DEFAULTS={section}\n" + "".join(f" {name}=A" for name in NAMES.get(section, ()))
        for name in [keyword.name for keyword in KEYWORDS] + [name for names in NAMES.values() for name in names]:
            if name in OF_SECTION[section] or name in NAMES.get(section, ()):
                continue
            (fault, *_) = [each for each in faults_in(f"{begun}\n {name}=1\n{SERVED}") if each.keyword == name]
            there = [each for each in SECTIONS if name in OF_SECTION[each] or name in NAMES.get(each, ())]
            assert fault.line == 3
            assert fault.reason == f"it does not belong to {section} but to {' or '.join(there)}"
            count += 1
    assert count >= 300


@for_each("keyword", KEYWORDS)
def test_every_attribute_that_is_said_twice_or_without_a_value_is_told(keyword: Keyword) -> None:
    section = min(keyword.sections)
    default = keyword.default or {"PARTNER-CLUSTER-ADDRESS": "h:1:TCP"}.get(keyword.name, "1")
    value = "YES" if keyword.name == "PUBLISH-AND-SUBSCRIBE" else default
    twice = faults_in(f"DEFAULTS={section}\n {keyword.name}={value}\n {keyword.name}={value}\n{SERVED}")
    without = faults_in(f"DEFAULTS={section}\n\n {keyword.name}=\n{SERVED}")
    bare = faults_in(f"DEFAULTS={section}\n {keyword.name}\n{SERVED}")

    assert [(each.line, each.reason) for each in twice] == [(3, "it is said already in line 2; remove one of the two")]
    assert [(each.line, each.keyword) for each in without] == [(3, keyword.name)]
    assert without[0].reason.startswith("its value is missing: an empty text is ")
    assert [(each.line, each.keyword) for each in bare] == [(2, keyword.name)]
    assert bare[0].reason == "this is not NAME=value, as in STORE=BROKER"


@dataclass(frozen=True, slots=True)
class Wrong:
    """A text of an attribute file, and what its first fault names."""

    text: str
    line: int
    named: tuple[str, ...]

    def __str__(self) -> str:
        return repr(self.text)[:60]


BROKER = "DEFAULTS=BROKER\n"
TEXTS = [
    Wrong("", 0, ("SERVICE", "TOPIC", "DEFAULT-VALUES=OMS")),
    Wrong("* nothing\n# but comments\n", 0, ("SERVICE", "TOPIC")),
    Wrong(BROKER, 0, ("SERVICE", "TOPIC")),
    Wrong("hello", 1, ("hello", "NAME=value")),
    Wrong("hello\nyou\n", 0, ("no attribute file", "DEFAULTS=BROKER")),
    Wrong("a=1\nb=2\n", 0, ("no attribute file", "DEFAULTS=BROKER")),
    Wrong("<html>\n<body>\n", 0, ("no attribute file",)),
    Wrong('{"store": "BROKER"}\n', 1, ("{", "NAME=value")),
    Wrong("STORE=BROKER\n", 1, ("STORE", "DEFAULTS=BROKER")),
    Wrong(f"DEFAULT=BROKER\n{SERVED}", 1, ("DEFAULT", "DEFAULTS=BROKER")),
    Wrong(f"DEFAULTS=\n{SERVED}", 1, ("DEFAULTS", "empty", "BROKER, SERVICE")),
    Wrong(f"DEFAULTS=BROKERS\n{SERVED}", 1, ("BROKERS", "BROKER, SERVICE")),
    Wrong(f"{BROKER} STORE==BROKER\n{SERVED}", 2, ("STORE", "quotation marks")),
    Wrong(f'{BROKER} STORE="BROKER\n{SERVED}', 2, ("STORE", "quotation marks")),
    Wrong(f"{BROKER} =BROKER\n{SERVED}", 2, ("=", "NAME=value")),
    Wrong(f"{BROKER} MAX-UOWS 5\n{SERVED}", 2, ("MAX-UOWS", "NAME=value")),
    Wrong(f"{BROKER} MAX-UOWS:5\n{SERVED}", 2, ("MAX-UOWS:5", "NAME=value")),
    Wrong(f"{BROKER} 1=2\n{SERVED}", 2, ("1", "NAME=value")),
    Wrong(f"{BROKER} ä=ö\n{SERVED}", 2, ("ä", "NAME=value")),
    Wrong(f"{BROKER} \0\n{SERVED}", 2, ("'\\x00'", "NAME=value")),
    Wrong(f"{BROKER} {'X' * 100_000}\n{SERVED}", 2, ("XXXX", "NAME=value")),
    Wrong(f"{BROKER} {'X' * 100_000}=1\n{SERVED}", 2, ("XXXX", "NAME=value")),
    Wrong(f"{BROKER} STORE={'X' * 100_000}\n{SERVED}", 2, ("STORE", "XXXX", "OFF, NO, BROKER")),
    Wrong(f"{BROKER} UWTIM=1S\n{SERVED}", 2, ("UWTIM", "is it UWTIME?")),
    Wrong(f"{BROKER} INCLUDE=/etc/more\n{SERVED}", 2, ("INCLUDE", "no such attribute", "--example")),
    Wrong(f"{BROKER} \x0b\x0c\u2028STORE=X\n{SERVED}", 2, ("STORE", "X")),
    Wrong(f"{BROKER}\r\n\r\n STORE=X\r\n{SERVED}", 4, ("STORE", "X")),
    Wrong(f"{BROKER}\r\r STORE=X\r{SERVED}", 4, ("STORE", "X")),
    Wrong(f"\ufeff{BROKER} STORE=X\n{SERVED}", 2, ("STORE", "X")),
    Wrong("DEFAULTS=SERVICE\n SERVER=A\n", 2, ("SERVER", "CLASS=")),
    Wrong("DEFAULTS=SERVICE\n CLASS=A\n", 2, ("SERVER", "missing")),
    Wrong("DEFAULTS=SERVICE\n CLASS=A SERVER=B SERVER=C SERVICE=D\n", 2, ("SERVER", "twice")),
    Wrong(f"{SERVED} CLASS=*, SERVER=*, SERVICE=*\n", 3, ("CLASS", "line 2")),
    Wrong(f"DEFAULTS=SERVICE\n CLASS={'x' * 33} SERVER=B SERVICE=C\n", 2, ("CLASS", "32", "33")),
    Wrong('DEFAULTS=SERVICE\n CLASS="" SERVER=B SERVICE=C\n', 2, ("CLASS", "value is missing")),
    Wrong(f"DEFAULTS=TOPIC\n TOPIC={'x' * 97}\n", 2, ("TOPIC", "96", "97")),
    Wrong(f"{BROKER} RUN-MODE=STANDBY\n PSTORE=COLD\n{SERVED}", 2, ("PARTNER-CLUSTER-ADDRESS", "host:port:TCP")),
    Wrong(f"{BROKER} PARTNER-CLUSTER-ADDRESS=h:1:TCP\n RUN-MODE=STANDBY\n PSTORE=COLD\n{SERVED}", 4, ("HOT", "COLD")),
    Wrong(f"{BROKER} PSTORE-TYPE=ADABAS\n{SERVED}", 2, ("ADABAS", "JOURNAL and SQLITE")),
    Wrong(f"{SERVED} MAX-UOW-MESSAGE-LENGTH=5M\nDEFAULTS=JOURNAL\n MAX-MESSAGE-SIZE=1M\n", 3, ("5M", "1M")),
    Wrong(
        f"{BROKER} SUBSCRIBER-STORE=PSTORE\nDEFAULTS=TOPIC\n TOPIC=A ALLOW-DURABLE=YES\n",
        4,
        ("SUBSCRIPTION-EXPIRATION", "UNLIM"),
    ),
]


@for_each("row", TEXTS)
def test_a_text_that_is_wrong_is_told_with_its_line(row: Wrong) -> None:
    faults = faults_in(row.text)

    assert faults, "it is taken"
    assert faults[0].line == row.line
    assert faults_of(str(faults[0]), (FILE, *row.named)) == [], faults[0]


@pytest.mark.parametrize(
    "text", [f"\ufeff{SERVED}", SERVED.replace("\n", "\r\n"), SERVED.replace("\n", "\r")], ids=repr
)
def test_what_an_editor_of_another_system_writes_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(text.encode())

    assert read_attributes(tmp_path / "file").service("A", "B", "C") is not None


BYTES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "UTF-16": (SERVED.encode("utf-16"), ("line 1", "UTF-8")),
    "Latin-1 in line 3": (SERVED.encode() + b" STORE=\xe4\n", ("line 3", "UTF-8")),
    "zeros": (bytes(1000), ("line 1", "NAME=value")),
    "too much": (b"*" * (FILE_BYTES_MAX + 1), (f"{FILE_BYTES_MAX:,}",)),
}


@pytest.mark.parametrize("what", BYTES)
def test_a_file_of_other_bytes_is_told(what: str, tmp_path: Path) -> None:
    data, named = BYTES[what]
    (tmp_path / "file").write_bytes(data)

    with pytest.raises(AttributesInvalid) as refused:
        read_attributes(tmp_path / "file")

    assert faults_of(str(refused.value), (str(tmp_path / "file"), *named)) == []


@pytest.mark.parametrize(("path", "named"), [("/none/at/all", "No such file"), ("/", "directory"), ("a\0b", "NUL")])
def test_a_file_that_cannot_be_read_is_told(path: str, named: str) -> None:
    with pytest.raises(AttributesInvalid) as refused:
        read_attributes(Path(path))

    assert faults_of(str(refused.value), (path, named)) == []


def test_what_never_ends_is_no_attribute_file() -> None:
    with pytest.raises(AttributesInvalid, match="which no attribute file has"):
        read_attributes(Path("/dev/zero"))
