"""The return codes of the broker: four digits of class, four of number, and a sentence.

    class  is about
    0000   done
    0002   the user is not known
    0003   the conversation is over, or there is none
    0007   no server is registered for the service
    0008   access was denied
    0010   an order to the server: shut down
    0020   a mistake of the caller
    0021   a mistake in the attributes, or something they do not define
    0036   the broker is busy: try again
    0037   something has run out: try again later, the conversation is kept
    0074   nothing to be handed out: the conversation is kept
    0078   an error of the broker, most often about a unit of work
    0079   an error of the caller's side, before the broker was reached
    0196   the caller is connected somewhere else by now
    0215   the broker was not reached

`Code` is the one table; the manual's is printed from it. Numbers from 9000 are the broker's own.
"""

from collections.abc import Mapping
from enum import Enum

from oms_journal.broker.advice import ADVICE


class Code(Enum):
    """A return code: `Code("00740301")` finds it by its digits."""

    text: str
    advice: str  # what whoever is told it can do

    def __new__(cls, digits: str, text: str = "") -> "Code":
        code = object.__new__(cls)
        code._value_ = digits
        code.text = text
        code.advice = ADVICE.get(digits, "")
        return code

    def __str__(self) -> str:
        return f"{self.value} {self.text}"

    @property
    def error_class(self) -> str:
        """The first four digits."""
        return str(self.value)[:4]

    @property
    def number(self) -> str:
        """The last four digits."""
        return str(self.value)[4:]

    OK = "00000000", "Done"

    USER_UNKNOWN = "00020002", "User does not exist"

    NO_CONVERSATION = "00030003", "No matching conversation found"
    PARTNER_FINISHED = "00030005", "Partner finished the conversation"
    PARTNER_DEREGISTERED = "00030010", "End of conversation: partner deregistered"
    PARTNER_CANCELLED = "00030011", "Partner cancelled the conversation"
    PARTNER_LOGGED_OFF = "00030012", "End of conversation: partner logged off"
    PARTNER_TIMED_OUT = "00030067", "Partner timed out"
    CONVERSATION_TIMED_OUT = "00030073", "Conversation timed out"

    SERVICE_NOT_REGISTERED = "00070007", "Service not registered"

    SECURITY_NOT_ACTIVE = "00080001", "Access denied: external security is not active"
    PROFILE_UNKNOWN = "00080002", "Access denied: user profile not defined"
    PASSWORD_WRONG = "00080003", "Access denied: wrong password"
    PASSWORD_EXPIRED = "00080004", "Access denied: password expired"
    NEW_PASSWORD_INVALID = "00080005", "Access denied: new password is not valid"
    REJECTED_BY_EXIT = "00080006", "Access denied: rejected by an installation exit"
    USER_REVOKED = "00080007", "Access denied: user id revoked"
    ACCESS_AT_THIS_TIME = "00080008", "Access denied at this time or date"
    RESOURCE_NOT_ALLOWED = "00080009", "Access denied: resource not allowed"
    RESOURCE_UNKNOWN = "00080010", "Access denied: resource not defined"
    ADDRESS_NOT_ALLOWED = "00080011", "Access denied: network address not allowed"
    ADDRESS_UNKNOWN = "00080012", "Access denied: network address not defined"
    SECURITY_ANSWER = "00080254", "Access denied: answer of the security system"
    SECURITY_INTERFACE = "00080255", "Access denied: the security system was not reached"
    USER_ID_BAD = "00080350", "Access denied: bad user id"
    ACCESS_DENIED = "00080351", "Access denied"
    RECONNECT_REJECTED = "00080352", "Access denied: reconnection rejected"
    SECURITY_TOKEN_WRONG = "00080353", "Access denied: security token does not match"
    AUTHORIZATION_MISSING = "00080400", "Access denied: authorization could not be loaded"
    SERVICE_NOT_AUTHORIZED = "00080401", "Access denied: service not defined for authorization"
    USER_NOT_AUTHORIZED = "00080402", "Access denied: user not authorized for this service"

    SHUTDOWN_IMMED = "00100050", "Shut down at once"
    SHUTDOWN_QUIESCE = "00100051", "Shut down when the conversations are done"

    AFTER_EOC = "00200004", "No function is possible after EOC"
    LAST_MESSAGE_NOT_FOUND = "00200006", "Last message not found"
    INVALID_WAIT = "00200031", "Invalid value for WAIT"
    ALREADY_ATTACH = "00200048", "Already registered with ATTACH"
    ALREADY_WITHOUT_ATTACH = "00200052", "Already registered without ATTACH"
    TRUNCATED = "00200094", "Message truncated to fit the receive buffer"
    LOGON_ONLY = "00200098", "Function not possible: only logged on"
    LOGON_REQUIRED = "00200134", "LOGON required"
    INVALID_USER_ID = "00200181", "Invalid USER-ID"
    INVALID_FUNCTION = "00200182", "Invalid function"
    INVALID_SERVICE_NAME = "00200183", "Invalid CLASS, SERVER or SERVICE"
    INVALID_SEND_LENGTH = "00200184", "Invalid SEND-LENGTH"
    FUNCTION_CONV_ID = "00200185", "Invalid combination of function and CONV-ID"
    INVALID_CHARACTER = "00200186", "Character not allowed in the control block"
    FUNCTION_OPTION = "00200187", "Invalid combination of function and option"
    INVALID_OPTION = "00200188", "Invalid option"
    INVALID_RECEIVE_LENGTH = "00200189", "Invalid RECEIVE-LENGTH"
    OPTION_CONV_ID = "00200191", "Invalid combination of option and CONV-ID"
    FUNCTION_WAIT = "00200193", "Invalid combination of function and WAIT"
    OPTION_WAIT = "00200194", "Invalid combination of option and WAIT"
    DEREGISTER_BY_CLIENT = "00200195", "DEREGISTER not allowed from clients"
    RECEIVE_ANY_BY_CLIENT = "00200199", "RECEIVE with CONV-ID=ANY is not for clients"
    RECEIVE_NEW_BY_CLIENT = "00200200", "RECEIVE with CONV-ID=NEW is not for clients"
    INVALID_VERSION = "00200208", "Invalid combination of API type and version"
    PATTERN_IN_NAME = "00200212", "CLASS, SERVER and SERVICE may not hold * for this function"
    INVALID_BROKER_ID = "00200216", "Invalid BROKER-ID"
    LENGTH_EXCEEDED = "00200218", "Send or receive length exceeds the maximum"
    INVALID_STORE = "00200229", "Invalid value for STORE"
    CONV_ID_NONE_REQUIRED = "00200252", "CONV-ID=NONE required for this service"
    CONV_ID_NEW_REQUIRED = "00200267", "CONV-ID=NEW required for this service"
    INTERNAL_SERVICE = "00200268", "A built-in service cannot be registered"
    MUST_BACK_OUT = "00200302", "EOC error: the unit of work must be backed out first"
    INVALID_NUMBER = "00200311", "Invalid numeric field"
    OUT_OF_RANGE = "00200312", "Value out of range"
    MESSAGE_IN_UOW_CONVERSATION = "00200335", "No message in a conversation of units of work"
    UOW_IN_MESSAGE_CONVERSATION = "00200336", "No unit of work in a conversation of messages"
    DURABLE_WITHOUT_STORE = "00200472", "No persistent store, but a durable subscriber"
    UNREAD_UOW = "00200478", "EOC error: a unit of work is still unread"
    CONV_ID_NONE_NOT_SUPPORTED = "00200482", "CONV-ID=NONE is not supported here"
    SUBSCRIBE_NOT_ALLOWED = "00200485", "Subscribing and unsubscribing are not allowed to users"
    NO_PUBLISH_AND_SUBSCRIBE = "00200494", "Publish and subscribe is not enabled"
    WRONG_UOW_TYPE = "00200505", "Illegal operation: wrong type of unit of work"
    ERROR_CODE_MISSING = "00200532", "REPLY_ERROR without an error code"
    ERROR_CODE_INVALID = "00200533", "REPLY_ERROR with an invalid error code"
    DEREGISTER_NOT_COMPLETE = "00200563", "DEREGISTER not completed because of units of work"
    PROTECTED_UOWID = "00200639", "Protected UOWID specified"
    UNSECURE_SHUTDOWN = "00200801", "Unsecure shutdown of the broker is not allowed"
    PRODUCER_REUSED = "00209001", "The producer's identifier was used for a unit of work with other content"

    VALUE_TOO_LONG = "00210013", "Value of an attribute is too long"
    UNKNOWN_KEYWORD = "00210023", "Unknown attribute"
    VALUE_OUT_OF_RANGE = "00210027", "Value of an attribute is out of range"
    VALUE_INVALID = "00210028", "Invalid value of an attribute"
    SERVICE_SECTION_MISSING = "00210034", "The attributes have no SERVICE section"
    VALUE_NOT_YES_OR_NO = "00210037", "The value must be YES or NO"
    ATTRIBUTES_UNREADABLE = "00210038", "The attribute file cannot be read"
    SERVICE_UNDEFINED = "00210043", "Service definition not found"
    SERVER_LIMIT = "00210048", "Maximum number of servers of the service reached"

    NO_NEW_CONV_ID = "00360476", "Cannot generate a new CONV-ID"
    NO_NEW_UOWID = "00360477", "Cannot generate a new UOWID"

    CONVERSATION_LIMIT = "00370041", "Maximum number of conversations of the service reached"
    BUFFER_LIMIT = "00370042", "Maximum number of buffers of the service reached"
    SHORT_BUFFERS = "00370057", "Shortage of short buffers"
    LONG_BUFFERS = "00370061", "Shortage of long buffers"
    CONVERSATIONS_MAX = "00370230", "Maximum number of conversations reached"
    NO_NEW_UOWS = "00370445", "New units of work are not allowed"

    NO_MESSAGE = "00740009", "Conversation found: no message"
    WAIT_TIMED_OUT = "00740074", "Wait timed out"
    NO_UOWS = "00740300", "Conversation found: no units of work"
    END_OF_UOW = "00740301", "Conversation found: end of unit of work"
    MAX_UOWS = "00740345", "MAX-UOWS of the service reached"
    UOWS_NOT_SUPPORTED = "00740346", "Service does not support units of work"
    MAX_MESSAGES = "00740347", "Maximum number of messages of a unit of work reached"

    NO_FREE_UOW = "00780304", "No free control block for a unit of work"
    UOW_NOT_FOUND = "00780305", "UOW not found"
    UOWS_NOT_FOUND = "00780306", "Units of work not found for UOWID=BOTH"
    WRONG_STATUS = "00780307", "Unit of work is not in the correct status"
    NOT_THE_CREATOR = "00780308", "Unit of work was not created by the caller"
    STATUS_NOT_UPDATED = "00780309", "Error updating the status of a unit of work"
    MISMATCHED_STORE = "00780310", "The two units of work are not stored alike"
    RESTART_FAILED = "00780313", "Restart of the broker failed"
    DUPLICATE_UOWID = "00780337", "Restart: duplicate UOWID found"
    UOWS_NOT_ALLOWED = "00780350", "Operations on units of work are not allowed"
    UOWID_REQUIRED = "00780351", "UOWID required for COMMIT, BACKOUT and CANCEL"
    RECEIVER_NOT_UPDATED = "00780356", "Error updating the receiver's data"
    UOW_NOT_PERSISTED = "00780388", "Units of work cannot be persisted"
    STATUS_NOT_PERSISTED = "00780389", "The status of units of work cannot be persisted"
    NOT_OPERATIONAL = "00780624", "Broker not operational for user requests"

    VERSION_NOT_SUPPORTED = "00790204", "API version not supported"

    NEW_LOCATION = "01960196", "Disconnected: connected from a new location"

    QUEUE_FULL = "02150128", "Work queue full"
    NOT_ACTIVE = "02150148", "Broker not active or not reachable"
    TRANSPORT_TIMED_OUT = "02150373", "Transport timed out"


