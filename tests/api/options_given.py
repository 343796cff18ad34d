"""The options of an opening: for each, values that it takes and values that it must refuse in words that name it."""

from collections.abc import Mapping
from typing import Any

from oms_journal import QueueOptions

NO_NUMBERS: tuple[object, ...] = ("no", "", [], {}, object(), True, float("nan"), -1, b"5", 1j)
NO_FLAGS: tuple[object, ...] = ("no", "yes", "", 1, 0, [], object(), 1.0)
NO_CALLABLES: tuple[object, ...] = (5, "time", [], object())

# What may be given, as a function of a folder; what must be refused.
OPTIONS: Mapping[str, tuple[tuple[Any, ...], tuple[object, ...]]] = {
    "max_data_file_size": ((65_536, "64K", "1M"), (*NO_NUMBERS, 4095, 1 << 40, 65_536.5, "1X")),
    "max_message_size": ((9000, "9K"), (*NO_NUMBERS, 0, 2 << 30, 1.5)),
    "cleanup_interval": ((0, 0.0, "30m", 3600), NO_NUMBERS),
    "compact_share": ((0, 0.5, 1), (*NO_NUMBERS, 1.5, "1/2")),
    "duplicate_count": ((100_000, "500"), (*NO_NUMBERS, 1.5)),
    "duplicate_age": ((1e9, "90d"), NO_NUMBERS),
    "policy": (("salvage", "refuse", "truncate"), ("", "no", 5, [], {}, object(), True)),
    "validation": (("full", "footers"), ("", "no", 5, [], {}, object(), True)),
    "unreadable_as_damaged": ((False, True), NO_FLAGS),
    "hold_suspects": ((False, True), NO_FLAGS),
    "retention_directory": ((), (5, "", [], {}, object(), True)),
    "retention_age": ((60, "7d"), NO_NUMBERS),
    "retention_bytes": ((0, "25M"), (*NO_NUMBERS, 1.5)),
    "group_alignment": ((8, 512, "4096"), (*NO_NUMBERS, 7, 24, 8192, 8.0)),
    "archives_max": ((20, 0), (*NO_NUMBERS, 1.5)),
    "renew_interval": ((5, "5s", 0.5), (*NO_NUMBERS, 0, 5000)),
    "is_shared": ((False,), NO_FLAGS),
    "create": ((False, True), NO_FLAGS),
    "passing": ((), (5, "somebody", object())),
    "clock": ((), NO_CALLABLES),
    "chance": ((), NO_CALLABLES),
    "sleep": ((), NO_CALLABLES),
    "max_messages": ((1000, "500"), (*NO_NUMBERS, 0, 1.5)),
    "max_bytes": ((1 << 30, "25M"), (*NO_NUMBERS, 0, 1.5, "1X")),
    "queues": (
        (
            {},
            {"a": QueueOptions(max_messages=5)},
            {"a": QueueOptions(max_bytes="1M"), "b": QueueOptions()},
            {"a": QueueOptions(max_attempts=3, dead_letter="c", expired_to_dead_letter=True), "c": QueueOptions()},
        ),
        (
            *(5, "a", ["a"], {"a": 5}, {"a": None}, {5: QueueOptions()}, {"": QueueOptions()}, object(), True),
            *({"a": QueueOptions(max_attempts=3)}, {"a": QueueOptions(dead_letter="a", max_attempts=3)}),
            {"a": QueueOptions(max_attempts=3, dead_letter="b"), "b": QueueOptions(max_attempts=3, dead_letter="c")},
        ),
    ),
    "max_attempts": ((), (*NO_NUMBERS, 0, 1.5, 10**10, 3)),  # 3 asks for a dead_letter
    "dead_letter": ((), (5, "", [], {}, object(), True, b"dead", "q" * 256, "dead")),  # likewise
    "slow_sync": ((0, 0.5, "2s", "1m"), NO_NUMBERS),
    "on_slow_sync": ((float, print), NO_CALLABLES),
    "steady": ((), NO_CALLABLES),
    "directory": ((), (5, 1.5, object(), [], "", b"", None, True, "a\0b")),
    "options": ((), (5, {}, "x", [], {"policy": "refuse"}, object())),
    "disk": ((), (5, "x", object())),
    "progress": ((), (5, "x", object())),
}
