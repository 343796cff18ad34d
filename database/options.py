"""The options of a database: names, defaults, limits, and how people write their values.

`Options.from_environment` reads the upper-case names from the environment.
"""

import os
import re
import secrets
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypedDict, get_args

from oms_journal.database.arguments import flag, plain_text, shown
from oms_journal.database.commits.limits import Limit, Limits
from oms_journal.database.consumers.dead_letters import DeadLetterQueues, DeadLetters
from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.readiness import Moment
from oms_journal.journal.format.headers import ALIGNMENT_MAX, ALIGNMENT_MIN
from oms_journal.journal.lock import RENEW_SECONDS, Holder
from oms_journal.journal.operations import MESSAGE_BYTES_MAX, MIB, encode_name
from oms_journal.journal.writing.log import DATA_FILE_BYTES_MAX, DATA_FILE_BYTES_MIN, JournalSettings
from oms_journal.recovery.startup import Policy, RecoveryOptions, Validation
from oms_journal.recovery.validation import Progress

RENEW_SECONDS_MIN = 0.01
SECONDS_MAX = 10**9  # of any duration: a thread can wait so long, some 31 years
_SIZE = re.compile(r"\s*([0-9]+)\s*([BKMG]?)\s*", re.IGNORECASE)
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)\s*", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_DURATION_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(text: object) -> int:
    """Return a size in bytes from "25M" or a number; units B (default), K, M, G, 1024-based. ValueError."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{shown(text)} is not a size; write a number and B, K, M or G, as in 25M")
    return int(match[1]) * _SIZE_UNITS[match[2].upper()]


def parse_duration(text: object) -> float:
    """Return a duration in seconds from "90", "90s", "30m", "12h" or "7d". ValueError."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(min(text, 10 * SECONDS_MAX))  # beyond every limit all the same
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{shown(text)} is not a duration; write a number and s, m, h or d, as in 30m")
    return float(match[1]) * _DURATION_UNITS[match[2].lower()]


