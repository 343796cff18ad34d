"""The attribute file: what it may say, what counts where, and every way to be wrong with its line and name."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oms_journal.broker.attributes.attributes import (
    NO_STATUS,
    Attributes,
    BrokerAttributes,
    JournalAttributes,
    ServiceAttributes,
    SqliteAttributes,
    StatusTerms,
    TopicAttributes,
    built_in,
    from_environment,
    parse_attributes,
    read_attributes,
)
from oms_journal.broker.attributes.keywords import CANONICAL, KEYWORDS, NOT_CARRIED_OUT, OF_SECTION, SECTIONS
from oms_journal.broker.attributes.text import AttributesInvalid, Fault
from oms_journal.broker.block import Store
from oms_journal.broker.codes import Code
from oms_journal.broker.durations import MICROSECONDS, NEVER
from tests.support.sweeps import for_each

MINUTE, DAY = 60 * MICROSECONDS, 86400 * MICROSECONDS
SERVICE = "DEFAULTS=SERVICE\nCLASS=* SERVER=* SERVICE=*\n"


def of_broker(text: str) -> BrokerAttributes:
    return parse_attributes(f"DEFAULTS=BROKER\n{text}\n{SERVICE}").broker


def service(attributes: Attributes, name: str) -> ServiceAttributes:
    found = attributes.service(*name.split("/"))
    assert found is not None
    return found


def faults(text: str) -> list[Fault]:
    with pytest.raises(AttributesInvalid) as caught:
        parse_attributes(text, "etbfile")
    return caught.value.faults


def fault(text: str) -> Fault:
    (only,) = faults(text)
    return only


# What a file says.


def test_the_example_of_the_manual_reads() -> None:
    """EntireX 9.6, Managing the Broker Persistent Store: the least that a file says, with a driver of ours."""
    attributes = parse_attributes(
        """
        DEFAULTS=BROKER
        STORE           = BROKER
        PSTORE         = HOT
        PSTORE-TYPE    = JOURNAL
        DEFAULTS=ADABAS
        DBID           = 10
        FNR           = 20
        DEFAULTS=NET
        ADASVC        = 249
        """
        + SERVICE
    )

    assert (attributes.broker.store, attributes.broker.pstore) == (Store.BROKER, "HOT")
    assert attributes.broker.pstore_type == "JOURNAL"


@pytest.mark.parametrize("driver", ["ADABAS", "DIV", "CTREE"])
def test_a_driver_that_is_not_here_is_refused_with_those_that_are(driver: str) -> None:
    found = fault(f"DEFAULTS=BROKER\nPSTORE-TYPE={driver}\n{SERVICE}")

    assert found.line == 2
    assert "JOURNAL and SQLITE" in found.reason


def test_the_defaults_of_a_file_are_those_of_the_manual() -> None:
    """EntireX, Using Persistence and Units of Work: the attributes for units of work."""
    found = of_broker("")

    assert (found.store, found.max_uows, found.max_messages_in_uow) == (Store.OFF, 0, 16)
    assert (found.pstore, found.uwstatp, found.uwtime) == ("NO", 0, DAY)
    assert (found.max_uow_message_length, found.deferred) == (31647, False)
    assert (found.run_mode, found.control_interval) == ("STANDARD", 60 * MICROSECONDS)
    assert (found.pstore_report, found.handshake, found.new_uow_messages) == (False, True, True)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("MUOW=5", "max_uows", 5),
        ("MAX-UOWS=UNLIM", "max_uows", None),
        ("UMSG=7", "max_messages_in_uow", 7),
        ("UWTIME=5M", "uwtime", 5 * MINUTE),
        ("UOW-DATA-LIFETIME=1D", "uwtime", DAY),
        ("UWTIME=90", "uwtime", 90 * MICROSECONDS),
        ("UWTIME=unlim", "uwtime", NEVER),
        ("UWSTATP=254", "uwstatp", 254),
        ("UOW-STATUS-LIFETIME=1H", "uwstat_lifetime", 60 * MINUTE),
        ("store=broker", "store", Store.BROKER),
        ("STORE=NO", "store", Store.OFF),
        ("max_uow_message_length=1M", "max_uow_message_length", 1 << 20),
        ('BROKER-ID="MY BROKER"', "broker_id", "MY BROKER"),
        ("FORCE-COLD=Y", "force_cold", True),
        ("DEFERRED = yes", "deferred", True),
        ("PARTNER-CLUSTER-ADDRESS=HOST2:1972:TCP", "partner_cluster_address", "HOST2:1972:TCP"),
        ("SUBSCRIBER-STORE=PSTORE", "subscriber_store", "PSTORE"),
    ],
)
def test_a_value_reads_in_its_long_and_its_short_form(text: str, name: str, value: Any) -> None:
    assert getattr(of_broker(text), name) == value


def test_several_values_stand_on_a_line_with_comments_blanks_and_commas_between() -> None:
    attributes = parse_attributes(
        """* first
        # second
        defaults=broker BROKER-ID = ME STORE=BROKER,PSTORE=COLD
           * third

        DEFAULTS=SERVICE
        CLASS=A, SERVER="B C", SERVICE=*
        """
    )

    assert (attributes.broker.broker_id, attributes.broker.pstore) == ("ME", "COLD")
    assert [one.server_name for one in attributes.services] == ["B C"]


def test_the_store_sections_say_where_and_how() -> None:
    """Stonebranch, OMS Server Message Database: the server's options under their own names, in both spellings."""
    attributes = parse_attributes(
        "DEFAULTS=JOURNAL SPOOL_DIRECTORY=/var/spool MAX_DATA_FILE_SIZE=50M MSG_CLEANUP_INTERVAL=10 FORCE-COLD=Y\n"
        "RETENTION-DIRECTORY=/old RETENTION-AGE=7D RETENTION-BYTES=1G MIN-FREE-SPACE=100M\n"
        f"DEFAULTS=SQLITE DATABASE-FILE=store.db\n{SERVICE}"
    )

    journal = attributes.journal
    assert (journal.spool_directory, journal.max_data_file_size) == ("/var/spool", 50 << 20)
    assert journal.msg_cleanup_interval == 10 * MINUTE, "a bare number is minutes, as in the server's own option"
    assert (journal.retention_directory, journal.retention_age) == ("/old", 7 * DAY)
    assert (journal.retention_bytes, journal.min_free_space) == (1 << 30, 100 << 20)
    assert attributes.sqlite.database_file == "store.db"
    assert attributes.broker.force_cold, "wherever it is said"


