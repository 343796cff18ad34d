"""Every error the engine raises.

JournalError
├── DiskError              the operating system refused; carries the path and the OSError
│   └── DiskFull           no room to prepare space: nothing was written, removals still work
├── FormatError            bytes that are not what the format says; carries file and offset
│   └── NewerFormat        a file of a newer version of the format; nothing was changed
├── BadRecord              records or columns whose checksum is right, and that no program writes on purpose
├── NotADatabase           the directory holds no message database, and perhaps files of somebody else
├── NotThisDatabase        a data file that belongs to another database
├── IsBackup               the directory is a backup: it is read or restored, never opened for writing
├── NotThisBackup          the directory for a backup holds something else, or the backup of another database
├── BehindItsBackup        the database lacks commits that its backup has
├── ManifestDamaged        a backup's list of its files is damaged; the files may be whole
├── BackupUnfinished       a backup was begun in the directory, and none was ever finished
├── NotReadBack            what was written to a backup is not what is read
├── NothingToBackUp        no commit is vouched for
├── RestoreRefused         no finished backup, or a place for it that is not empty; nothing was changed
├── RestoreUnfinished      a restore into the directory was interrupted: run it again
├── RecoveryRefused        damage was found and the policy says to change nothing
├── DatabaseLocked         another opening owns the directory; carries its pid and host
├── TakenOver              another opening owns the directory by now: nothing here is acknowledged any more
├── DirectoryGone          the directory was removed, renamed or replaced while it was open
├── CannotContinue         after a failure: the directory is not as this process left it
├── DatabaseClosed         used after close(), or in the child of a fork
├── CommitFailed           a commit that is not acknowledged
│   ├── OutcomeUnknown     its write or sync failed: after reopening it is there whole, or not at all
│   └── NotAttempted       it was never written: an earlier one failed, reopen the database
├── LimitExceeded          longer or more than a documented limit; nothing was written
├── QueueFull              a queue holds as much as its limit allows; nothing was written
├── InvalidName            a queue, key or producer identifier outside 1 to 255 bytes of UTF-8
├── DuplicateConflict      a known producer identifier with a different payload, or beside unknown ones
├── OutsideBlock           a commit block was used before it was entered or after it was left, or entered again
├── UnreadableCommit       a mistake of the engine, found before anything was written: report it
├── Contention             others remove the same messages all the time: nothing was written
├── NotUndelivered         a commit of several operations removes a message that is gone
├── NoSuchMessage          no undelivered message has this number
├── LeaseEnded             the lease on a message has ended; nothing was changed
├── NotServed              nobody serves the socket of a database in another process; nothing was added
├── SocketRefused          the socket for other processes cannot be made; nothing was changed
└── MessageDamaged         the message's bytes on disk no longer match their checksum
"""

from pathlib import Path

from oms_journal.journal.disk import whose


class JournalError(Exception):
    """The root of the tree of errors. It is never raised itself."""


class DiskError(JournalError):
    """The operating system refused an operation."""

    def __init__(self, path: Path, failure: OSError, what: str = "use") -> None:
        refused = whose(failure, path)
        super().__init__(f"cannot {what} {path}: {failure.strerror or failure}{refused and f'; {refused}'}")
        self.path = path
        self.failure = failure


class DiskFull(DiskError):
    """There is no room. While additions are refused, you can still deliver and delete, and that makes room."""

    def __init__(self, path: Path, failure: OSError, what: str = "use", advice: str = "") -> None:
        super().__init__(path, failure, what)
        if advice:
            self.args = (f"{self}; {advice}",)


class FormatError(JournalError):
    """The bytes at one place in one file are not what the format says."""

    def __init__(self, path: Path, offset: int, reason: str) -> None:
        super().__init__(f"{path.name} at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class NewerFormat(FormatError):
    """The file has a newer version of the format, or version 1. This program must not touch it, or those beside it."""


class NotADatabase(JournalError):
    """The directory holds no message database. If you wanted a new one there, `beside` names what else it holds."""

    def __init__(self, directory: Path, *, beside: str = "") -> None:
        text = f"{directory} holds no message database"
        if beside:
            text += f", but other files ({beside!r}); a new one is begun among them only where `create` asks for it"
        super().__init__(text)
        self.directory = directory
        self.beside = beside


class NotThisDatabase(JournalError):
    """A data file names another database than its neighbours do."""


class IsBackup(JournalError):
    """The directory is a backup. If you opened it for writing, it would deliver again what was delivered since."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory} is a backup: `oms restore` makes a database from it; nothing was changed")
        self.directory = directory


class NotThisBackup(JournalError):
    """The backup's directory is not apart from the database, or holds something else. Nothing was changed."""


class BehindItsBackup(JournalError):
    """The database lacks commits that its backup has. Perhaps somebody put back an old copy. Nothing was changed."""

    def __init__(self, database: Path, backup: Path, commit: int, sequence: int) -> None:
        super().__init__(
            f"{database} lacks what its backup in {backup} has, up to commit {commit} in file {sequence}: an old copy "
            "was put back there, or its newest files are lost; `oms restore` makes a database of what the backup has, "
            "and `oms backup` into another directory backs up what is there now; nothing was changed"
        )
        self.commit = commit


class NotReadBack(JournalError):
    """The backup does not read back as it was written. The previous backup is as it was."""


class NothingToBackUp(JournalError):
    """The database has no commit that is vouched for."""


class RestoreRefused(JournalError):
    """The source is no finished backup, or the target is not empty. Nothing was changed."""


class RestoreUnfinished(JournalError):
    """A restore of a backup into the directory was begun. Perhaps only a part of the backup is there."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory} holds an unfinished restore: run `oms restore` again; nothing was changed")
        self.directory = directory


class BackupUnfinished(JournalError):
    """A backup was begun in the directory, and none was ever finished."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory} holds no finished backup: no back-up into it ever ended; run `oms backup` again")
        self.directory = directory