def system_clock() -> int:
    """Return the time: microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_clock() -> int:
    """Return microseconds since some moment, of a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime_ns(_STEADY) // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """What holds for one queue. You give it when you open a database: `queues={"orders": QueueOptions(...)}`.

    The limits stand in place of the database's, also where you leave them out. `max_attempts` and `dead_letter` are
    the database's where you leave them out. Nothing of it is kept on disk. Raises ValueError, TypeError and
    InvalidName.
    """

    max_messages: int | None = None  # undelivered ones, taken ones included; None: no limit
    max_bytes: int | str | None = None  # of their payloads and properties; "25M" is taken too
    max_attempts: int | None = None  # a message that came back so often goes to `dead_letter`; None: the database's
    dead_letter: str | None = None  # the queue for dead letters, which has none itself; None: the database's
    expired_to_dead_letter: bool = False  # a message that has expired is moved to `dead_letter`, and not deleted

    def __post_init__(self) -> None:
        if isinstance(self.max_bytes, str):
            object.__setattr__(self, "max_bytes", _parsed("max_bytes", self.max_bytes))
        _limit(self.max_messages, self.max_bytes)
        _check_attempts(self.max_attempts, self.dead_letter)
        flag(self.expired_to_dead_letter, "expired_to_dead_letter")

    def _limit(self) -> Limit | None:
        """Return the limit of the queue, None where it has none."""
        return _limit(self.max_messages, self.max_bytes)


def _check_attempts(max_attempts: object, dead_letter: str | None) -> None:
    if dead_letter is not None:
        encode_name(dead_letter, "dead_letter")
    if max_attempts is not None:
        _within("max_attempts", max_attempts, 1, ATTEMPTS_MAX)
        if not isinstance(max_attempts, int):
            raise ValueError(f"max_attempts must be a whole number, not {shown(max_attempts)}")


def _limit(max_messages: object, max_bytes: object) -> Limit | None:
    given = {"max_messages": max_messages, "max_bytes": max_bytes}
    for name, value in given.items():
        if value is not None:
            _within(name, value, 1, COUNT_MAX)
            if not isinstance(value, int):
                raise ValueError(f"{name} must be a whole number, not {shown(value)}")
    return None if max_messages is None and max_bytes is None else Limit(max_messages, max_bytes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that a database is opened with. Sizes are in bytes, times in seconds."""

    max_data_file_size: int = 25 * MIB  # of a sealed file, footer included; 4096 to 16 GiB
    max_message_size: int = 6_144_000  # properties included; at most 1 GiB
    cleanup_interval: float = 30 * 60.0  # 0: only at start and when asked
    compact_share: float = 0.25  # files with a smaller live share are compacted by clean-up; 0: only on a full disk
    duplicate_count: int = 100_000
    duplicate_age: float = 3600.0
    create: bool = False  # begin a new database also where the directory holds files of somebody else
    policy: Policy = "salvage"
    validation: Validation = "full"
    unreadable_as_damaged: bool = False
    hold_suspects: bool = False  # hold back what damage may have brought back, until somebody lets it go
    retention_directory: Path | None = None  # clean-up moves files there instead of deleting them
    retention_age: float | None = None
    retention_bytes: int | None = None
    group_alignment: int = ALIGNMENT_MIN  # a power of two, up to 4096; at least the sector size assumes least
    archives_max: int = 20  # more are reported
    renew_interval: float = RENEW_SECONDS  # between two signs of life in the lock file
    is_shared: bool = False  # another host may open the directory: this one's cache is not believed, nor its lock alone
    passing: Holder | None = None  # a silent owner that is taken over although its lock is held
    max_messages: int | None = None  # undelivered in each queue that is not among `queues`; None: no limit
    max_bytes: int | None = None  # likewise, of payloads and properties
    queues: Mapping[str, QueueOptions] | None = None  # what holds for single queues, in place of what stands here
    max_attempts: int | None = None  # a message that came back so often goes to `dead_letter`; None: it comes again
    # The queue for them, which has none itself; also of those queues that have attempts of their own.
    dead_letter: str | None = None
    slow_sync: float = 1.0  # a commit that waits longer for the disk is told while it waits; 0: none is
    on_slow_sync: Callable[[float], None] | None = None  # told beside the log, with the seconds so far
    clock: Callable[[], int] = system_clock
    steady: Callable[[], int] | None = None  # a clock that nobody sets; None: the system's, beside its clock alone
    chance: Callable[[int], int] = secrets.randbits  # so many random bits, for identities
    sleep: Callable[[float], None] = time.sleep  # seconds

    @classmethod
    def _chosen(cls, options: "Options | None", named: Mapping[str, object]) -> "Options":
        """Return the options to open a database with. You give them as a whole, or name single ones.

        Raises ValueError.
        """
        if options is None:
            return cls.of(**named)
        if not isinstance(options, Options):
            raise TypeError(f"options must be an Options, not {shown(options)}; or name single options beside it")
        if named:
            raise ValueError(f"give options or {', '.join(named)}, not both")
        options._check()
        return options

    @classmethod
    def of(cls, **named: object) -> "Options":
        """Return options from values as people write them. None means the default. Raises ValueError and TypeError."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(named) - known)
        if unknown:
            every = sorted(NamedOptions.__annotations__)
            near = get_close_matches(unknown[0], every, 1)
            hint = f"did you mean {near[0]}?" if near else f"the options are {', '.join(every)}"
            raise TypeError(f"{unknown[0]} is not an option; {hint}")
        options = cls(**{name: _parsed(name, value) for name, value in _given(named).items()})
        options._check()
        return options

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], **named: object) -> "Options":
        """Return options from the seed's names in the environment. Values that you name here win. Raises ValueError."""
        found: dict[str, object] = {}
        for variable, name in ENVIRONMENT.items():
            text = environ.get(variable)
            if text:
                try:
                    found[name] = _parsed(name, f"{text}m" if variable in _IN_MINUTES and text.isdecimal() else text)
                except ValueError as failure:
                    raise ValueError(f"{variable}: {failure}") from None
        return cls.of(**{**found, **_given(named)})

    def _check(self) -> None:
        """Raise ValueError when a value is outside its limits."""
        _within("max_data_file_size", self.max_data_file_size, DATA_FILE_BYTES_MIN, DATA_FILE_BYTES_MAX)
        _within("max_message_size", self.max_message_size, 1, MESSAGE_BYTES_MAX)
        _within("group_alignment", self.group_alignment, ALIGNMENT_MIN, ALIGNMENT_MAX)
        _within("compact_share", self.compact_share, 0, 1)
        for name in ("cleanup_interval", "duplicate_age", "slow_sync"):
            _within(name, getattr(self, name), 0, SECONDS_MAX)
        for name in ("duplicate_count", "archives_max"):
            _within(name, getattr(self, name), 0, COUNT_MAX)
        _within("renew_interval", self.renew_interval, RENEW_SECONDS_MIN, 3600)
        if self.retention_age is not None:
            _within("retention_age", self.retention_age, 0, SECONDS_MAX)
        if self.retention_bytes is not None:
            _within("retention_bytes", self.retention_bytes, 0, COUNT_MAX)
        _limit(self.max_messages, self.max_bytes)
        self._check_types()
        self._dead_letters()
        if self.group_alignment & (self.group_alignment - 1):
            raise ValueError(f"group_alignment must be a power of two, not {self.group_alignment}")
        for name, choice in (("policy", Policy), ("validation", Validation)):
            if getattr(self, name) not in get_args(choice):
                raise ValueError(
                    f"{name} must be one of {', '.join(get_args(choice))}, not {shown(getattr(self, name))}"
                )

    def _check_types(self) -> None:
        """Raise TypeError when a value is not of its kind, ValueError for a part of a whole."""
        for name in _WHOLE:
            if type(getattr(self, name)) is float:
                raise ValueError(f"{name} must be a whole number, not {getattr(self, name)}")
        for name in _FLAGS:
            flag(getattr(self, name), name)
        may_be_none = [name for name in ("steady", "on_slow_sync") if getattr(self, name) is not None]
        for name in ("clock", "chance", "sleep", *may_be_none):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function, not {shown(getattr(self, name))}")
        if self.queues is not None:
            _queue_options(self.queues)
        if self.passing is not None and not isinstance(self.passing, Holder):
            raise TypeError(f"passing must be a Holder, not {shown(self.passing)}")
        if self.retention_directory is not None and not isinstance(self.retention_directory, Path):
            raise TypeError(f"retention_directory must be a Path, not {shown(self.retention_directory)}")

    def _dead_letters(self) -> DeadLetterQueues:
        """Return which messages of each queue become dead letters, and where they go.

        Raises ValueError, TypeError and InvalidName where that is half said.
        """
        _check_attempts(self.max_attempts, self.dead_letter)
        if self.max_attempts is not None and self.dead_letter is None:
            raise ValueError("max_attempts is given without dead_letter: name the queue that such messages go to")
        default = None
        if self.max_attempts is not None and self.dead_letter is not None:
            default = DeadLetters(self.dead_letter, self.max_attempts)
        queues = _queue_options(self.queues or {})
        named = {name: self._dead_letters_of(name, one) for name, one in queues.items()}
        if self.dead_letter is not None and not default:
            users = [one for name, one in queues.items() if named[name] is not None and one.dead_letter is None]
            if not users:
                raise ValueError("dead_letter is given without max_attempts: say how often a message may come back")
        for target in {one.queue for one in (default, *named.values()) if one is not None}:
            if target in queues and (said := _of_dead_letters(queues[target])):
                raise ValueError(f"queues[{target!r}] has {said}, and takes dead letters of others: it has none itself")
            named[target] = None
        return DeadLetterQueues(default, named)

    def _dead_letters_of(self, name: str, one: QueueOptions) -> DeadLetters | None:
        """Return what becomes of the messages of a queue that is named; ValueError."""
        attempts_max = self.max_attempts if one.max_attempts is None else one.max_attempts
        target = self.dead_letter if one.dead_letter is None else one.dead_letter
        if target is None:
            if said := _of_dead_letters(one):
                raise ValueError(
                    f"queues[{name!r}] has {said} without dead_letter: name the queue that such messages go to"
                )
            return None
        if one.dead_letter == name:
            raise ValueError(f"queues[{name!r}] has dead_letter {name!r}, the queue itself: name another one")
        if attempts_max is None and not one.expired_to_dead_letter:
            if one.dead_letter is not None:
                raise ValueError(
                    f"queues[{name!r}] has dead_letter without max_attempts: say how often a message may come back"
                )
            return None
        return DeadLetters(target, attempts_max, one.expired_to_dead_letter)

    def _recovery(self, progress: Progress) -> RecoveryOptions:
        """Return the part of the options that a start uses."""
        return RecoveryOptions(
            create=self.create,
            aside=self.retention_directory,
            policy=self.policy,
            validation=self.validation,
            unreadable_as_damaged=self.unreadable_as_damaged,
            hold_suspects=self.hold_suspects,
            data_file_bytes_max=self.max_data_file_size,
            archives_max=self.archives_max,
            passing=self.passing,
            is_shared=self.is_shared,
            renew_seconds=self.renew_interval,
            window=self._window,
            progress=progress,
            new_identity=lambda: uuid.UUID(int=self.chance(128), version=4).bytes,
        )

    def _journal(self) -> JournalSettings:
        """Return the part of the options that the journal uses."""
        return JournalSettings(
            random_identity=lambda: self.chance(64),
            clock=self.clock,
            data_file_bytes_max=self.max_data_file_size,
            alignment=self.group_alignment,
            reads_back=os.environ.get("OMS_CHECK") == "1",
        )

    def _limits(self) -> Limits | None:
        """Return the limits of the queues, None where no queue has one."""
        named = {name.encode(): one._limit() for name, one in _queue_options(self.queues or {}).items()}
        default = _limit(self.max_messages, self.max_bytes)
        return Limits(named, default) if default is not None or any(named.values()) else None

    def _ahead(self) -> int | None:
        """Return how far the clock is ahead of one that nobody sets. None when there is no such clock beside it."""
        steady = self.steady or (steady_clock if self.clock is system_clock else None)
        return None if steady is None else self.clock() - steady()

    def _moment(self) -> Moment:
        """Return what the two clocks show."""
        return tuple.__new__(Moment, ((self.steady or steady_clock)(), self.clock()))

    @property
    def _window(self) -> WindowBounds:
        return WindowBounds(count=self.duplicate_count, age_seconds=self.duplicate_age)


