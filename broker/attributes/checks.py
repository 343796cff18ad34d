"""What attributes must say together: checked once each of them is right by itself."""

from oms_journal.broker.attributes.keywords import START_OF_MODE
from oms_journal.broker.attributes.scopes import Scope, Scopes, Setting
from oms_journal.broker.codes import Code


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
