"""The error codes of the command and information services: what an operator is answered.

They are numbers of their own, beside the eight digits of the broker (`codes.py`), which an answer can carry as well.
(EntireX 10.3, Command and Information Services, "Error codes"; those of our own begin with 900.)
"""

from enum import IntEnum


class CommandCode(IntEnum):
    """What a question or a command came to; `text` says it."""

    text: str

    def __new__(cls, number: int, text: str = "") -> "CommandCode":
        code = int.__new__(cls, number)
        code._value_ = number
        code.text = text
        return code

    DONE = 0, "Done"

    SUBJECT_MISSING = 3, "An information object must be specified"
    NOTHING_FOUND = 4, "Nothing was found"
    INVALID_SUBJECT = 5, "No such information object, or it cannot be asked here"

    NOT_AUTHORIZED = 20, "Not authorised"
    INVALID_COMMAND = 21, "No such command, or it cannot be given here"
    INVALID_OPTION = 22, "The option does not fit the command"
    SERVERS_ONLY = 23, "A shutdown with this option is possible for servers only"
    PARTICIPANT_NOT_FOUND = 24, "Participant not found"
    PURGE_FAILED = 25, "The unit of work was not purged"
    USER_NOT_UNIQUE = 26, "The selection must name one user"
    TOPIC_MISSING = 27, "The topic is missing"
    SUBSCRIBE_FAILED = 28, "The subscription was not added"
    UNSUBSCRIBE_FAILED = 29, "The subscription was not removed"
    USER_MISSING = 30, "The user is missing"
    SERVICE_NOT_UNIQUE = 31, "The selection must name one service by class, server and service"
    CONNECT_FAILED = 43, "The persistent store was not connected"
    DISCONNECT_FAILED = 44, "The persistent store was not disconnected"
    ALLOW_FAILED = 45, "New units of work were not allowed"
    FORBID_FAILED = 46, "New units of work were not forbidden"
    WRONG_RUN_MODE = 50, "The command is refused in the current RUN-MODE"
    SERVICE_NOT_FOUND = 51, "Service not found"
    CONVERSATION_NOT_FOUND = 52, "Conversation not found"
    CONVERSATION_MISSING = 53, "The conversation is missing"
    CANNOT_EXECUTE = 61, "The command cannot be executed"
    STATUS_NOT_SET = 74, "The status of the unit of work was not set"
    UNPROCESSED_UOWS = 77, "The conversation contains unprocessed units of work"

    INVALID_SELECTOR = 901, "A selector, a limit or a cursor is not valid"
    NOT_RELEASED = 902, "What is held was not released"
    NOT_DISCARDED = 903, "What is held was not discarded"


class CisRefused(Exception):
    """An operator's question or command is refused; with the broker's own code where one says more."""

    def __init__(
        self, code: CommandCode, detail: str = "", *, error_code: str = "00000000", error_text: str = ""
    ) -> None:
        self.code = code
        self.text = f"{code.text}: {detail}" if detail else code.text
        self.error_code = error_code
        self.error_text = error_text
        super().__init__(f"{int(code)} {self.text}")
