"""A durable message journal, and a broker with persistent units of work on top of it.

What is listed in `__all__` is public. Each name is loaded from its module when you first use it: a program that opens a
`MessageDatabase` loads neither the broker nor the command.
"""

from importlib import import_module

TYPE_CHECKING = False  # that of `typing` takes longer than all that is done here
if TYPE_CHECKING:
    from typing import Any

    from oms_journal.broker.block import Function, Option, Request
    from oms_journal.broker.client.connect import connect, connect_async
    from oms_journal.broker.codes import BrokerError
    from oms_journal.broker.embedded.async_broker import AsyncBroker
    from oms_journal.broker.embedded.broker import Broker
    from oms_journal.database.asynchronous import AsyncMessageDatabase
    from oms_journal.database.backup.backup import Backup, BackupOptions, BackupReport, back_up
    from oms_journal.database.backup.restore import RestoreOptions, restore
    from oms_journal.database.commits.added import Added, AddedMany
    from oms_journal.database.commits.block import CommitBlock
    from oms_journal.database.consumers.consumers import Taken
    from oms_journal.database.database import MessageDatabase
    from oms_journal.database.door.client import QueueClient, connect_queue
    from oms_journal.database.door.server import QueueServer, serve_queue
    from oms_journal.database.options import Options, QueueOptions
    from oms_journal.database.view import DatabaseView
    from oms_journal.journal.errors import (
        BackupUnfinished,
        BehindItsBackup,
        CannotContinue,
        CommitFailed,
        Contention,
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
        LeaseEnded,
        LimitExceeded,
        ManifestDamaged,
        MessageDamaged,
        NewerFormat,
        NoSuchMessage,
        NotADatabase,
        NotAttempted,
        NothingToBackUp,
        NotReadBack,
        NotServed,
        NotThisBackup,
        NotThisDatabase,
        NotUndelivered,
        OutcomeUnknown,
        OutsideBlock,
        QueueFull,
        RecoveryRefused,
        RestoreRefused,
        RestoreUnfinished,
        SocketRefused,
        TakenOver,
        UnreadableCommit,
    )
    from oms_journal.journal.reading.message import Message

__all__ = [
    "Added",
    "AddedMany",
    "AsyncBroker",
    "AsyncMessageDatabase",
    "Backup",
    "BackupOptions",
    "BackupReport",
    "BackupUnfinished",
    "BehindItsBackup",
    "Broker",
    "BrokerError",
    "CannotContinue",
    "CommitBlock",
    "CommitFailed",
    "Contention",
    "DatabaseClosed",
    "DatabaseLocked",
    "DatabaseView",
    "DirectoryGone",
    "DiskError",
    "DiskFull",
    "DuplicateConflict",
    "FormatError",
    "Function",
    "InvalidName",
    "IsBackup",
    "JournalError",
    "LeaseEnded",
    "LimitExceeded",
    "ManifestDamaged",
    "Message",
    "MessageDamaged",
    "MessageDatabase",
    "NewerFormat",
    "NoSuchMessage",
    "NotADatabase",
    "NotAttempted",
    "NotReadBack",
    "NotServed",
    "NotThisBackup",
    "NotThisDatabase",
    "NotUndelivered",
    "NothingToBackUp",
    "Option",
    "Options",
    "OutcomeUnknown",
    "OutsideBlock",
    "QueueClient",
    "QueueFull",
    "QueueOptions",
    "QueueServer",
    "RecoveryRefused",
    "Request",
    "RestoreOptions",
    "RestoreRefused",
    "RestoreUnfinished",
    "SocketRefused",
    "Taken",
    "TakenOver",
    "UnreadableCommit",
    "back_up",
    "connect",
    "connect_async",
    "connect_queue",
    "restore",
    "serve_queue",
]

_HOMES = {
    "oms_journal.broker.block": (
        "Function",
        "Option",
        "Request",
    ),
    "oms_journal.broker.embedded.async_broker": ("AsyncBroker",),
    "oms_journal.broker.embedded.broker": ("Broker",),
    "oms_journal.broker.codes": ("BrokerError",),
    "oms_journal.broker.client.connect": (
        "connect",
        "connect_async",
    ),
    "oms_journal.database.commits.added": (
        "Added",
        "AddedMany",
    ),
    "oms_journal.database.asynchronous": ("AsyncMessageDatabase",),
    "oms_journal.database.backup.backup": (
        "Backup",
        "BackupOptions",
        "BackupReport",
        "back_up",
    ),
    "oms_journal.database.commits.block": ("CommitBlock",),
    "oms_journal.database.consumers.consumers": ("Taken",),
    "oms_journal.database.database": ("MessageDatabase",),
    "oms_journal.database.options": (
        "Options",
        "QueueOptions",
    ),
    "oms_journal.database.door.client": ("QueueClient", "connect_queue"),
    "oms_journal.database.door.server": ("QueueServer", "serve_queue"),
    "oms_journal.database.backup.restore": ("RestoreOptions", "restore"),
    "oms_journal.database.view": ("DatabaseView",),
    "oms_journal.journal.errors": (
        "BackupUnfinished",
        "BehindItsBackup",
        "CannotContinue",
        "CommitFailed",
        "Contention",
        "DatabaseClosed",
        "DatabaseLocked",
        "DirectoryGone",
        "DiskError",
        "DiskFull",
        "DuplicateConflict",
        "FormatError",
        "InvalidName",
        "IsBackup",
        "JournalError",
        "LeaseEnded",
        "LimitExceeded",
        "ManifestDamaged",
        "MessageDamaged",
        "NewerFormat",
        "NoSuchMessage",
        "NotADatabase",
        "NotAttempted",
        "NotReadBack",
        "NotServed",
        "NotThisBackup",
        "NotThisDatabase",
        "NotUndelivered",
        "NothingToBackUp",
        "OutcomeUnknown",
        "OutsideBlock",
        "QueueFull",
        "RecoveryRefused",
        "RestoreRefused",
        "RestoreUnfinished",
        "SocketRefused",
        "TakenOver",
        "UnreadableCommit",
    ),
    "oms_journal.journal.reading.message": ("Message",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> "Any":
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value  # from now on it is found without asking
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
