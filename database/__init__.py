"""The OMS message database: durable queues of messages and keyed state in one directory."""

from database.asynchronous import AsyncMessageDatabase
from database.block import CommitBlock
from database.database import MessageDatabase
from database.options import Options
from database.view import DatabaseView
from journal.errors import (
    CannotContinue,
    CommitFailed,
    DatabaseClosed,
    DatabaseLocked,
    DirectoryGone,
    DiskError,
    DiskFull,
    DuplicateConflict,
    FormatError,
    InvalidName,
    IsBackup,
    JournalError,
    LimitExceeded,
    MessageDamaged,
    NewerFormat,
    NoSuchMessage,
    NotAttempted,
    NotThisDatabase,
    NotUndelivered,
    OutcomeUnknown,
    RecoveryRefused,
    TakenOver,
)
from journal.message import Message

__all__ = [
    "AsyncMessageDatabase",
    "CannotContinue",
    "CommitBlock",
    "CommitFailed",
    "DatabaseClosed",
    "DatabaseLocked",
    "DatabaseView",
    "DirectoryGone",
    "DiskError",
    "DiskFull",
    "DuplicateConflict",
    "FormatError",
    "InvalidName",
    "IsBackup",
    "JournalError",
    "LimitExceeded",
    "Message",
    "MessageDamaged",
    "MessageDatabase",
    "NewerFormat",
    "NoSuchMessage",
    "NotAttempted",
    "NotThisDatabase",
    "NotUndelivered",
    "Options",
    "OutcomeUnknown",
    "RecoveryRefused",
    "TakenOver",
]
