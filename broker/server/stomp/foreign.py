"""Headers and destinations that other brokers' clients say: whatever would change what is delivered is refused.

A client that asks for something this broker does not carry out is told so at once, and what to do instead: to go on as
if it had not been said would deliver what nobody wants, or to nobody. The table has every header of RabbitMQ's STOMP
adapter and of ActiveMQ's and Artemis's that is about delivery (their manuals, "STOMP"). What they say beside that, as
`priority`, which both ignore unless a queue is set up for it, or `timestamp`, is a property of the message.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from oms_journal.broker.codes import Code, refuse
from oms_journal.broker.server.stomp.frames import Frame

_SEND, _SUBSCRIBE, _UNSUBSCRIBE, _NACK = ("SEND",), ("SUBSCRIBE",), ("UNSUBSCRIBE",), ("NACK",)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A header: with which commands it would change something, what to do instead, and values that ask for nothing."""

    commands: tuple[str, ...]
    instead: str
    harmless: tuple[str, ...] = ()


_NO, _ZERO = ("false",), ("0",)
_DURABLE = "a durable subscription is `durable:true`, with `durable-subscription-name` where a client has several"
_LIFETIME = "say `lifetime`, as in 90S or 5M"
_QUEUE_ARGUMENT = "queues are set up by the broker's attributes, not by their clients"
_DELAY = "messages cannot be delayed"
_GROUP = "messages are not grouped; a conversation keeps an order"

FOREIGN: Mapping[str, Foreign] = {
    # What of a destination is received, by whom.
    "selector": Foreign(_SUBSCRIBE, "subscribe to a queue or topic of what you want"),
    "browser": Foreign(_SUBSCRIBE, "a subscription takes messages; look with `oms info` or in the console", _NO),
    "activemq.noLocal": Foreign(_SUBSCRIBE, "a connection receives what it has sent too", _NO),
    "no-local": Foreign(_SUBSCRIBE, "a connection receives what it has sent too", _NO),
    "activemq.retroactive": Foreign(_SUBSCRIBE, "a subscription begins with what comes after it", _NO),
    "activemq.exclusive": Foreign(_SUBSCRIBE, "all subscribers of a queue have a share in it", _NO),
    "exclusive": Foreign(_SUBSCRIBE, "all subscribers of a queue have a share in it", _NO),
    "x-single-active-consumer": Foreign(_SUBSCRIBE, "all subscribers of a queue have a share in it", _NO),
    "activemq.priority": Foreign(_SUBSCRIBE, "all subscribers of a queue are equal", _ZERO),
    "x-priority": Foreign(_SUBSCRIBE, "all subscribers of a queue are equal", _ZERO),
    "activemq.maximumPendingMessageLimit": Foreign(_SUBSCRIBE, "nothing is dropped for who is slow", ("-1", "0")),
    "transformation": Foreign(_SUBSCRIBE, "a body is handed out as it came"),
    # Durable subscriptions by other names.
    "x-queue-name": Foreign(_SUBSCRIBE, _DURABLE),
    "persistent": Foreign(_SUBSCRIBE, _DURABLE, _NO),
    # How a queue is set up.
    "auto-delete": Foreign(_SUBSCRIBE, _QUEUE_ARGUMENT, _NO),
    "x-expires": Foreign((*_SUBSCRIBE, *_SEND), _QUEUE_ARGUMENT),
    "x-max-length": Foreign((*_SUBSCRIBE, *_SEND), _QUEUE_ARGUMENT),
    "x-max-length-bytes": Foreign((*_SUBSCRIBE, *_SEND), _QUEUE_ARGUMENT),
    "x-overflow": Foreign((*_SUBSCRIBE, *_SEND), _QUEUE_ARGUMENT),
    "x-max-priority": Foreign((*_SUBSCRIBE, *_SEND), _QUEUE_ARGUMENT, _ZERO),
    "x-dead-letter-exchange": Foreign((*_SUBSCRIBE, *_SEND), _QUEUE_ARGUMENT),
    "x-dead-letter-routing-key": Foreign((*_SUBSCRIBE, *_SEND), _QUEUE_ARGUMENT),
    "x-delivery-limit": Foreign((*_SUBSCRIBE, *_SEND), _QUEUE_ARGUMENT),
    "x-queue-type": Foreign((*_SUBSCRIBE, *_SEND), _QUEUE_ARGUMENT, ("classic", "quorum")),
    "x-stream-offset": Foreign(_SUBSCRIBE, "a subscription begins with what comes after it"),
    "x-stream-filter": Foreign(_SUBSCRIBE, "subscribe to a queue or topic of what you want"),
    "subscription-type": Foreign(
        (*_SUBSCRIBE, *_SEND),
        "a /queue goes to one of its subscribers and a /topic to all",
        ("ANYCAST",),
    ),
    "destination-type": Foreign(
        (*_SUBSCRIBE, *_SEND),
        "a /queue goes to one of its subscribers and a /topic to all",
        ("ANYCAST",),
    ),
    # When a message is handed out, and until when.
    "expires": Foreign(_SEND, _LIFETIME, _ZERO),
    "expiration": Foreign(_SEND, _LIFETIME),
    "JMSExpiration": Foreign(_SEND, _LIFETIME, _ZERO),
    "x-message-ttl": Foreign((*_SUBSCRIBE, *_SEND), _LIFETIME),
    "x-delay": Foreign(_SEND, _DELAY, _ZERO),
    "AMQ_SCHEDULED_DELAY": Foreign(_SEND, _DELAY, _ZERO),
    "AMQ_SCHEDULED_PERIOD": Foreign(_SEND, "messages cannot be repeated", _ZERO),
    "AMQ_SCHEDULED_REPEAT": Foreign(_SEND, "messages cannot be repeated", _ZERO),
    "AMQ_SCHEDULED_CRON": Foreign(_SEND, _DELAY),
    "AMQ_SCHEDULER_ACTION": Foreign(_SEND, _DELAY),
    "_AMQ_SCHED_DELIVERY": Foreign(_SEND, _DELAY, _ZERO),
    # Which messages belong together.
    "JMSXGroupID": Foreign(_SEND, _GROUP),
    "_AMQ_GROUP_ID": Foreign(_SEND, _GROUP),
    "_AMQ_LVQ_NAME": Foreign(_SEND, "no message replaces another"),
    # What becomes of what was refused.
    "requeue": Foreign(_NACK, "what is refused comes again, and is a dead letter once that was too often", ("true",)),
}

