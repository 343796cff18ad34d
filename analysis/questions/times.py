"""Times in questions: as numbers, in buckets, and how long ago. Inside, times are microseconds since 1970 UTC."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(time: Column | str) -> Column:
    """Return a timestamp as microseconds."""
    return F.unix_micros(time)


def seconds(duration: Column) -> Column:
    """Return microseconds as seconds."""
    return duration / F.lit(1e6)


def between(start: Column | str, end: Column | str) -> Column:
    """Return the microseconds from one timestamp to another; 0 where the clock was set back, null where one is."""
    duration = micros(end) - micros(start)
    return F.when(duration < 0, F.lit(0)).otherwise(duration)


def age(time: Column | str, now: datetime | None) -> Column:
    """Return how many seconds ago a timestamp was; 0 for one in the future."""
    return seconds(between(time, moment(now)))


def moment(now: datetime | None) -> Column:
    """Return a time as a column; None is the time at which the question is answered. ValueError without a time zone."""
    if now is None:
        return F.current_timestamp()
    if now.tzinfo is None:
        raise ValueError(f"{now} has no time zone; write datetime.now(UTC), or give it one")
    return F.timestamp_micros(F.lit((now - _EPOCH) // MICROSECOND))


def bucket_of(time: Column | str, every: timedelta) -> Column:
    """Return the beginning of the bucket that a timestamp is in. ValueError for a width that is none."""
    width = every // MICROSECOND
    if width <= 0:
        raise ValueError(f"a bucket is at least a microsecond wide, not {every}")
    at = micros(time)
    return F.timestamp_micros(at - F.pmod(at, F.lit(width)))