def test_every_attribute_has_its_place_in_the_effective_values() -> None:
    classes = {
        "BROKER": BrokerAttributes,
        "SERVICE": ServiceAttributes,
        "TOPIC": TopicAttributes,
        "JOURNAL": JournalAttributes,
        "SQLITE": SqliteAttributes,
    }
    for section, values in classes.items():
        names = {"SERVICE": {"server_class", "server_name", "service"}, "TOPIC": {"topic"}}.get(section, set())
        keywords = OF_SECTION[section].values()
        found = {field.name for field in fields(values)} - names
        assert found <= {each.attribute for each in keywords}
        assert found >= {each.attribute for each in keywords if each.name not in NOT_CARRIED_OUT}


def test_every_default_is_a_value_that_the_attribute_takes() -> None:
    for keyword in KEYWORDS:
        if keyword.default:
            keyword.read(keyword.default)
    assert len(CANONICAL) == sum(1 + len(keyword.short) for keyword in KEYWORDS), "no two share a name"


def test_every_attribute_of_the_manuals_is_known() -> None:
    """The three EntireX seeds, and the later names of the same attributes."""
    named = {
        *("STORE", "MAX-UOWS", "MUOW", "MAX-MESSAGES-IN-UOW", "UMSG", "PSTORE", "UWSTATP", "UWTIME", "DEFERRED"),
        *("MAX-UOW-MESSAGE-LENGTH", "PSTORE-TYPE", "FORCE-COLD", "DBID", "FNR", "ADASVC", "PSTORE-REPORT", "RUN-MODE"),
        *("PARTNER-CLUSTER-ADDRESS", "HANDSHAKE", "PSTORE-VERSION", "CONTROL-INTERVAL", "MAX-TAKEOVER-ATTEMPTS"),
        *("SUBSCRIBER-STORE", "SUBSCRIPTION-EXPIRATION", "PUBLICATION-LIFETIME", "ALLOW-DURABLE", "NEW-UOW-MESSAGES"),
        *("UOW-DATA-LIFETIME", "UOW-STATUS-LIFETIME", "UWSTAT-LIFETIME", "CLIENT-NONACT", "SERVER-NONACT"),
        *("CONV-NONACT", "TRACE-LEVEL", "SPOOL-DIRECTORY", "MAX-DATA-FILE-SIZE", "MSG-CLEANUP-INTERVAL"),
    }

    assert named <= set(CANONICAL)


