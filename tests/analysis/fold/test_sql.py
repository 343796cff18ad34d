"""Every answer of a fold is what one SQL statement answers on the lake of the same journals."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from oms_journal.analysis.fold.asked import Asked
from oms_journal.analysis.fold.local import answers
from tests.analysis.export.lakes import refreshed
from tests.support.journals.folded import EVERY
from tests.support.journals.plain_rows import Answer, assert_same_rows, plain_rows
from tests.support.journals.random_broker import BrokerWriter
from tests.support.journals.random_journal import RandomWriter, damage

NOW = 4_000_000_000_000_000
ASKED = Asked(every=EVERY)

OPERATIONS = """
create table operations as
select * replace (
    epoch_us(time) as time, epoch_us(first_time) as first_time, epoch_us(due) as due, epoch_us(expiry) as expiry
)
from read_parquet('{lake}/*/*.parquet')
"""
MESSAGES = """
create view messages as
select *, coalesce(delivered, deleted) as ended,
    added is not null and delivered is null and deleted is null as is_there,
    if(added is null or delivered is null, null, greatest(0, delivered - greatest(added, due))) as latency
from (
    select database, message, any_value(queue) as queue, min(first_time) as added, any_value(length) as length,
        any_value(hash) as hash, any_value(producer) as producer, any_value(due) as due,
        any_value(expiry) as expiry, max(commit) filter (operation = 'ADD' and not moved) as commit,
        min(commit) filter (operation = 'DELETE') as deleting,
        max(sequence) filter (operation = 'ADD') as file,
        min(time) filter (operation = 'DELIVER') as delivered, min(time) filter (operation = 'DELETE') as deleted
    from operations where message is not null group by database, message
)
"""
STATEMENTS = {
    "files": """
        select database, file, sequence, count(*) as rows, min(time) as first_time, max(time) as last_time
        from operations group by all
    """,
    "lifecycle": f"""
        select database, queue, count(added) as added, count(*) filter (added is null) as added_before,
            count(delivered) as delivered, count(*) filter (delivered is null and deleted is not null) as deleted,
            count(*) filter (delivered is null and deleted >= expiry) as expired,
            count(*) filter (delivered is null and deleting in (
                select commit from operations o
                where o.operation = 'ADD' and o.attempts is not null and not o.moved and o.database = messages.database
            )) as dead_lettered,
            count(*) filter (is_there) as undelivered, coalesce(sum(length) filter (is_there), 0) as undelivered_bytes,
            list_sort(list(latency) filter (latency is not null)) as sorted,
            sorted[ceil(0.5 * len(sorted))::int] / 1e6 as p50_seconds,
            sorted[ceil(0.9 * len(sorted))::int] / 1e6 as p90_seconds,
            sorted[ceil(0.99 * len(sorted))::int] / 1e6 as p99_seconds,
            max(latency) / 1e6 as max_seconds, min(message) filter (is_there) as oldest,
            arg_min(added, message) filter (is_there) as oldest_added,
            ({NOW} - arg_min(added, message) filter (is_there)) / 1e6 as oldest_age_seconds
        from messages group by all
    """,
    "latency_histogram": f"""
        select database, queue, bin, if(bin is null, 0, 10 ** (bin / {ASKED.bins_a_decade}) / 1e6) as from_seconds,
            if(bin is null, 1, 10 ** ((bin + 1) / {ASKED.bins_a_decade})) / 1e6 as to_seconds, count(*) as messages
        from (
            select *, if(latency = 0, null, len(list_filter(
                range(0, {18 * ASKED.bins_a_decade}),
                lambda place: 10 ** (place / {ASKED.bins_a_decade}) <= latency * (1 + 1e-12)
            )) - 1) as bin
            from messages where latency is not null
        ) group by all
    """,
    "latency_over_time": f"""
        select database, delivered // {EVERY} * {EVERY} as bucket, queue, count(*) as messages,
            list_sort(list(latency)) as sorted, sorted[ceil(0.5 * len(sorted))::int] / 1e6 as p50_seconds,
            sorted[ceil(0.9 * len(sorted))::int] / 1e6 as p90_seconds,
            sorted[ceil(0.99 * len(sorted))::int] / 1e6 as p99_seconds, max(latency) / 1e6 as max_seconds,
            0.0 as rank_error
        from messages where latency is not null group by all
    """,
    "counts": """
        select database, queue, operation, count(*) as operations, count(*) filter (moved) as moved,
            coalesce(sum(length), 0) as bytes
        from operations where key is null or key not like chr(0) || '%' group by all
    """,
    "rate": f"""
        select database, time // {EVERY} * {EVERY} as bucket, queue, operation, count(*) as operations,
            coalesce(sum(length), 0) as bytes
        from (
            select database, added as time, queue, 'ADD' as operation, length from messages where added is not null
            union all
            select database, delivered, queue, 'DELIVER', length from messages where delivered is not null
            union all
            select database, deleted, queue, 'DELETE', length from messages
            where deleted is not null and delivered is null
            union all
            select database, time, null, operation, length from operations
            where key not like chr(0) || '%' and not moved
        ) group by all
    """,
    "backlog": f"""
        with lives as (
            select database, queue, added as began, if(ended < added, added, ended) as ended,
                if(hash is null, 0, length) as size
            from messages
        )
        select each.database, each.bucket, each.queue, count(lives.queue) as undelivered,
            coalesce(sum(lives.size), 0) as undelivered_bytes
        from (
            select distinct database, queue, unnest([began, ended]) // {EVERY} * {EVERY} as bucket from lives
        ) as each
        left join lives on lives.database = each.database and lives.queue = each.queue
            and coalesce(lives.began < each.bucket + {EVERY}, true)
            and coalesce(lives.ended >= each.bucket + {EVERY}, true)
        where each.bucket is not null group by all
    """,
    "retention": """
        with live as (
            select database, file, message, null as key, queue from messages where is_there
            union all
            select database, sequence, null, key, null from (
                select database, key, arg_max(operation, (sequence, "offset")) as operation, max(sequence) as sequence
                from operations where key not like chr(0) || '%' group by all
            ) where operation = 'PUT'
        )
        select database, file as sequence, count(message) as live_messages, count(key) as live_keys,
            min(message) as pin_message, arg_min(queue, message) filter (message is not null) as pin_queue,
            if(count(message) = 0, min(key), null) as pin_key
        from live group by all
    """,
    "commits": f"""
        with commits as (
            select database, sequence, time, commit, count(*) as operations, count(*) filter (moved) as moved,
                coalesce(sum(length), 0) as bytes, min("offset") as place
            from operations group by all
        ), writes as (
            select database, time, time // {EVERY} * {EVERY} as bucket, count(*) as commits,
                sum(operations) as operations,
                sum(moved) as moved, sum(bytes) as bytes, max(operations) as operations_most, max(bytes) as bytes_most,
                lag(time) over (partition by database order by sequence, min(place)) as before,
                if(before is null, null, greatest(0, time - before)) as gap
            from commits group by database, sequence, time
        )
        select database, bucket, count(*) as writes, sum(commits) as commits, sum(operations) as operations,
            sum(moved) as moved, sum(bytes) as bytes, sum(commits) / count(*) as commits_per_write,
            max(commits) as commits_per_write_max, sum(operations) / sum(commits) as operations_per_commit,
            max(operations_most) as operations_per_commit_max, sum(bytes) / sum(commits) as bytes_per_commit,
            max(bytes_most) as bytes_per_commit_max,
            list_sort(list(gap) filter (gap is not null))[ceil(0.5 * count(gap))::int] / 1e6 as gap_p50_seconds,
            list_sort(list(gap) filter (gap is not null))[ceil(0.99 * count(gap))::int] / 1e6 as gap_p99_seconds,
            max(gap) / 1e6 as gap_max_seconds
        from writes group by all
    """,
    "duplicates": f"""
        with brought as (
            select database, queue, producer, commit, if(commit is null, added, null) as at,
                list_sort(list(hash)) as payloads, count(*) as messages, min(message) as first_message,
                max(message) as last_message, min(added) as first_time, max(added) as last_time
            from messages where producer is not null and added is not null group by all
        ), runs as (
            select *, sum(is_new) over (
                partition by database, queue, hash, length order by added, message rows unbounded preceding
            ) as run
            from (
                select *, if(added - lag(added) over (
                    partition by database, queue, hash, length order by added, message
                ) <= {ASKED.window}, 0, 1) as is_new
                from messages where added is not null
            )
        )
        select 'producer' as kind, database, queue, producer, null::bigint as hash, null::bigint as length,
            sum(messages) as messages, count(*) as commits, count(distinct payloads) = 1 as same_payloads,
            min(first_message) as first_message, max(last_message) as last_message, min(first_time) as first_time,
            max(last_time) as last_time
        from brought group by database, queue, producer having count(*) > 1
        union all
        select 'payload', database, queue, null, hash, length, count(*), null, true, min(message), max(message),
            min(added), max(added)
        from runs group by database, queue, hash, length, run having count(*) > 1
    """,
}
NOT_TOLD = {  # by a lake: sizes of files and of properties, and what clean-up makes of them
    "files": {"bytes", "sealed", "retained"},
    "retention": {
        "file", "active", "bytes", "live_bytes", "dead_bytes", "needed", "pinned_by", "pin_age_seconds", "pins_files",
        "freed_by_compact",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return journals of several databases: moved copies, files that are gone or moved away, damage, a broker store."""
    directory = tmp_path_factory.mktemp("journals")
    spools = [directory / f"spool-{seed}" for seed in range(4)]
    retention = directory / "retention"
    for seed, spool in enumerate(spools):
        RandomWriter(spool, seed, retention=retention if seed % 2 else None, has_terms=seed > 1).write()
    damage(sorted(spools[3].glob("*.data"))[1], place=0.6)
    broker = directory / "broker"
    BrokerWriter(broker, 1).write()
    return [*spools, broker, retention]


