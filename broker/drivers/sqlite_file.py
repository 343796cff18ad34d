"""The file of an SQLite store: made, marked as ours, and opened for one process alone.

Write-ahead log, a sync for every commit, and pages that can be given back to the file system.
"""

import sqlite3
from pathlib import Path

from oms_journal.broker.drivers.sqlite_commit import SCHEMA

APPLICATION_ID = 0x4F4D5342  # OMSB
VERSION = 1
PAGE_BYTES = 4096


def connected(path: Path, *, pages_max: int = 0, creates: bool = True) -> sqlite3.Connection:
    """Return the file opened for this process alone, made where `creates` says so; `pages_max` of 0 is no bound.

    sqlite3.Error, also for a file of somebody else's, and while another process has it.
    """
    mode = "rwc" if creates else "rw"
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=0
    )
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: its plain sync stops at the device's cache
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute("BEGIN EXCLUSIVE")  # the lock is kept from here on
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        else:
            check_ours(connection, path)
        connection.execute("COMMIT")
        if pages_max:
            connection.execute(f"PRAGMA max_page_count = {pages_max}")
    except BaseException:
        connection.close()
        raise
    return connection


def check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Raise sqlite3.DatabaseError where the file is somebody else's, or of another version."""
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (identity, version) != (APPLICATION_ID, VERSION):
        raise sqlite3.DatabaseError(f"{path} is no persistent store of this version")