# What counts where.

LEVELS = """
DEFAULTS=BROKER
  STORE=BROKER UWSTATP=3 UWTIME=1H MAX-UOWS=100 DEFERRED=YES CONV-NONACT=1M
DEFAULTS=SERVICE
  STORE=OFF UMSG=9
  CLASS=A SERVER=B SERVICE=C   STORE=BROKER UWSTATP=0 UWTIME=2H
  CLASS=A SERVER=B SERVICE=D   MUOW=5 UWSTAT-LIFETIME=1M
"""


def test_a_definition_says_more_than_its_section_and_its_section_more_than_the_broker() -> None:
    attributes = parse_attributes(LEVELS)
    c, d = service(attributes, "A/B/C"), service(attributes, "A/B/D")

    assert (c.store, d.store, attributes.broker.store) == (Store.BROKER, Store.OFF, Store.BROKER)
    assert (c.uwstatp, d.uwstatp) == (0, 3)
    assert (c.uwtime, d.uwtime) == (120 * MINUTE, 60 * MINUTE)
    assert (c.max_uows, d.max_uows) == (100, 5)
    assert (c.max_messages_in_uow, d.max_messages_in_uow, attributes.broker.max_messages_in_uow) == (9, 9, 16)
    assert c.deferred and c.conv_nonact == MINUTE


@for_each("broker", ["", "STORE=OFF", "STORE=BROKER"])
@for_each("section", ["", "STORE=OFF", "STORE=BROKER"])
@for_each("definition", ["", "STORE=OFF", "STORE=BROKER"])
@for_each("call", list(Store))
def test_of_store_the_call_counts_then_the_service_then_the_broker(
    broker: str, section: str, definition: str, call: Store
) -> None:
    """EntireX, Using Persistence and Units of Work: STORE=NO in the request overrides any default."""
    attributes = parse_attributes(
        f"DEFAULTS=BROKER\n{broker}\nDEFAULTS=SERVICE\n{section}\nCLASS=A SERVER=B SERVICE=C {definition}"
    )
    said = {Store.OFF: "STORE=OFF", Store.BROKER: "STORE=BROKER", Store.UNSAID: ""}[call]
    first = next((one for one in (said, definition, section, broker) if one), "STORE=OFF")

    assert service(attributes, "A/B/C").is_persistent(call) == (first == "STORE=BROKER")


