"""From paths to partitions: which files are to be read, and by which worker, without a lock and without reading them.

Each directory is judged by itself, and what belongs to one database is one history. Files below the low-water mark are
history too, and are read where they are there. A file that lies in two of the directories, since clean-up is moving it
or one is a copy of the other, is read once.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from oms_journal.analysis.reading.damage import missing
from oms_journal.analysis.reading.datafile import agrees, durable_end, opened
from oms_journal.analysis.reading.directory import REQUESTS_MAX, Surveyed, survey
from oms_journal.analysis.reading.parts import FilePart as FilePart
from oms_journal.analysis.reading.parts import Partition as Partition
from oms_journal.analysis.reading.schema import Wanted
from oms_journal.analysis.reading.selection import may_hold
from oms_journal.analysis.storage import Location, Storage
from oms_journal.journal.errors import DiskError, NotThisDatabase
from oms_journal.journal.reading.datafile import DataFile, Footer

PARTITION_BYTES = 64 << 20  # of files that are read by one worker, unless one alone is larger
OPEN_BYTES = 1 << 20  # that opening a file counts for
LOCAL_THREADS = 2  # reading and hashing let go of the interpreter's lock


def plan(
    locations: Sequence[Location],
    wanted: Wanted | None = None,
    *,
    surveys: Sequence[Surveyed] | None = None,
    partition_bytes: int = PARTITION_BYTES,
    partitions_min: int = 1,
) -> list[Partition]:
    """Return what each worker is to read, so that nothing that is wanted is left out.

    Files are left out whole where their sequence, their header or a good footer says that nothing in them is wanted.
    What is written from now on is not read, however late a worker comes.
    Fewer bytes than `partition_bytes` make a partition where there would not be `partitions_min` of them. `surveys` are
    those of the locations, where somebody has them already. NotThisDatabase, NewerFormat, DiskError.
    """
    wanted = wanted or Wanted()
    surveys = surveyed(locations) if surveys is None else surveys
    parts = [part for part in parts_of(surveys, locations) if wanted.takes_sequence(part.sequence)]
    kept = [_settled(part) for part in _pruned(parts, wanted)]
    total = sum(_weight(part) for part in kept)
    count = max(-(-total // partition_bytes), partitions_min, 1)
    return list(_grouped(kept, -(-total // count)))  # even ones: a small last one would leave processors idle


def plan_damage(
    locations: Sequence[Location],
    *,
    surveys: Sequence[Surveyed] | None = None,
    partition_bytes: int = PARTITION_BYTES,
) -> list[Partition]:
    """Return what each worker is to examine, and in the last partition the files that are not there.

    As `plan`, but nothing is left out.
    """
    surveys = surveyed(locations) if surveys is None else surveys
    partitions = list(_grouped(parts_of(surveys, locations), partition_bytes))
    lost = tuple(missing(surveys))
    return [*partitions, Partition((), lost)] if lost else partitions


def surveyed(locations: Sequence[Location]) -> list[Surveyed]:
    """Return what the headers in each directory say.

    Folders of retained files come last, with those that were made meanwhile: a file that clean-up moves there is seen
    in one place at least.
    """
    first = [survey(location) for location in locations if not location.identity]
    databases = dict.fromkeys(one.database for one in first if one.database)
    known = {(location.storage, location.directory) for location in locations}
    folders = [location for location in locations if location.identity]
    for location in locations:
        for database in databases if location.is_root else ():
            folder = location.directory / database
            if (location.storage, folder) not in known and _is_directory(location.storage, folder):
                folders.append(Location(storage=location.storage, directory=folder, is_whole=True))
    return first + [survey(location, databases) for location in folders]


def _is_directory(storage: Storage, path: Path) -> bool:
    try:
        storage.disk().list(path)
    except OSError:
        return False
    return True


def parts_of(surveys: Iterable[Surveyed], locations: Sequence[Location]) -> list[FilePart]:
    """Return every file once, database by database, in the order of the journal; NotThisDatabase."""
    copies: dict[tuple[str, int, str], list[FilePart]] = {}
    for part in (part for one in surveys for part in one.parts):
        database = part.database or str(part.path.parent)  # a directory where nobody knows whose it is
        copies.setdefault((database, part.sequence, part.name), []).append(part)
    order = {database: place for place, database in enumerate(dict.fromkeys(database for database, *_ in copies))}
    ordered = sorted(copies, key=lambda key: (order[key[0]], *key[1:]))
    return [_with_copies(_best(copies[key]), copies[key], locations) for key in ordered]


def _best(copies: Sequence[FilePart]) -> FilePart:
    """Return the copy that has most: sealed, without gaps, good the farthest; NotThisDatabase."""
    if len(copies) == 1:
        return copies[0]
    known = [part for part in copies if part.identity is not None]
    for part in known[1:]:
        if part.identity != known[0].identity:
            raise NotThisDatabase(
                f"{known[0].path} and {part.path} are different files with one name: the directories hold two "
                f"histories of the database {part.database}; read them one at a time"
            )
    return max(copies, key=_worth)


def _worth(part: FilePart) -> tuple[bool, bool, int, int]:
    with opened(part.storage.disk(), part) as reading:
        has_gaps = reading.summary is not None and reading.summary.has_gaps
        return reading.is_sealed and not has_gaps, reading.is_sealed, reading.end, -len(reading.damages)


def _with_copies(part: FilePart, copies: Sequence[FilePart], locations: Sequence[Location]) -> FilePart:
    """Return the file with the places where it may be found when it has gone: copies, and where clean-up moves it."""
    places = [(copy.storage, copy.path) for copy in copies]
    for location in locations:
        if part.database and location.identity == part.database:
            places.append((location.storage, location.directory / part.name))
        if part.database and location.is_root:
            places.append((location.storage, location.directory / part.database / part.name))
    own = (part.storage, part.path)
    return replace(part, elsewhere=tuple(dict.fromkeys(place for place in places if place != own)))


def _pruned(parts: Sequence[FilePart], wanted: Wanted) -> Iterator[FilePart]:
    """Yield the files that may hold what is wanted."""
    parts = [part for part in parts if _may_have_commits(part, wanted)]
    if not parts or (wanted.since, wanted.until, wanted.queues, wanted.operations) == (None, None, None, None):
        yield from parts
        return
    is_local = all(part.storage.is_local for part in parts)
    with ThreadPoolExecutor(LOCAL_THREADS if is_local else REQUESTS_MAX) as pool:
        answers = pool.map(lambda part: _may_hold(part, wanted), parts)
        yield from (part for part, answer in zip(parts, answers, strict=True) if answer)


def _may_have_commits(part: FilePart, wanted: Wanted) -> bool:
    """Say by the headers alone whether the file may have commits in the wanted range."""
    if wanted.commits is None:
        return True
    first, last = wanted.commits
    if part.header is not None and part.header.created and part.header.next_commit > last:
        return False
    return part.named is None or part.named.commit >= first


def _may_hold(part: FilePart, wanted: Wanted) -> bool:
    """Say by its footer whether the file may hold what is wanted; one without is always read."""
    if part.identity is None or part.is_newest:
        return True
    try:
        with DataFile(part.storage.disk(), part.path) as file:
            footer = file.footer(identity=part.identity)
            if not isinstance(footer, Footer) or not agrees(footer, file, part):
                return True
    except FileNotFoundError:
        return True  # whoever reads it looks for it elsewhere, or says that it has gone
    except OSError as failure:
        raise DiskError(part.path, failure, "read") from failure
    needs_columns = wanted.queues is not None or wanted.operations is not None
    return may_hold(wanted, footer.summary.ranges, footer.contents() if needs_columns else None)


def _settled(part: FilePart) -> FilePart:
    """Return the file with how far it is known to be durable now, where somebody may be writing it."""
    if not part.is_newest or part.identity is None or not part.storage.is_local:
        return part
    return replace(part, limit=durable_end(part.storage.disk(), part))


def _grouped(parts: Iterable[FilePart], partition_bytes: int) -> Iterator[Partition]:
    """Yield neighbouring files together; one that may have to be walked, since it is being written, goes alone."""
    group: list[FilePart] = []
    together = 0
    for part in parts:
        is_alone = part.is_newest and part.identity is not None
        if group and (is_alone or together + _weight(part) > partition_bytes):
            yield Partition(tuple(group))
            group, together = [], 0
        group.append(part)
        together += _weight(part) + partition_bytes * is_alone
    if group:
        yield Partition(tuple(group))


def _weight(part: FilePart) -> int:
    """Return how much work a file is, in bytes; one that nobody knows holds nothing."""
    return 0 if part.identity is None else part.bytes + OPEN_BYTES
