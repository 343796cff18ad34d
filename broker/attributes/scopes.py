"""Which entry of an attribute file counts where: sections, definitions in them, and what they take over.

A scope holds what is said in one place: a section, or a definition in it. What a definition does not
say it takes from its section, then from BROKER, then from the default.

What attributes must say together: checked once each of them is right by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple

from oms_journal.broker.attributes.keywords import (
    CANONICAL,
    DEFAULTS_OF_OMS,
    NAME_BYTES_MAX,
    NAMES,
    OF_SECTION,
    SECTIONS,
    START_OF_MODE,
    BadValue,
    Keyword,
    Read,
    text_of,
)
from oms_journal.broker.attributes.text import Entry, Fault, quoted
from oms_journal.broker.codes import Code

# A topic is stored or not by what itself says.
_NOT_TAKEN_OVER = {("TOPIC", "STORE")}
_LENGTHS = ("MAX-UOW-MESSAGE-LENGTH", "MAX-PUBLICATION-MESSAGE-LENGTH")  # as long as the store takes


class Setting(NamedTuple):
    """A value that counts, and where it is said; line 0 for a default or one given beside the file."""

    value: Any
    text: str
    line: int


@dataclass(slots=True)
class Scope:
    """What one section or definition says; `names` are those of a definition."""

    section: str
    line: int = 0
    names: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Setting] = field(default_factory=dict)


@dataclass(slots=True)
class Scopes:
    """What a file says, section by section."""

    file: str
    faults: list[Fault]
    sections: dict[str, Scope] = field(default_factory=lambda: {name: Scope(name) for name in SECTIONS})
    definitions: dict[str, list[Scope]] = field(default_factory=lambda: {name: [] for name in NAMES})

    def fault(self, line: int, keyword: str, reason: str, code: Code = Code.VALUE_INVALID) -> None:
        self.faults.append(Fault(self.file, line, keyword, reason, code))

    def effective(self, scope: Scope) -> dict[str, Setting]:
        """Return every attribute of the scope's section with the value that counts there."""
        return {name: self._looked_up(scope, keyword) for name, keyword in OF_SECTION[scope.section].items()}

    def _looked_up(self, scope: Scope, keyword: Keyword) -> Setting:
        for place in self._places(scope, keyword.name):
            if keyword.name in place.settings:
                return place.settings[keyword.name]
        text = self._default(scope, keyword)
        return Setting(keyword.read(text) if text else None, text, 0)

    def is_said(self, scope: Scope, name: str) -> bool:
        """Return whether the scope, its section or BROKER says an attribute, or it is given beside the file."""
        return any(name in place.settings for place in self._places(scope, name))

    def _places(self, scope: Scope, name: str) -> list[Scope]:
        """Return where an attribute of the scope may be said, the first that says it counts."""
        places = [scope, self.sections[scope.section]]
        if scope.section in NAMES and (scope.section, name) not in _NOT_TAKEN_OVER:
            places.append(self.sections["BROKER"])
        return places

    @property
    def has_oms_defaults(self) -> bool:
        """Whether what is not said is as without a file."""
        said = self.sections["BROKER"].settings.get("DEFAULT-VALUES")
        return said is not None and said.value == "OMS"

    def _default(self, scope: Scope, keyword: Keyword) -> str:
        """Return the default; some follow from other values."""
        if scope.section == "TOPIC" and keyword.name == "STORE":
            is_durable = self._looked_up(scope, OF_SECTION["TOPIC"]["ALLOW-DURABLE"]).value
            return "BROKER" if is_durable else "OFF"
        if keyword.name == "PUBLISH-AND-SUBSCRIBE":
            return "YES" if self.definitions["TOPIC"] else "NO"
        if not self.has_oms_defaults or keyword.name not in DEFAULTS_OF_OMS:
            return keyword.default
        if keyword.name in _LENGTHS and "MAX-MESSAGE-SIZE" in self.sections["JOURNAL"].settings:
            return self.sections["JOURNAL"].settings["MAX-MESSAGE-SIZE"].text
        if keyword.name == "PSTORE":
            mode = self._looked_up(self.sections["BROKER"], OF_SECTION["BROKER"]["RUN-MODE"]).text.upper()
            return START_OF_MODE.get(mode, DEFAULTS_OF_OMS["PSTORE"])
        return DEFAULTS_OF_OMS[keyword.name]