@for_each("broker", [None, 0, 2])
@for_each("definition", [None, 0, 3])
@for_each("call", [0, 1, 254, 255])
def test_of_uwstatp_the_call_counts_then_the_service_then_the_broker(
    broker: int | None, definition: int | None, call: int
) -> None:
    """EntireX, Using Persistence and Units of Work: 255 makes the status non-persistent, whatever the defaults."""
    texts = ["" if value is None else f"UWSTATP={value}" for value in (broker, definition)]
    attributes = parse_attributes(
        f"DEFAULTS=BROKER\n{texts[0]}\nDEFAULTS=SERVICE\nCLASS=A SERVER=B SERVICE=C {texts[1]}"
    )
    by_attribute = next((value for value in (definition, broker) if value is not None), 0)

    terms = service(attributes, "A/B/C").status_terms(call, "")

    assert terms.multiple == {0: by_attribute, 255: 0}.get(call, call)
    assert terms.is_persistent == bool(terms.multiple)


def test_a_status_is_kept_for_a_time_given_explicitly_too() -> None:
    d = service(parse_attributes(LEVELS), "A/B/D")
    c = service(parse_attributes(LEVELS), "A/B/C")

    assert d.status_terms(0, "") == StatusTerms(3, MINUTE)
    assert d.status_terms(7, "5M") == StatusTerms(7, 5 * MINUTE)
    assert c.status_terms(0, "5M") == StatusTerms(0, 5 * MINUTE)
    assert c.status_terms(0, "5M").is_persistent
    assert c.status_terms(255, "5M") == NO_STATUS


def test_a_lifetime_is_the_calls_or_the_services() -> None:
    c = service(parse_attributes(LEVELS), "A/B/C")

    assert (c.lifetime(""), c.lifetime("30S")) == (120 * MINUTE, 30 * MICROSECONDS)


def test_the_most_specific_definition_wins_wherever_it_stands() -> None:
    attributes = parse_attributes(
        """DEFAULTS=SERVICE
        CLASS=* SERVER=* SERVICE=*          UMSG=1
        CLASS=RPC SERVER=* SERVICE=*        UMSG=2
        CLASS=RPC SERVER=SRV* SERVICE=*     UMSG=3
        CLASS=RPC SERVER=SRV1* SERVICE=*    UMSG=4
        CLASS=RPC SERVER=SRV1 SERVICE=CALL  UMSG=5
        CLASS=RPC SERVER=*1 SERVICE=CALL    UMSG=6
        """
    )
    expected = {"X/Y/Z": 1, "RPC/OTHER/Z": 2, "RPC/SRV2/Z": 3, "RPC/SRV12/Z": 4, "RPC/SRV1/CALL": 5, "RPC/A1/CALL": 6}

    assert {name: service(attributes, name).max_messages_in_uow for name in expected} == expected


def test_a_service_without_a_definition_is_none_and_names_keep_their_case() -> None:
    attributes = parse_attributes("DEFAULTS=SERVICE\nCLASS=A SERVER=B.C SERVICE=D")

    assert attributes.service("A", "B.C", "D") is not None
    assert attributes.service("A", "BxC", "D") is None, "a dot is a dot"
    assert attributes.service("a", "B.C", "D") is None
    assert attributes.service("A", "B.C", "D2") is None


def test_topics_keep_their_publications_where_they_may_be_durable() -> None:
    attributes = parse_attributes(
        """DEFAULTS=BROKER STORE=BROKER PUBLICATION-LIFETIME=2D
        DEFAULTS=TOPIC
        TOPIC=NYSE ALLOW-DURABLE=YES
        TOPIC=NEWS
        TOPIC=LOG* STORE=BROKER ALLOW-USER-SUBSCRIBE=NO PUBLICATION-LIFETIME=1H
        """
    )
    found = {name: attributes.topic(name) for name in ("NYSE", "NEWS", "LOG1", "OTHER")}

    assert found["OTHER"] is None
    assert [topic.store for topic in found.values() if topic] == [Store.BROKER, Store.OFF, Store.BROKER]
    assert [topic.publication_lifetime for topic in found.values() if topic] == [2 * DAY, 2 * DAY, 60 * MINUTE]
    assert attributes.broker.publish_and_subscribe
    assert not of_broker("").publish_and_subscribe


