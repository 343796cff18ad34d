"""What a STOMP subscription receives from: a service, a topic or a conversation, as calls of the broker.

              of the next          of the rest of it       done          given back
service       RECEIVE ANY          RECEIVE of its CONV-ID  COMMIT        BACKOUT
conversation  RECEIVE of CONV-ID   the same                COMMIT        BACKOUT
topic         RECEIVE_PUBLICATION  RECEIVE_PUBLICATION of  CONTROL_PUBLICATION COMMIT, BACKOUT
              NEW                  its PUBLICATION-ID

A unit is what the broker hands out as one: a unit of work or a publication.
"""

from oms_journal.broker.block import ANY, NEW, Function, Option, Request
from oms_journal.broker.codes import Code
from oms_journal.broker.destinations import InConversation, ToService, ToTopic
from oms_journal.broker.sessions.requests import Speaker, service_fields

WAIT = "YES"  # as long as the participant may be inactive; then it is asked again

# What a RECEIVE is answered that can simply be repeated.
NOTHING_YET = frozenset({Code.WAIT_TIMED_OUT, Code.NO_UOWS, Code.NO_MESSAGE, Code.NO_CONVERSATION})
# The store is away, or a message could not be read: it is tried again later.
LATER = frozenset({Code.UOW_NOT_PERSISTED, Code.STATUS_NOT_PERSISTED, Code.DURABLE_WITHOUT_STORE})


class ServiceSource:
    """Units of work that wait for a server."""

    def __init__(self, speaker: Speaker, where: ToService) -> None:
        self._speaker = speaker
        self.where = where
        self._fields = service_fields(where.names)

    def begin(self) -> Request:
        """Return the call that makes its caller one who receives."""
        return self._speaker.say(Function.REGISTER, **self._fields)

    def end(self) -> Request | None:
        """Return the call that makes it so no longer, and gives back what it has; None for nothing to be said."""
        return self._speaker.say(Function.DEREGISTER, Option.IMMED, **self._fields)

    def next(self) -> Request:
        return self._speaker.say(Function.RECEIVE, Option.SYNC, conv_id=ANY, wait=WAIT, **self._fields)

    def rest(self, _: str, conv_id: str) -> Request:
        return self._speaker.say(Function.RECEIVE, Option.SYNC, conv_id=conv_id)

    def settle(self, option: Option, unit_id: str, *, is_untried: bool = False) -> Request:
        return self._speaker.about(option, unit_id, is_untried=is_untried)

    def is_over(self, code: Code) -> bool:
        """Say whether nothing can come any more."""
        return False


class ConversationSource:
    """Units of work of one conversation."""

    def __init__(self, speaker: Speaker, where: InConversation) -> None:
        self._speaker = speaker
        self.where = where

    def begin(self) -> Request | None:
        return None

    def end(self) -> Request | None:
        return None

    def next(self) -> Request:
        return self._speaker.say(Function.RECEIVE, Option.SYNC, conv_id=self.where.conv_id, wait=WAIT)

    def rest(self, _: str, conv_id: str) -> Request:
        return self._speaker.say(Function.RECEIVE, Option.SYNC, conv_id=conv_id)

    def settle(self, option: Option, unit_id: str, *, is_untried: bool = False) -> Request:
        return self._speaker.about(option, unit_id, is_untried=is_untried)

    def is_over(self, code: Code) -> bool:
        return code.error_class == Code.NO_CONVERSATION.error_class or code is Code.AFTER_EOC


class TopicSource:
    """Publications of a topic."""

    def __init__(self, speaker: Speaker, where: ToTopic, label: str, *, is_durable: bool) -> None:
        self._speaker = speaker
        self.where = where
        self.is_durable = is_durable
        self.label = label  # by which the broker tells it apart (`topic.py`)

    def begin(self) -> Request:
        option = Option.DURABLE if self.is_durable else Option.NONE
        return self._speaker.say(Function.SUBSCRIBE, option, topic=self.where.topic, subscription=self.label)

    def end(self) -> Request | None:
        return None if self.is_durable else self.forget()

    def forget(self) -> Request:
        """Return the call that ends the subscription for good."""
        return self._speaker.say(Function.UNSUBSCRIBE, topic=self.where.topic, subscription=self.label)

    def next(self) -> Request:
        where = self.where.topic
        return self._speaker.say(
            Function.RECEIVE_PUBLICATION, topic=where, publication_id=NEW, wait=WAIT, subscription=self.label
        )

    def rest(self, publication_id: str, _: str) -> Request:
        return self._speaker.say(Function.RECEIVE_PUBLICATION, publication_id=publication_id, subscription=self.label)

    def settle(self, option: Option, unit_id: str, *, is_untried: bool = False) -> Request:
        return self._speaker.about_publication(option, unit_id, subscription=self.label, is_untried=is_untried)

    def is_over(self, code: Code) -> bool:
        return False


Source = ServiceSource | ConversationSource | TopicSource
