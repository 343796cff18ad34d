"""Conversations of plain messages: SEND, UNDO and REPLY_ERROR.

Plain messages are never persistent. A conversation begins with SEND and CONV-ID=NEW; with CONV-ID=NONE
it is one message and perhaps one answer. A SEND that waits gets the partner's next message as its
answer. UNDO takes back what the partner has not received yet.
"""

from oms_journal.broker.block import NEW, NONE, ConvStat, Option, Reception, Reply
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.durations import NO, parse_wait
from oms_journal.broker.kernel.conversations.dormancy import check_room, conversation_of, side_in
from oms_journal.broker.kernel.conversations.places import count_talks, give_age, replace
from oms_journal.broker.kernel.state.conversation import Conversation, Plain, Side
from oms_journal.broker.kernel.state.effects import Call, check_properties, stored_properties
from oms_journal.broker.kernel.state.participant import MESSAGES, Participant, with_conversation
from oms_journal.broker.kernel.state.world import World, park

NUMERIC_API_MAX = 2  # callers of these versions get conversation identifiers of digits


def send_message(world: World, call: Call, participant: Participant) -> None:
    """Send a plain message, and wait for its answer if the call says so."""
    request = call.request
    if request.properties:
        check_properties(request)
    word = request.conv_id.upper()
    if word in (NEW, NONE):
        talk, side = _begin(world, call, participant), Side.CLIENT
    else:
        talk = conversation_of(world, request.conv_id, participant)
        if talk.is_uow:
            raise BrokerError(Code.MESSAGE_IN_UOW_CONVERSATION)
        side = side_in(talk, participant)
    limit = talk.service.attributes.max_uow_message_length
    if len(request.body) > limit:
        raise BrokerError(Code.LENGTH_EXCEEDED, f"{Code.LENGTH_EXCEEDED.text}: at most {limit} bytes")
    waits = parse_wait(request.wait) is not NO
    if talk.conv_id not in world.conversations:
        talk.wants_answer = waits or word == NEW
        world.enter(talk)
        count_talks(world, talk, 1)
    _say(world, talk, side, Plain(request.body, stored_properties(request)))
    if waits:
        park(world, call, participant, MESSAGES, [with_conversation(talk.conv_id)])
    else:
        world.answer(call.handle, _sent(talk))


def _begin(world: World, call: Call, participant: Participant) -> Conversation:
    """Return a new conversation, which nobody knows yet."""
    request = call.request
    service = world.service((request.server_class, request.server_name, request.service))
    if not service.is_served:
        raise BrokerError(Code.SERVICE_NOT_REGISTERED)
    check_room(world, service)
    is_numeric = (
        request.api_version <= NUMERIC_API_MAX
        or world.attributes.broker.max_uows == 0
        or service.attributes.max_uows == 0
    )
    conv_id = world.identifiers.next_numeric() if is_numeric else world.identifiers.next()
    talk = Conversation(conv_id, service, participant.name, is_uow=False)
    talk.is_one_shot = request.conv_id.upper() == NONE
    talk.used = world.present.volatile
    return talk


def _say(world: World, talk: Conversation, side: Side, message: Plain) -> None:
    """Let the partner have a message."""
    if not talk.key:
        give_age(world, talk)
    talk.plain[side.other].append(message)
    replace(world, talk)
    world.touch(talk)


def _sent(talk: Conversation) -> Reply:
    return Reply(
        server_class=talk.service.name[0],
        server_name=talk.service.name[1],
        service=talk.service.name[2],
        conv_id=talk.conv_id,
        conv_stat=ConvStat.NONE if talk.is_one_shot else None,
        uow_status=Reception.RECV_NONE,
    )


def undo(world: World, call: Call, participant: Participant) -> None:
    """Take back the last message, or all, that the partner has not received."""
    talk, side = _of_messages(world, call, participant)
    sent = talk.plain[side.other]
    if call.request.option is Option.LAST:
        if not sent:
            raise BrokerError(Code.LAST_MESSAGE_NOT_FOUND)
        sent.pop()
    else:
        sent.clear()
    replace(world, talk)
    world.answer(call.handle, _sent(talk))


def reply_error(world: World, call: Call, participant: Participant) -> None:
    """Let the partner have an error code as its answer."""
    talk, side = _of_messages(world, call, participant)
    try:
        code = Code(call.request.error_code)
    except ValueError:
        raise BrokerError(Code.ERROR_CODE_INVALID, f"{call.request.error_code} is none of the broker's codes") from None
    _say(world, talk, side, Plain(call.request.body, stored_properties(call.request), code))
    world.answer(call.handle, _sent(talk))


def _of_messages(world: World, call: Call, participant: Participant) -> tuple[Conversation, Side]:
    talk = conversation_of(world, call.request.conv_id, participant)
    if talk.is_uow:
        raise BrokerError(Code.MESSAGE_IN_UOW_CONVERSATION)
    return talk, side_in(talk, participant)