# Without a file.


def test_the_built_in_defaults_make_everything_work() -> None:
    attributes = built_in()
    found, topic = service(attributes, "ANY/SERVICE/AT-ALL"), attributes.topic("ANY")

    assert (found.store, found.deferred, found.uwtime, found.max_uows) == (Store.BROKER, True, NEVER, None)
    assert (found.max_messages_in_uow, found.max_uow_message_length) == (10_000, 6_144_000)
    assert attributes.broker.pstore == "WARM"
    assert topic is not None and topic.allow_durable and topic.store is Store.BROKER
    assert topic.subscription_expiration == NEVER


def test_values_given_beside_the_file_or_the_defaults_win(tmp_path: Path) -> None:
    (tmp_path / "etbfile").write_text(f"DEFAULTS=BROKER BROKER-ID=ME PSTORE=HOT\n{SERVICE}")
    attributes = read_attributes(
        tmp_path / "etbfile", pstore="COLD", spool_directory="/spool", max_data_file_size="50M"
    )

    assert (attributes.broker.broker_id, attributes.broker.pstore) == ("ME", "COLD")
    assert (attributes.journal.spool_directory, attributes.journal.max_data_file_size) == ("/spool", 50 << 20)
    assert built_in(broker_id="ME").broker.broker_id == "ME"
    assert built_in(max_message_size="1M").longest_message() == 1 << 20
    assert built_in().longest_message() == 6_144_000
    with pytest.raises(AttributesInvalid, match="nonsense: there is no such attribute"):
        built_in(nonsense="1")
    with pytest.raises(AttributesInvalid, match="PSTORE: TEPID is none of NO, HOT, COLD, WARM"):
        built_in(pstore="TEPID")


def test_the_environment_says_what_the_message_server_reads_from_it() -> None:
    environ = {"SPOOL_DIRECTORY": "/spool", "MSG_CLEANUP_INTERVAL": "5", "MAX_DATA_FILE_SIZE": "", "TRACE_LEVEL": "x"}
    given = from_environment(environ)

    assert given == {"spool_directory": "/spool", "msg_cleanup_interval": "5"}
    assert built_in(**given).journal.msg_cleanup_interval == 5 * MINUTE


# What is wrong.


