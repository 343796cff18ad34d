"""The attributes of a broker: read from a file, checked, and as the values that count for a service or a topic.

    attributes = read(Path("etbfile"))              # AttributesInvalid says all that is wrong
    attributes.broker.broker_id
    attributes.service("RPC", "SRV1", "CALLNAT")    # of the most specific definition, or None

A call, the definition of its service, what the section says for all services, the BROKER section, the
default: the first of these that says something counts. Durations are microseconds, sizes bytes; None
is unlimited, or nothing said.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from oms_journal.broker.attributes.keywords import DEFAULTS_OF_OMS, NAMES, NOT_CARRIED_OUT, OF_SECTION, WITHOUT_EFFECT
from oms_journal.broker.attributes.scopes import (
    Scope,
    Scopes,
    Setting,
    check_together,
    define_all,
    override,
    sort_entries,
)
from oms_journal.broker.attributes.text import AttributesInvalid, Fault, read_entries
from oms_journal.broker.block import UWSTATP_DEFAULT, UWSTATP_NO, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.durations import parse_duration
from oms_journal.broker.patterns import matches

BUILT_IN = "DEFAULTS=BROKER\n  DEFAULT-VALUES=OMS\n"
FILE_BYTES_MAX = 4 << 20  # of an attribute file; what never ends is none
_REMEMBERED_MAX = 10_000  # names whose definition is known without a search


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAttributes:
    """What holds for the whole broker."""

    default_values: str
    broker_id: str
    pstore: str
    pstore_type: str
    force_cold: bool
    pstore_report: bool
    store: Store
    max_uows: int | None  # 0: no units of work at all
    max_messages_in_uow: int
    max_uow_message_length: int
    uwstatp: int
    uwtime: int
    uwstat_lifetime: int
    deferred: bool
    max_delivery_count: int | None
    postpone_attempts: int
    postpone_delay: int
    client_nonact: int
    server_nonact: int
    conv_nonact: int
    num_conversation: int | None
    new_uow_messages: bool
    publish_and_subscribe: bool
    subscriber_store: str
    subscription_expiration: int | None
    publication_lifetime: int
    max_messages_in_publication: int
    max_publication_message_length: int
    subscriber_nonact: int
    run_mode: str
    partner_cluster_address: str | None
    handshake: bool
    control_interval: int
    max_takeover_attempts: int | None
    host: str
    stomp_port: int
    http_port: int
    stomp_tls_port: int
    users_file: str | None
    tls_certificate: str | None
    tls_key: str | None
    tls_ca: str | None
    insecure_network: bool
    http_names: str | None
    max_connections: int


class StatusTerms(NamedTuple):
    """How long a status is kept after completion: multiples of the lifetime, and a time given explicitly."""

    multiple: int
    explicit: int

    @property
    def is_persistent(self) -> bool:
        return bool(self.multiple or self.explicit)


NO_STATUS = StatusTerms(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAttributes:
    """What holds for the services of one definition; the names may hold `*`."""

    server_class: str
    server_name: str
    service: str
    store: Store
    max_uows: int | None  # 0: this service supports no units of work
    max_messages_in_uow: int
    max_uow_message_length: int
    uwstatp: int
    uwtime: int
    uwstat_lifetime: int
    deferred: bool
    max_delivery_count: int | None
    postpone_attempts: int
    postpone_delay: int
    server_nonact: int
    conv_nonact: int
    conv_limit: int | None

    def is_persistent(self, said: Store) -> bool:
        """Return whether a unit of work is persistent whose call says this."""
        return (self.store if said == Store.UNSAID else said) == Store.BROKER

    def lifetime(self, uwtime: str) -> int:
        """Return the lifetime of a unit of work whose call says this UWTIME."""
        return parse_duration(uwtime) if uwtime else self.uwtime

    def status_terms(self, uwstatp: int, uwstat_lifetime: str) -> StatusTerms:
        """Return how long the status of a unit of work is kept whose call says this."""
        if uwstatp == UWSTATP_NO:
            return NO_STATUS
        multiple = self.uwstatp if uwstatp == UWSTATP_DEFAULT else uwstatp
        return StatusTerms(multiple, parse_duration(uwstat_lifetime) if uwstat_lifetime else self.uwstat_lifetime)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAttributes:
    """What holds for the topics of one definition; the name may hold `*`."""

    topic: str
    store: Store  # of its publications
    allow_durable: bool
    allow_user_subscribe: bool
    auto_commit_for_subscriber: bool
    subscription_expiration: int | None
    publication_lifetime: int
    max_messages_in_publication: int
    max_publication_message_length: int
    subscriber_nonact: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalAttributes:
    """The message database as the store."""

    spool_directory: str | None
    max_data_file_size: int
    max_message_size: int | None  # None: what the longest message of any service or topic needs
    msg_cleanup_interval: int
    retention_directory: str | None
    retention_age: int | None
    retention_bytes: int | None
    min_free_space: int
    force_cold: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteAttributes:
    """An SQLite database as the store."""

    database_file: str | None
    min_free_space: int
    force_cold: bool


T = TypeVar("T")
_FIELD_OF_NAME = {"CLASS": "server_class", "SERVER": "server_name", "SERVICE": "service", "TOPIC": "topic"}


class Definitions(Generic[T]):
    """The definitions of services or of topics, the most specific first.

    Class comes before server and server before service: of each an exact name is more specific than a
    pattern, and of two patterns the one that says more characters.
    """

    def __init__(self, make: type[T], scopes: Scopes, section: str) -> None:
        scoped = sorted(scopes.definitions[section], key=_specificity, reverse=True)
        self._patterns = [_names(scope) for scope in scoped]
        self._attributes = [
            _made(make, scopes.effective(scope), **{_FIELD_OF_NAME[key]: name for key, name in scope.names.items()})
            for scope in scoped
        ]
        self._remembered: dict[tuple[str, ...], T | None] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def find(self, names: tuple[str, ...]) -> T | None:
        """Return the attributes of the most specific definition that fits the names."""
        try:
            return self._remembered[names]
        except KeyError:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[names] = found = next(
                (
                    attributes
                    for patterns, attributes in zip(self._patterns, self._attributes, strict=True)
                    if all(matches((pattern,), name) for pattern, name in zip(patterns, names, strict=True))
                ),
                None,
            )
            return found


def _names(scope: Scope) -> list[str]:
    return [scope.names[name] for name in NAMES[scope.section]]


def _of_service(found: ServiceAttributes) -> tuple[str, str, str]:
    return found.server_class, found.server_name, found.service


def _specificity(scope: Scope) -> list[tuple[bool, int]]:
    return [("*" not in name, len(name.replace("*", ""))) for name in _names(scope)]


def _made(make: type[T], settings: Mapping[str, Setting], **names: str) -> T:
    """Return the values of a scope; every field but the names is an attribute's."""
    values: dict[str, Any] = {name.lower().replace("-", "_"): setting.value for name, setting in settings.items()}
    known = {field.name for field in fields(make)}  # type: ignore[arg-type]
    return make(**{name: value for name, value in (values | names).items() if name in known})