class BrokerError(Exception):
    """The broker refused the call. `code` says why, `text` has the details, and a note says what you can do."""

    def __init__(self, code: Code, text: str = "") -> None:
        self.code = code
        self.text = text or code.text
        super().__init__(f"{code.value} {self.text}")
        if code.advice:
            self.__notes__ = [code.advice]


def refuse(code: Code, detail: str) -> BrokerError:
    """Return the refusal with what is special about this case: `raise refuse(…)`."""
    return BrokerError(code, detailed(code, detail))


# The manual's codes speak of units of work where a call is about a publication, too.
_OF_PUBLICATIONS: Mapping[Code, str] = {
    Code.UOW_NOT_FOUND: "Publication not found",
    Code.WRONG_STATUS: "Publication is not in the correct status",
    Code.NOT_THE_CREATOR: "Publication was not created by the caller",
    Code.WRONG_UOW_TYPE: "Illegal operation: the topic does not allow it",
    Code.MAX_MESSAGES: "MAX-MESSAGES-IN-PUBLICATION of the topic reached",
    Code.NO_UOWS: "Topic found: no publications",
    Code.END_OF_UOW: "Topic found: end of the publication",
    Code.NO_NEW_UOWS: "New publications are not allowed",
}


def about_publication(code: Code, detail: str = "") -> BrokerError:
    """Return the refusal of a call about a publication, in words that are not about units of work."""
    text = _OF_PUBLICATIONS[code]
    return BrokerError(code, f"{text}: {detail}" if detail else text)


def detailed(code: Code, detail: str) -> str:
    """Return the code's text with what is special about this case."""
    return f"{code.text}: {detail}" if detail else code.text