@for_each(
    ("line", "keyword", "reason", "code"),
    [
        ("PSTORE=TEPID", "PSTORE", "TEPID is none of NO, HOT, COLD, WARM", Code.VALUE_INVALID),
        ("PSTORE=", "PSTORE", "its value is missing", Code.VALUE_INVALID),
        ("PSTORE= STORE=OFF", "PSTORE", "its value is missing", Code.VALUE_INVALID),
        ('BROKER-ID=""', "BROKER-ID", "its value is missing", Code.VALUE_INVALID),
        ("BROKER-ID", "BROKER-ID", "this is not NAME=value", Code.VALUE_INVALID),
        ("=HOT", "=", "this is not NAME=value", Code.VALUE_INVALID),
        ('BROKER-ID="ME', "BROKER-ID", "its value cannot be read", Code.VALUE_INVALID),
        ("PSTOR=HOT", "PSTOR", "there is no such attribute; is it PSTORE?", Code.UNKNOWN_KEYWORD),
        ("ALLOW-DURABLE=YES", "ALLOW-DURABLE", "it does not belong to BROKER but to TOPIC", Code.UNKNOWN_KEYWORD),
        ("MUOW=1 MAX-UOWS=1", "MAX-UOWS", "it is said already in line 2", Code.VALUE_INVALID),
        ("STORE=OFF\nSTORE=OFF", "STORE", "it is said already in line 2", Code.VALUE_INVALID),
        ("MAX-UOWS=many", "MAX-UOWS", "many is not a whole number", Code.VALUE_INVALID),
        ("UWSTATP=255", "UWSTATP", "255 is out of range, 0 to 254", Code.VALUE_OUT_OF_RANGE),
        ("UMSG=0", "UMSG", "0 is out of range", Code.VALUE_OUT_OF_RANGE),
        ("UWTIME=0S", "UWTIME", "0S is no time at all", Code.VALUE_OUT_OF_RANGE),
        ("UWTIME=1W", "UWTIME", "is not a duration", Code.VALUE_INVALID),
        ("DEFERRED=MAYBE", "DEFERRED", "MAYBE is neither YES nor NO", Code.VALUE_NOT_YES_OR_NO),
        (f"BROKER-ID={'X' * 33}", "BROKER-ID", "it has at most 32 bytes", Code.VALUE_TOO_LONG),
        ("MAX-UOW-MESSAGE-LENGTH=2G", "MAX-UOW-MESSAGE-LENGTH", "out of range", Code.VALUE_OUT_OF_RANGE),
        ("MAX-UOW-MESSAGE-LENGTH=big", "MAX-UOW-MESSAGE-LENGTH", "is not a size", Code.VALUE_INVALID),
        ("PARTNER-CLUSTER-ADDRESS=HOST2", "PARTNER-CLUSTER-ADDRESS", "host:port:TCP", Code.VALUE_INVALID),
        ("CLASS=A", "CLASS", "it does not belong to BROKER but to SERVICE", Code.UNKNOWN_KEYWORD),
        ("DEFAULTS=NOWHERE", "DEFAULTS", "NOWHERE is no section; there are BROKER", Code.VALUE_INVALID),
    ],
)
def test_an_error_names_file_line_and_attribute(line: str, keyword: str, reason: str, code: Code) -> None:
    found = fault(f"DEFAULTS=BROKER\n{line}\n{SERVICE}")

    assert (found.file, found.line, found.keyword) == ("etbfile", 3 if "\n" in line else 2, keyword)
    assert reason in found.reason
    assert found.code is code
    assert str(found).startswith(f"etbfile, line {found.line}: {keyword}: ")


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_lines() -> None:
    found = faults(
        f"A=1\nDEFAULTS=BROKER\nPSTORE=TEPID\nDEFAULTS=SERVICE\nSERVER=X\nCLASS=A SERVER=B\nUMSG=0\n{SERVICE}"
    )

    assert [(one.line, one.keyword) for one in found] == [
        (1, "A"),
        (3, "PSTORE"),
        (5, "SERVER"),
        (6, "SERVICE"),
        (7, "UMSG"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "keyword"),
    [
        ("CLASS=A SERVER=B", 2, "SERVICE"),
        ("CLASS=A SERVICE=B", 2, "SERVER"),
        ("SERVER=B", 2, "SERVER"),
        ("CLASS=A SERVER=B SERVICE=C\nCLASS=A SERVER=B SERVICE=C", 3, "CLASS"),
        ("CLASS=A SERVER=B SERVER=B SERVICE=C", 2, "SERVER"),
        (f"CLASS={'X' * 33} SERVER=B SERVICE=C", 2, "CLASS"),
        ("CLASS=A SERVER=B SERVICE=C UMSG=1 UMSG=2", 2, "UMSG"),
    ],
)
def test_a_definition_that_is_not_whole_or_stands_twice_is_refused(text: str, line: int, keyword: str) -> None:
    found = fault(f"DEFAULTS=SERVICE\n{text}")

    assert (found.line, found.keyword) == (line, keyword)


def test_one_service_may_say_what_another_said() -> None:
    attributes = parse_attributes(
        "DEFAULTS=SERVICE\nUMSG=3\nCLASS=A SERVER=B SERVICE=C UMSG=1\nCLASS=A SERVER=B SERVICE=D UMSG=1"
    )

    assert [one.max_messages_in_uow for one in attributes.services] == [1, 1]


def test_a_file_that_defines_nothing_is_refused() -> None:
    assert fault("DEFAULTS=BROKER\nSTORE=BROKER").code is Code.SERVICE_SECTION_MISSING


