"""Every operation of directories and single files, in order, as recovery judges them. Changes nothing.

Of a directory each file is shown as its neighbours, its lock file and a backup's manifest say, which is how a start
and `verify` read it:

a file is                 what is shown of it
missing, or emptied       a damaged range, where something says that it was begun
late                      its operations, none of them vouched for: a former owner wrote them after it was overtaken,
                          and nobody was told that they were durable
named by its successor    its operations up to where that says it ends, and a damaged range for what is not there
not needed any more       nothing: it is below the low-water mark, or a backup's manifest does not name it

A file that is given by its own path is judged by itself and by its neighbours in the list, and so are the files that
clean-up has moved away: none of these are needed, and all are wanted.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.reading.dump import (
    Dumped,
    DumpedDamage,
    DumpedPart,
    Judged,
    data_files_of,
    dump_files_as_columns,
    dump_frames,
    has_moved_files,
    one_by_one,
    removed,
    sequence_of,
)
from oms_journal.recovery.bad_blocks import unreadable_in
from oms_journal.recovery.examination import Examination
from oms_journal.recovery.restoring import refuse_unfinished
from oms_journal.recovery.validation import examine_directory, no_progress


def every_file(_sequence: int) -> bool:
    """Say of each data file that it is wanted."""
    return True


def dump(disk: Disk, paths: Iterable[Path], wanted: Callable[[int], bool] = every_file) -> Iterator[Dumped]:
    """Yield every operation and every damaged range of the paths, in their order, of the wanted sequences.

    DiskError, NewerFormat; of a directory also NotThisDatabase, RestoreUnfinished, ManifestDamaged.
    """
    return one_by_one(dump_as_columns(disk, paths, wanted))


def dump_as_columns(
    disk: Disk, paths: Iterable[Path], wanted: Callable[[int], bool] = every_file
) -> Iterator[DumpedPart]:
    """Yield the same as columns, some thousand operations at once."""
    for is_judged, run in groupby(((path, data_files_of(disk, path)) for path in paths), key=_is_database):
        if is_judged:
            for directory, _ in run:
                yield from _dump_directory(disk, directory, wanted)
        else:
            yield from dump_files_as_columns(
                disk, (file for _, files in run for file in files if wanted(sequence_of(file)))
            )


def _is_database(found: tuple[Path, list[Path]]) -> bool:
    """Say whether a path is a directory with the data files of a database that can be opened, or could once."""
    path, files = found
    return files[:1] != [path] and all(file.parent == path for file in files) and not has_moved_files(path)


def _dump_directory(disk: Disk, directory: Path, wanted: Callable[[int], bool]) -> Iterator[DumpedPart]:
    refuse_unfinished(disk, directory)
    for examined in examine_directory(disk, directory, no_progress, full=False):
        if wanted(examined.sequence):
            yield from _dump_examined(disk, examined)


def _dump_examined(disk: Disk, examined: Examination) -> Iterator[DumpedPart]:
    task, decision = examined.task, examined.decision
    if task.identity is None or not (examined.end or task.is_late):
        if decision.row != "prepared":
            yield _damage(examined, start=0, end=max(examined.size, examined.extent))
        return
    try:
        with DataFile(disk, examined.path) as file:
            judged = Judged(
                identity=task.identity,
                header=task.header,
                named=task.named,
                is_promised=task.is_promised,
                is_late=task.is_late,
                floor=task.floor,
                unreadable=unreadable_in(file.file),
                walked=examined.contents if decision.row == "unsealed" and not task.is_late else None,
                vouched=examined.end if examined.in_doubt is None else examined.in_doubt,
            )
            yield from dump_frames(file, judged)
    except FileNotFoundError:
        yield removed(examined.path)
    except OSError as failure:
        raise DiskError(examined.path, failure, "read") from failure
    if decision.row == "other ending":
        yield _damage(examined, start=examined.end, end=examined.end)


def _damage(examined: Examination, *, start: int, end: int) -> DumpedDamage:
    name, sequence = examined.name, examined.sequence
    return DumpedDamage(file=name, sequence=sequence, start=start, end=end, reason=examined.reason)