_COMMANDS = frozenset(command for foreign in FOREIGN.values() for command in foreign.commands)
_TYPES = frozenset({"subscription-type", "destination-type"})
_SIGNS = re.compile(r"[*#>?,]|\.\.\.")  # without any of them it is a single one
_WILDCARDS = re.compile(r"(^|[./])([*#>]|\.\.\.)($|[./])")
_OPTIONS = re.compile(r"\?[A-Za-z][\w.]*=")
_SEVERAL = re.compile(r",\s*/(queue|topic)/")


def check_headers(frame: Frame) -> None:
    """Refuse what a header asks for and nobody would carry out. BrokerError: 00200188."""
    if frame.command not in _COMMANDS or FOREIGN.keys().isdisjoint(frame.headers):
        return
    is_topic = frame.headers.get("destination", "").startswith("/topic/")
    for name, value in frame.headers.items():
        foreign = FOREIGN.get(name)
        if foreign is None or frame.command not in foreign.commands or not value:
            continue
        if value in foreign.harmless or value.lower() in foreign.harmless:
            continue
        if is_topic and name in _TYPES and value.upper() == "MULTICAST":
            continue
        text = f"{name}:{value[:40]} is not carried out: {foreign.instead}"
        raise refuse(Code.INVALID_OPTION, text)


def check_is_single(destination: str, verb: str) -> None:
    """Refuse a destination by which other brokers mean several, or say options. BrokerError: 00200183.

    `verb` is what is to be done with each one: nobody could subscribe to what was sent to all of them.
    """
    if not _SIGNS.search(destination) or not destination.startswith(("/queue/", "/topic/")):
        return
    name = destination.partition("/")[2].partition("/")[2]
    if _WILDCARDS.search(name) or _OPTIONS.search(name) or _SEVERAL.search(name):
        text = f"{destination[:80]!r} is no single destination: {verb} to each one, without wildcards and options"
        raise refuse(Code.INVALID_SERVICE_NAME, text)
