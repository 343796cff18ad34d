"""A durable message journal, and a broker with persistent units of work on top of it.

What is listed in `__all__` is public. Each name is loaded from its module when you first use it: a program that opens a
`MessageDatabase` loads neither the broker nor the command.
"""

from importlib import import_module

TYPE_CHECKING = False  # that of `typing` takes longer than all that is done here
if TYPE_CHECKING:
    from typing import Any

    from oms_journal.broker.client.connect import connect, connect_async
    from oms_journal.broker.codes import BrokerError
    from oms_journal.broker.embedded.async_broker import AsyncBroker
    from oms_journal.broker.embedded.broker import Broker
    from oms_journal.database.asynchronous import AsyncMessageDatabase
    from oms_journal.database.backup.backup import Backup, BackupOptions, BackupReport, back_up
    from oms_journal.database.backup.restore import restore
    from oms_journal.database.block import CommitBlock
    from oms_journal.database.database import MessageDatabase
    from oms_journal.database.options import Options
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
        LimitExceeded,
        ManifestDamaged,
        MessageDamaged,
        NewerFormat,
        NoSuchMessage,
        NotADatabase,
        NotAttempted,
        NothingToBackUp,
        NotReadBack,
        NotThisBackup,
        NotThisDatabase,
        NotUndelivered,
        OutcomeUnknown,
        OutsideBlock,
        RecoveryRefused,
        RestoreRefused,
        RestoreUnfinished,
        TakenOver,
        UnreadableCommit,
    )
    from oms_journal.journal.reading.message import Message

__all__ = [
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
    "InvalidName",
    "IsBackup",
    "JournalError",
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
    "NotThisBackup",
    "NotThisDatabase",
    "NotUndelivered",
    "NothingToBackUp",
    "Options",
    "OutcomeUnknown",
    "OutsideBlock",
    "RecoveryRefused",
    "RestoreRefused",
    "RestoreUnfinished",
    "TakenOver",
    "UnreadableCommit",
    "back_up",
    "connect",
    "connect_async",
    "restore",
]

_HOMES = {
    "oms_journal.broker.embedded.async_broker": ("AsyncBroker",),
    "oms_journal.broker.embedded.broker": ("Broker",),
    "oms_journal.broker.codes": ("BrokerError",),
    "oms_journal.broker.client.connect": (
        "connect",
        "connect_async",
    ),
    "oms_journal.database.asynchronous": ("AsyncMessageDatabase",),
    "oms_journal.database.backup.backup": (
        "Backup",
        "BackupOptions",
        "BackupReport",
        "back_up",
    ),
    "oms_journal.database.block": ("CommitBlock",),
    "oms_journal.database.database": ("MessageDatabase",),
    "oms_journal.database.options": ("Options",),
    "oms_journal.database.backup.restore": ("restore",),
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
        "LimitExceeded",
        "ManifestDamaged",
        "MessageDamaged",
        "NewerFormat",
        "NoSuchMessage",
        "NotADatabase",
        "NotAttempted",
        "NotReadBack",
        "NotThisBackup",
        "NotThisDatabase",
        "NotUndelivered",
        "NothingToBackUp",
        "OutcomeUnknown",
        "OutsideBlock",
        "RecoveryRefused",
        "RestoreRefused",
        "RestoreUnfinished",
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