def sort_entries(entries: Sequence[Entry], scopes: Scopes) -> None:
    """Put every entry where it belongs, and what cannot be put to the faults."""
    section, scope = "", None
    for entry in entries:
        if entry.keyword == "DEFAULTS":
            section = entry.value.upper()
            scope = scopes.sections.get(section)
            if scope is None:
                known = ", ".join(SECTIONS)
                scopes.fault(entry.line, "DEFAULTS", f"{quoted(entry.value)} is no section; there are {known}")
        elif scope is None:
            if not section:
                scopes.fault(entry.line, entry.keyword, "it stands before the first DEFAULTS=, as in DEFAULTS=BROKER")
        elif entry.keyword in NAMES.get(section, ()):
            scope = _name(entry, section, scope, scopes)
        else:
            note_entry(entry, scope, scopes)
    for scope in (scope for defined in scopes.definitions.values() for scope in defined):
        _check_names(scope, scopes)


def define_all(scopes: Scopes) -> None:
    """Define every service and every topic beside the file's own, where its defaults are those without a file."""
    if scopes.has_oms_defaults:
        for section, defined in scopes.definitions.items():
            names = dict.fromkeys(NAMES[section], "*")
            if all(scope.names != names for scope in defined):
                defined.append(Scope(section, names=names))


def _name(entry: Entry, section: str, scope: Scope, scopes: Scopes) -> Scope:
    """Begin a definition, or name the one that is begun; return it."""
    first = NAMES[section][0]
    if entry.keyword == first:
        scope = Scope(section, entry.line)
        scopes.definitions[section].append(scope)
    elif scope is scopes.sections[section]:
        scopes.fault(entry.line, entry.keyword, f"a definition begins with {first}=")
        return scope
    if entry.keyword in scope.names:
        scopes.fault(entry.line, entry.keyword, "it is said twice in one definition; remove one of them")
    try:
        scope.names[entry.keyword] = _read(text_of(NAME_BYTES_MAX[section]), entry)
    except BadValue as failure:
        scopes.fault(entry.line, entry.keyword, _reason(failure, entry.value), failure.code)
        scope.names[entry.keyword] = entry.value
    return scope


def note_entry(entry: Entry, scope: Scope, scopes: Scopes) -> None:
    """Note what the entry says in its scope."""
    known = OF_SECTION[scope.section]
    keyword = known.get(CANONICAL.get(entry.keyword, ""))
    if keyword is None:
        scopes.fault(entry.line, entry.keyword, _unknown(entry.keyword, scope.section), Code.UNKNOWN_KEYWORD)
        return
    said = scope.settings.get(keyword.name)
    if said is not None:
        where = f" in line {said.line}" if said.line else ""
        scopes.fault(entry.line, entry.keyword, f"it is said already{where}; remove one of the two")
        return
    try:
        scope.settings[keyword.name] = Setting(_read(keyword.read, entry), entry.value, entry.line)
    except BadValue as failure:
        scopes.fault(entry.line, entry.keyword, _reason(failure, entry.value), failure.code)


def _read(read: Read, entry: Entry) -> Any:
    """Return what the entry's value means. BadValue; also for an empty one that a file says."""
    found = read(entry.value)
    if not entry.value and entry.line:
        raise BadValue("an empty text is none; write it behind the =, in quotation marks where it has blanks")
    return found


def _reason(failure: BadValue, value: str) -> str:
    return str(failure) if value else f"its value is missing: {failure}"


def _unknown(name: str, section: str) -> str:
    elsewhere = [each for each in SECTIONS if CANONICAL.get(name) in OF_SECTION[each] or name in NAMES.get(each, ())]
    if elsewhere:
        return f"it does not belong to {section} but to {' or '.join(elsewhere)}"
    close = get_close_matches(name, OF_SECTION[section], n=1)
    return "there is no such attribute; " + (
        f"is it {close[0]}?" if close else "`oms attributes --example` shows which there are"
    )