def test_a_subscriber_store_needs_to_know_when_subscriptions_end() -> None:
    """EntireX 8.0, Concepts of Persistent Messaging: SUBSCRIPTION-EXPIRATION must be defined."""
    text = "DEFAULTS=BROKER SUBSCRIBER-STORE=PSTORE\nDEFAULTS=TOPIC\nTOPIC=NYSE ALLOW-DURABLE=YES\nTOPIC=NEWS\n"
    found = fault(text)

    assert (found.line, found.keyword) == (3, "SUBSCRIPTION-EXPIRATION")
    assert parse_attributes(text.replace("YES", "YES SUBSCRIPTION-EXPIRATION=10D")).topic("NYSE") is not None


@pytest.mark.parametrize(("mode", "start"), [("PSTORE-LOAD", "COLD"), ("PSTORE-UNLOAD", "HOT"), ("STANDBY", "HOT")])
def test_a_run_mode_takes_its_kind_of_start_and_a_partner(mode: str, start: str) -> None:
    """EntireX 8.0, Concepts of Persistent Messaging: what unload, load and standby brokers must set."""
    wrong = "COLD" if start == "HOT" else "HOT"
    text = f"DEFAULTS=BROKER\nRUN-MODE={mode}\nPARTNER-CLUSTER-ADDRESS=HOST2:1972:TCP\nPSTORE="

    assert parse_attributes(text + start + "\n" + SERVICE).broker.run_mode == mode
    assert (fault(text + wrong + "\n" + SERVICE).line, fault(text + wrong + "\n" + SERVICE).keyword) == (4, "PSTORE")
    alone = fault(f"DEFAULTS=BROKER\nRUN-MODE={mode}\nPSTORE={start}\n{SERVICE}")
    assert (alone.line, alone.keyword) == (2, "PARTNER-CLUSTER-ADDRESS")


def test_no_message_may_be_longer_than_the_store_takes() -> None:
    found = fault(f"DEFAULTS=BROKER\nMAX-UOW-MESSAGE-LENGTH=2M\nDEFAULTS=JOURNAL MAX-MESSAGE-SIZE=1M\n{SERVICE}")

    assert (found.line, found.keyword) == (2, "MAX-UOW-MESSAGE-LENGTH")


@pytest.mark.parametrize("data", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_an_error_of_the_same_kind(data: bytes | None, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "etbfile").write_bytes(data)
    with pytest.raises(AttributesInvalid) as caught:
        read_attributes(tmp_path / "etbfile")

    assert caught.value.faults[0].code is Code.ATTRIBUTES_UNREADABLE
    assert str(tmp_path / "etbfile") in str(caught.value)


@given(st.text(alphabet='ABCDEFSTORE=* \n,"#-_1', max_size=200))
def test_whatever_stands_in_a_file_it_is_read_or_told_what_is_wrong(text: str) -> None:
    try:
        parse_attributes(f"DEFAULTS=BROKER\n{text}\n{SERVICE}")
    except AttributesInvalid as invalid:
        assert invalid.faults


def test_what_is_shown_could_be_read_again() -> None:
    attributes = parse_attributes(LEVELS)
    lines, last = [], ("", "")
    for shown in attributes.effective_values():
        if (shown.section, shown.definition) != last:
            last = (shown.section, shown.definition)
            lines.append(f"DEFAULTS={shown.section}")
            names = zip(("CLASS", "SERVER", "SERVICE"), shown.definition.split("/"), strict=False)
            lines += [f"{name}={value}" for name, value in names if value]
        if shown.value:
            lines.append(f"{shown.keyword}={shown.value}")
    again = parse_attributes("\n".join(lines))

    assert again.broker == attributes.broker
    assert list(again.services) == list(attributes.services)
    assert {shown.section for shown in attributes.effective_values()} <= set(SECTIONS)