ENVIRONMENT = {
    "MAX_DATA_FILE_SIZE": "max_data_file_size",
    "MAX_MESSAGE_SIZE": "max_message_size",
    "MSG_CLEANUP_INTERVAL": "cleanup_interval",
    "RETENTION_DIRECTORY": "retention_directory",
    "RETENTION_AGE": "retention_age",
    "RETENTION_BYTES": "retention_bytes",
}
_IN_MINUTES = ("MSG_CLEANUP_INTERVAL",)  # as the seed gives it: "defaults to 30 minutes"
_SIZES = ("max_data_file_size", "max_message_size", "retention_bytes", "max_bytes")
_COUNTS = ("max_messages", "duplicate_count", "archives_max", "group_alignment", "max_attempts")
_DURATIONS = ("renew_interval", "cleanup_interval", "duplicate_age", "retention_age", "slow_sync")
_WHOLE = ("max_data_file_size", "max_message_size", "retention_bytes", *_COUNTS)
_FLAGS = ("unreadable_as_damaged", "hold_suspects", "is_shared", "create")
COUNT_MAX = 1 << 62
ATTEMPTS_MAX = 1_000_000_000


class NamedOptions(TypedDict, total=False):
    """The options that a database is opened with by name, as people write them; None is the default."""

    max_data_file_size: int | str | None
    max_message_size: int | str | None
    cleanup_interval: float | str | None
    compact_share: float | None
    duplicate_count: int | None
    duplicate_age: float | str | None
    policy: Policy | None
    validation: Validation | None
    unreadable_as_damaged: bool | None
    hold_suspects: bool | None
    retention_directory: str | Path | None
    retention_age: float | str | None
    retention_bytes: int | str | None
    group_alignment: int | None
    archives_max: int | None
    renew_interval: float | str | None
    create: bool | None
    max_messages: int | None
    max_bytes: int | str | None
    queues: Mapping[str, QueueOptions] | None
    max_attempts: int | None
    dead_letter: str | None
    slow_sync: float | str | None
    on_slow_sync: Callable[[float], None] | None
    clock: Callable[[], int] | None