@pytest.fixture(scope="module")
def told(paths: list[Path]) -> dict[str, Answer]:
    found = answers([str(path) for path in paths], ASKED, now=NOW, processes=1)
    return {name: plain_rows(table) for name, table in found.items()}


@pytest.fixture(scope="module")
def lake(paths: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    where = tmp_path_factory.mktemp("lake")
    refreshed(where, *paths)
    with duckdb.connect() as connection:
        connection.execute(OPERATIONS.format(lake=where))
        connection.execute(MESSAGES)
        yield connection


@pytest.mark.parametrize("question", STATEMENTS)
def test_a_fold_answers_what_one_statement_answers_on_the_lake(
    question: str, told: dict[str, Answer], lake: duckdb.DuckDBPyConnection
) -> None:
    rows = lake.sql(STATEMENTS[question]).to_arrow_table().to_pylist()
    found = [{name: int(value) if isinstance(value, Decimal) else value for name, value in row.items()} for row in rows]

    left_out = NOT_TOLD.get(question, set())
    expected = [{name: value for name, value in row.items() if name not in left_out} for row in told[question]]
    if question == "files":
        expected = [row for row in expected if row["rows"]]
    if question == "retention":
        expected = [row for row in expected if row["live_messages"] or row["live_keys"]]
    assert len(expected) > 1
    assert_same_rows([{name: row[name] for name in expected[0]} for row in found], expected)