class Shown(NamedTuple):
    """An effective value, to be shown: where it holds, and the line that says it (0: none does)."""

    section: str
    definition: str
    keyword: str
    value: str
    line: int


class Attributes:
    """All attributes of a broker, checked. Made by `read_attributes`, `parse_attributes` and `built_in`."""

    def __init__(self, scopes: Scopes) -> None:
        self.file = scopes.file
        self.journal = _made(JournalAttributes, scopes.effective(scopes.sections["JOURNAL"]))
        self.sqlite = _made(SqliteAttributes, scopes.effective(scopes.sections["SQLITE"]))
        self.services = Definitions(ServiceAttributes, scopes, "SERVICE")
        self.topics = Definitions(TopicAttributes, scopes, "TOPIC")
        broker = _made(BrokerAttributes, scopes.effective(scopes.sections["BROKER"]))
        self.broker = replace(broker, force_cold=any(each.force_cold for each in (broker, self.journal, self.sqlite)))
        self._scopes = scopes

    def service(self, server_class: str, server_name: str, service: str) -> ServiceAttributes | None:
        """Return what holds for the service, of its most specific definition; None where there is none."""
        return self.services.find((server_class, server_name, service))

    def topic(self, name: str) -> TopicAttributes | None:
        """Return what holds for the topic, of its most specific definition; None where there is none."""
        return self.topics.find((name,))

    def unsaid(self, server_class: str, server_name: str, service: str) -> str:
        """Return the attribute whose default keeps what is sent to a service out of the store: PSTORE or STORE.

        "" where it is stored, and where somebody has said that it is not to be.
        """
        if self.broker.pstore == "NO":
            return "" if self._scopes.is_said(self._scopes.sections["BROKER"], "PSTORE") else "PSTORE"
        found = self.service(server_class, server_name, service)
        if found is None or found.store == Store.BROKER:
            return ""
        names = [found.server_class, found.server_name, found.service]
        scope = next(each for each in self._scopes.definitions["SERVICE"] if _names(each) == names)
        return "" if self._scopes.is_said(scope, "STORE") else "STORE"

    def warnings(self) -> list[str]:
        """Return what somebody should know who may have meant something else."""
        found = [self.refuses_units] if self.refuses_units else []
        found += self._without_effect()
        if self.broker.pstore == "NO":
            why = "since nobody has said PSTORE: say PSTORE=WARM, or NO if you want that"
            return [*found, f"nothing is stored, {why if self.unsaid('', '', '') else 'with PSTORE=NO'}"]
        names = (_of_service(each) for each in self.services)
        return found + [
            f"nothing that is sent to {'/'.join(each)} is stored, since nobody has said STORE: say STORE=BROKER, "
            "or OFF if you want that"
            for each in names
            if self.unsaid(*each)
        ]

    def _without_effect(self) -> Iterator[str]:
        """Yield what the file says and this broker does not carry out."""
        drivers = {"JOURNAL", "SQLITE"} - {self.broker.pstore_type}
        for scope in [*self._scopes.sections.values(), *chain.from_iterable(self._scopes.definitions.values())]:
            for name, setting in scope.settings.items():
                where = f"{name}={setting.text} of {scope.section}"
                if name in NOT_CARRIED_OUT:
                    yield f"{where} has no effect: {NOT_CARRIED_OUT[name]}"
                elif (
                    scope.section in drivers
                    and setting.line
                    and setting.text != OF_SECTION[scope.section][name].default
                ):
                    yield f"{where} has no effect: it counts with PSTORE-TYPE={scope.section}"

    @property
    def refuses_units(self) -> str:
        """Why no unit of work is taken though nobody has said so, "" where some are."""
        if self.broker.max_uows != 0 or self._scopes.is_said(self._scopes.sections["BROKER"], "MAX-UOWS"):
            return ""
        return "no unit of work is taken, since MAX-UOWS of BROKER is not said: say how many may be there, or UNLIM"

    def differences(self) -> list[str]:
        """Return the defaults of EntireX that count here and are others without a file, as `PSTORE=NO`."""
        if self._scopes.has_oms_defaults:
            return []
        broker = self._scopes.sections["BROKER"]
        found = self._scopes.effective(broker)
        return [
            f"{name}={found[name].text or 'nothing'}"
            for name in DEFAULTS_OF_OMS
            if name in found and not self._scopes.is_said(broker, name) and found[name].text != DEFAULTS_OF_OMS[name]
        ]

    def longest_message(self) -> int:
        """Return how long a message of any service or topic may be."""
        lengths = [service.max_uow_message_length for service in self.services]
        return max([*lengths, *(topic.max_publication_message_length for topic in self.topics)])

    def effective_values(self) -> Iterator[Shown]:
        """Yield every effective value, section by section, as a file would say it."""
        for section, scope in self._scopes.sections.items():
            if section not in NAMES and (section not in WITHOUT_EFFECT or scope.settings):
                yield from self._shown(scope)
            for defined in self._scopes.definitions.get(section, ()):
                yield from self._shown(defined)

    def _shown(self, scope: Scope) -> Iterator[Shown]:
        definition = "/".join(_names(scope)) if scope.names else ""
        for name, setting in self._scopes.effective(scope).items():
            yield Shown(scope.section, definition, name, setting.text, setting.line)