class ManifestDamaged(JournalError):
    """Both copies of a backup's manifest are damaged. Its data files may be whole. Nothing was changed."""

    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(
            f"the list of files of the backup in {directory} is damaged ({reason}), and its data files may be whole: "
            "`oms backup DIRECTORY --reread` repairs the backup from its database; where that is lost, `oms restore` "
            "makes one of what the data files hold; nothing was changed"
        )
        self.directory = directory
        self.reason = reason


class RecoveryRefused(JournalError):
    """Recovery found damage, and the policy `refuse` says to change nothing."""


class DatabaseLocked(JournalError):
    """Another opening owns the directory. `pid` is 0 until the owner has said who it is."""

    def __init__(self, path: Path, *, pid: int, host: str) -> None:
        by = f"is in use by process {pid} on {host or 'an unknown host'}"
        opening = f"is being opened by another process or thread, or in use by one that {path.name} does not name"
        super().__init__(f"{path.parent} {by if pid else opening}")
        self.path = path
        self.pid = pid
        self.host = host


class TakenOver(JournalError):
    """Another opening owns the directory by now. This one acknowledges nothing any more, and nothing of it counts."""

    def __init__(self) -> None:
        super().__init__("another process has taken over the directory")


class DirectoryGone(JournalError):
    """The directory was removed, renamed or replaced while it was open. This opening acknowledges nothing any more."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory} was removed, renamed or replaced while it was open")


class CannotContinue(JournalError):
    """The directory is not as this process left it, so its memory of it may be wrong. Nothing was changed."""


class DatabaseClosed(JournalError):
    """You used the database after close(), before `async with`, or in the child of a fork."""


class CommitFailed(JournalError):
    """A commit was not acknowledged. The database accepts nothing later. Close it, and open it again."""


class OutcomeUnknown(CommitFailed):
    """The write or the sync of the commit failed.

    After you open again, the commit is there as a whole, or not at all.
    """


class NotAttempted(CommitFailed):
    """The commit was never written, because an earlier one failed."""


class LimitExceeded(JournalError):
    """A value or a number is above a documented limit. Nothing was written."""


class QueueFull(JournalError):
    """The queue holds as much as its limit allows. Nothing was written.

    `limit` and `count` are numbers of messages or of bytes: `unit` says which. `waiting` says how many callers wait
    for room. They come first.
    """

    def __init__(self, queue: str, *, limit: int, count: int, unit: str = "messages", waiting: int = 0) -> None:
        others = f", and {waiting} callers wait for room" if waiting else ""
        super().__init__(
            f"queue {queue!r} is full: it may hold {limit:,} {unit}, and has {count:,} with what is on its way{others}"
            "; nothing was written: deliver something first, or give wait=seconds"
        )
        self.queue = queue
        self.limit = limit
        self.count = count
        self.unit = unit
        self.waiting = waiting


class InvalidName(JournalError, ValueError):
    """A queue, key or producer identifier is not 1 to 255 bytes of UTF-8, or is reserved."""


class DuplicateConflict(JournalError):
    """A producer identifier of the duplicate window came again with a different payload."""


class OutsideBlock(JournalError):
    """You used a commit block before you entered it, or after you left it, or entered it again.

    Nothing was added to it.
    """


class UnreadableCommit(JournalError):
    """The engine made a commit that it could not read again. It did not write this commit. Other commits go on.

    The mistake is the engine's, never yours.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"oms made a commit that it could not read again ({reason}); nothing of it was written, and other commits "
            "go on. This is a mistake in oms: please report it with this text and the call that led to it"
        )
        self.reason = reason


class Contention(JournalError):
    """Others remove the same messages all the time. Nothing was written. Try again."""


class LeaseEnded(JournalError):
    """Your lease on a message has ended, so that somebody else may have it. Nothing was changed."""

    def __init__(self, number: int) -> None:
        super().__init__(f"the lease on message {number} has ended, so somebody else may have it; nothing was changed")
        self.number = number


class NotUndelivered(JournalError):
    """A commit of several operations removes a message that is no longer undelivered."""

    def __init__(self, number: int) -> None:
        super().__init__(f"message {number} is not undelivered any more; nothing of the commit was written")
        self.number = number


class NoSuchMessage(JournalError, KeyError):
    """No undelivered message has this number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"no undelivered message has number {number}")
        self.number = number

    def __str__(self) -> str:
        return str(self.args[0])


class NotServed(JournalError):
    """No process serves the socket, or not this version or user. Nothing was added. Try again when one does."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}; nothing was added")
        self.path = path
        self.reason = reason


class SocketRefused(JournalError):
    """The socket that other processes add through cannot be made. Nothing was changed."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot serve {path}: {reason}")
        self.path = path
        self.reason = reason


class MessageDamaged(JournalError):
    """The bytes of one message no longer match their checksum. Number 0 stands for the value of a key."""

    def __init__(self, number: int, path: Path, offset: int, reason: str) -> None:
        which = f"message {number} in " if number else ""
        super().__init__(f"{which}{path.name} at byte {offset}: {reason}")
        self.number = number
        self.path = path
        self.offset = offset
        self.reason = reason
