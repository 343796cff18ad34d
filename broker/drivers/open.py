"""Opening the store that the attributes name, with the driver of its PSTORE-TYPE, and how they want it begun."""

import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.sqlite import SqliteOptions, SqliteStore
from oms_journal.broker.drivers.sqlite_commit import Limits
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.store.start import PersistentStore, Pstore, StoreStart, platform
from oms_journal.database.options import Options
from oms_journal.journal.lock import RENEW_SECONDS, Holder
from oms_journal.journal.operations import MESSAGE_BYTES_MAX, PROPERTIES_BYTES_MAX

DEFAULT_DIRECTORY = Path(
    r"C:\Program Files\Universal\spool\oms" if sys.platform == "win32" else "/var/opt/universal/spool/oms"
)
DEFAULT_FILE = "broker.sqlite"
RENEWALS_IN_INTERVAL = 4  # signs of life in a CONTROL-INTERVAL, so that none is missed where the others are not


def place_of(attributes: Attributes) -> tuple[str, Path]:
    """Return the driver of the store, and its directory or file."""
    if attributes.broker.pstore_type == "SQLITE":
        return "SQLITE", Path(attributes.sqlite.database_file or DEFAULT_DIRECTORY / DEFAULT_FILE).resolve()
    return "JOURNAL", Path(attributes.journal.spool_directory or DEFAULT_DIRECTORY).resolve()


def open_store(
    attributes: Attributes,
    *,
    creates: bool = True,
    among_others: bool = False,
    takes_any: bool = False,
    passing: Holder | None = None,
) -> PersistentStore:
    """Return the store of the attributes, opened and not begun. StartRefused.

    `creates` where there is none, `among_others` also in a directory that holds files of somebody else; `takes_any` is
    messages of any length, `passing` a silent owner whose lock does not count.
    """
    driver, place = place_of(attributes)
    longest = MESSAGE_BYTES_MAX if takes_any else _message_bytes_max(attributes)
    if driver == "SQLITE":
        return SqliteStore.open(place, SqliteOptions(limits=Limits(message_bytes_max=longest)), creates=creates)
    options = replace(
        journal_options(attributes), max_message_size=longest, passing=passing, create=creates and among_others
    )
    return JournalStore.open(place, options, creates=creates)


def spool_directory(attributes: Attributes) -> Path:
    """Return where the message database of the attributes is."""
    return place_of(attributes)[1]


def journal_options(attributes: Attributes) -> Options:
    """Return how the message database is opened."""
    journal, broker = attributes.journal, attributes.broker
    return Options(
        is_shared=broker.partner_cluster_address is not None,
        renew_interval=min(RENEW_SECONDS, broker.control_interval / MICROSECONDS / RENEWALS_IN_INTERVAL),
        max_data_file_size=journal.max_data_file_size,
        max_message_size=_message_bytes_max(attributes),
        cleanup_interval=journal.msg_cleanup_interval / MICROSECONDS,
        retention_directory=None if journal.retention_directory is None else Path(journal.retention_directory),
        retention_age=None if journal.retention_age is None else journal.retention_age / MICROSECONDS,
        retention_bytes=journal.retention_bytes,
    )


def _message_bytes_max(attributes: Attributes) -> int:
    """Return how long a message of the store may be: what is said, else as the longest one and its properties need."""
    said = attributes.journal.max_message_size if attributes.broker.pstore_type == "JOURNAL" else None
    return said or min(attributes.longest_message() + PROPERTIES_BYTES_MAX, MESSAGE_BYTES_MAX)


def start_options(
    attributes: Attributes, *, now: int, erase: str | None = None, job: str = "", is_standby: bool = False
) -> StoreStart:
    """Return how the attributes want their store begun; `erase` names the broker whose data a cold start may erase."""
    return StoreStart(
        broker_id=attributes.broker.broker_id,
        pstore=Pstore(attributes.broker.pstore),
        now=now,
        version=version(),
        job=job,
        platform=platform(),
        force_cold=attributes.broker.force_cold,
        erase=erase,
        is_standby=is_standby,
        is_reported=attributes.broker.pstore_report,
    )


def version() -> str:
    """Return the version of this program, as master records and reports say it."""
    try:
        return metadata.version("oms-journal")
    except metadata.PackageNotFoundError:
        return "0"