def read_attributes(path: Path, **given: str) -> Attributes:
    """Return the attributes of a file; `given` are values in the place of its own. AttributesInvalid."""
    return parse_attributes(_text_of(path), str(path), **given)


def _text_of(path: Path) -> str:
    """Return the text of an attribute file. AttributesInvalid."""
    line = 0
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) <= FILE_BYTES_MAX:
            return data.decode()
        reason = f"it has more than {FILE_BYTES_MAX:,} bytes, which no attribute file has"
    except OSError as failure:
        reason = failure.strerror or "it cannot be read"
    except UnicodeDecodeError as failure:
        line = failure.object.count(b"\n", 0, failure.start) + 1
        reason = "it is not UTF-8; save it in UTF-8"
    except ValueError:
        reason = "no file has a NUL in its path"
    raise AttributesInvalid([Fault(str(path), line, "", reason, Code.ATTRIBUTES_UNREADABLE)])


def built_in(**given: str) -> Attributes:
    """Return the attributes of a broker without a file: `built_in(broker_id="ME", spool_directory="spool")`."""
    return parse_attributes(BUILT_IN, "built-in defaults", **given)


def parse_attributes(text: str, file: str = "attributes", **given: str) -> Attributes:
    """Return the attributes of a text; `given` are values in the place of its own. AttributesInvalid."""
    faults: list[Fault] = []
    scopes = Scopes(file, faults)
    entries = read_entries(text, file, faults)
    if len(entries) + len(faults) > 1 and not any(entry.keyword == "DEFAULTS" for entry in entries):
        reason = "this is no attribute file: it has no line like DEFAULTS=BROKER, which begins a section"
        raise AttributesInvalid([Fault(file, 0, "", reason, Code.VALUE_INVALID)])
    sort_entries(entries, scopes)
    override(given, scopes)
    define_all(scopes)
    if not faults:
        check_together(scopes)
    if faults:
        raise AttributesInvalid(sorted(faults, key=lambda fault: fault.line))
    return Attributes(scopes)


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the environment says in the names of the message server's options, to be `given`."""
    names = {keyword.name.replace("-", "_"): keyword.attribute for keyword in OF_SECTION["JOURNAL"].values()}
    ours = {"FORCE_COLD", "TRACE_LEVEL"}  # too much could mean these
    return {names[name]: environ[name] for name in names if name not in ours and environ.get(name)}
