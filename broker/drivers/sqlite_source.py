"""An SQLite store that is unloaded: PSTORE-TYPE=SQLITE, read only, so that neither file nor log is changed.

A reader of the write-ahead log keeps a lock on the file as long as it is open, and a broker takes it for itself alone:
while one has it the other is refused.
"""

import sqlite3
from pathlib import Path

from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.sqlite_contents import SqliteReading
from oms_journal.broker.drivers.sqlite_file import check_ours
from oms_journal.broker.store.start import StartRefused


class SqliteSource(SqliteReading):
    """What is read of a store while it is moved. Made by `open`."""

    def __init__(self, file: Path, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.place = str(file)
        self.identity = ""  # the file has none of its own

    @classmethod
    def open(cls, file: str | Path) -> "SqliteSource":
        """Open the file for reading, and keep everybody from writing it. StartRefused."""
        path = Path(file).absolute()
        if not path.exists():
            raise StartRefused(Code.RESTART_FAILED, f"{path} holds no persistent store, so there is nothing to unload")
        try:
            connection = sqlite3.connect(
                f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False, timeout=0
            )
            try:
                check_ours(connection, path)
                connection.execute("BEGIN")
                connection.execute("SELECT commits FROM counters").fetchall()  # one picture from here on
                return cls(path, connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as failure:
            raise StartRefused(
                Code.RESTART_FAILED, f"the persistent store {path} cannot be unloaded: {failure}"
            ) from failure

    def close(self) -> None:
        with self._lock:
            self._away = self._away or "the persistent store was closed"
            self._connection.close()