def _given(named: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in named.items() if value is not None}


def _parsed(name: str, value: object) -> Any:
    try:
        if name in _SIZES:
            return parse_size(value)
        if name in _DURATIONS:
            return parse_duration(value)
    except ValueError as failure:
        raise ValueError(f"{name}: {failure}") from None
    if name in _COUNTS and isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if name == "queues":
        return _queue_options(value)
    if name == "retention_directory":
        if not isinstance(value, str | Path):
            raise TypeError(f"retention_directory must be a path (str or Path), not {shown(value)}")
        if not str(value):
            raise ValueError("retention_directory is empty; name a directory, or leave it out to delete files")
        return Path(value)
    return value


def _queue_options(queues: object) -> dict[str, QueueOptions]:
    """Return the options of single queues, in a dict of its own. TypeError, InvalidName."""
    if not isinstance(queues, Mapping):
        raise TypeError(f"queues must map names of queues to QueueOptions, not {shown(queues)}")
    found = {plain_text(name, "a name in queues"): queues[name] for name in queues}
    for name, one in found.items():
        encode_name(name, "a name in queues")
        if not isinstance(one, QueueOptions):
            raise TypeError(f"queues[{name!r}] must be a QueueOptions, not {shown(one)}")
    return found


def _of_dead_letters(one: QueueOptions) -> str:
    """Return which of its options makes dead letters of a queue's messages, "" for none."""
    for name in ("max_attempts", "dead_letter", "expired_to_dead_letter"):
        if getattr(one, name):
            return name
    return ""


def _within(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name} must be a number from {low} to {high}, not {shown(value)}")