def _check_names(scope: Scope, scopes: Scopes) -> None:
    for name in NAMES[scope.section]:
        if name not in scope.names:
            scopes.fault(scope.line, name, f"it is missing from the definition that begins here; add {name}=")
    twins = [other for other in scopes.definitions[scope.section] if other.names == scope.names]
    if twins[0] is not scope:
        scopes.fault(
            scope.line,
            NAMES[scope.section][0],
            f"the definition stands in line {twins[0].line} already; remove one of the two",
        )


def override(given: Mapping[str, str], scopes: Scopes) -> None:
    """Put values that are given beside the file in the place of its own."""
    for name, value in given.items():
        canonical = CANONICAL.get(name.upper().replace("_", "-"), "")
        sections = [each for each in ("BROKER", "JOURNAL", "SQLITE") if canonical in OF_SECTION[each]]
        if not sections:
            scopes.fault(0, name, _unknown(name.upper().replace("_", "-"), "BROKER"), Code.UNKNOWN_KEYWORD)
        for section in sections[:1] if sections[:1] == ["BROKER"] else sections:  # of the drivers each may be used
            scopes.sections[section].settings.pop(canonical, None)
            note_entry(Entry(0, canonical, value), scopes.sections[section], scopes)


def check_together(scopes: Scopes) -> None:
    """Add to the faults what is right by itself but not beside the rest."""
    said = scopes.effective(scopes.sections["BROKER"])
    if not any(scopes.definitions.values()):
        reason = (
            "no SERVICE and no TOPIC is defined, so that nothing could be sent; define one, or say DEFAULT-VALUES=OMS"
        )
        scopes.fault(0, "", reason, Code.SERVICE_SECTION_MISSING)
    _check_mode(scopes, said)
    for service in scopes.definitions["SERVICE"]:
        _check_length(scopes, service, "MAX-UOW-MESSAGE-LENGTH")
    for topic in scopes.definitions["TOPIC"]:
        _check_length(scopes, topic, "MAX-PUBLICATION-MESSAGE-LENGTH")
        _check_expiration(scopes, topic, said)


def _check_mode(scopes: Scopes, said: dict[str, Setting]) -> None:
    mode, start = said["RUN-MODE"], said["PSTORE"]
    if mode.value == "STANDARD":
        return
    if start.value != START_OF_MODE[mode.value]:
        reason = f"RUN-MODE={mode.value} takes PSTORE={START_OF_MODE[mode.value]}, not {start.text}"
        scopes.fault(start.line or mode.line, "PSTORE", reason)
    if mode.value == "STANDBY" and said["PSTORE-TYPE"].value == "SQLITE":
        reason = (
            "two brokers share a store of PSTORE-TYPE=JOURNAL: a broker that stands still keeps SQLite's lock, and "
            "nothing would keep what it still writes apart from its successor's"
        )
        scopes.fault(mode.line, "RUN-MODE", reason)
    if said["PARTNER-CLUSTER-ADDRESS"].value is None:
        scopes.fault(
            mode.line, "PARTNER-CLUSTER-ADDRESS", f"RUN-MODE={mode.value} needs the partner's address, host:port:TCP"
        )


def _check_length(scopes: Scopes, scope: Scope, keyword: str) -> None:
    """No message may be longer than the store takes."""
    longest = scopes.effective(scopes.sections["JOURNAL"])["MAX-MESSAGE-SIZE"]
    setting = scopes.effective(scope)[keyword]
    if longest.value is not None and setting.value > longest.value:
        reason = f"{setting.text} is more than MAX-MESSAGE-SIZE={longest.text}; make one or the other fit"
        scopes.fault(setting.line or longest.line, keyword, reason, Code.VALUE_OUT_OF_RANGE)


def _check_expiration(scopes: Scopes, topic: Scope, broker: dict[str, Setting]) -> None:
    """Subscriptions that the store keeps must end some day, or it must be said that they never do."""
    said = scopes.effective(topic)
    keeps = broker["SUBSCRIBER-STORE"].value == "PSTORE" and said["ALLOW-DURABLE"].value
    if keeps and said["SUBSCRIPTION-EXPIRATION"].value is None:
        reason = "it must be given where SUBSCRIBER-STORE=PSTORE; UNLIM is never"
        scopes.fault(topic.line, "SUBSCRIPTION-EXPIRATION", reason)
