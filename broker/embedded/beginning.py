"""What an embedded broker begins with: its attributes, its store begun and restored, its report.

said                       attributes
nothing                    the built-in ones, and the store of the platform's default directory
a directory                the built-in ones, and the store there
an attribute file          its own, with the directory in the place of its own if one is said
values by keyword          in the place of any of these: `pstore="COLD"`, `broker_id="ETB002"`
"""

import copy
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from oms_journal.broker.attributes.attributes import Attributes, built_in, read_attributes
from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.open import DEFAULT_FILE, open_store, start_options, version
from oms_journal.broker.embedded.runtime import Runtime
from oms_journal.broker.kernel.kernel import Kernel
from oms_journal.broker.kernel.restart.restore import restore, without_store
from oms_journal.broker.store.master import Identifiers
from oms_journal.broker.store.report import Report, report_path
from oms_journal.broker.store.start import PersistentStore, Pstore, StartedStore, StartRefused, StoreError, start_store
from oms_journal.database.arguments import flag, plain_text, shown
from oms_journal.database.options import system_clock
from oms_journal.recovery.place import directory_of

HOST_BYTES_MAX = 64  # of what a checkpoint says of the machine

Value = str | int  # of an attribute; True and False are YES and NO
OpenStore = Callable[..., PersistentStore]  # with the attributes, and `creates`


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """How a broker is to be begun."""

    attributes: Attributes
    erase: str | None = None  # the broker id whose data a cold start may erase
    erases_once: bool = False  # not what came behind an erasure, until a start has gone on with it
    report: str | None = None  # where the report goes, before ETB_PSTORE_REPORT and the default name
    open_store: OpenStore = open_store
    create: bool = False  # a new store also among files of somebody else
    is_standby: bool = False  # that takes over
    clock: Callable[[], int] = system_clock

    def __post_init__(self) -> None:
        for name in ("erase", "report"):
            if getattr(self, name) is not None:
                plain_text(getattr(self, name), name)
        flag(self.create, "create")


def attributes_of(
    directory: str | os.PathLike[str] | None,
    attributes: Attributes | str | os.PathLike[str] | None,
    given: Mapping[str, Value],
) -> Attributes:
    """Return the attributes that were said; AttributesInvalid. ValueError for values beside attributes read already.

    TypeError, and ValueError for what names no directory.
    """
    if isinstance(attributes, Attributes):
        if given:
            raise ValueError(f"the attributes are read already: say {', '.join(given)} when they are read")
        return attributes if directory is None else _elsewhere(attributes, directory_of(directory))
    said = {name: _text_of(name, value) for name, value in given.items()}
    if directory is not None:
        place = directory_of(directory)
        said = {"spool_directory": str(place), "database_file": str(place / DEFAULT_FILE)} | said
    if attributes is None:
        return built_in(**said)
    if not isinstance(attributes, str | os.PathLike):
        raise TypeError(f"attributes must be the path of an attribute file, or Attributes, not {shown(attributes)}")
    return read_attributes(Path(attributes), **said)


def _text_of(name: str, value: Value) -> str:
    """Return a value as an attribute file has it."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return value
    raise TypeError(f"{name} must be text as in an attribute file, a whole number, True or False, not {shown(value)}")


def _elsewhere(attributes: Attributes, directory: Path) -> Attributes:
    """Return the attributes with the store in another directory."""
    moved = copy.copy(attributes)
    moved.journal = replace(attributes.journal, spool_directory=str(directory))
    moved.sqlite = replace(attributes.sqlite, database_file=str(directory / DEFAULT_FILE))
    return moved


def with_start(attributes: Attributes, pstore: str) -> Attributes:
    """Return the attributes with another kind of start."""
    other = copy.copy(attributes)
    other.broker = replace(attributes.broker, pstore=pstore)
    return other


def start(wanted: StartOptions) -> Runtime:
    """Open the store, begin it as PSTORE says, and restore what it holds. StartRefused: then nothing is left open."""
    attributes, now = wanted.attributes, wanted.clock()
    if attributes.broker.run_mode != "STANDARD" and not wanted.is_standby:
        mode = attributes.broker.run_mode
        raise StartRefused(Code.VALUE_INVALID, f"RUN-MODE={mode} is for a broker that is a program of its own")
    job = f"{platform.node()[:HOST_BYTES_MAX]} {os.getpid()}"
    asked = start_options(attributes, now=now, erase=wanted.erase, job=job, is_standby=wanted.is_standby)
    asked = replace(asked, erases_once=wanted.erases_once)
    store: PersistentStore | None = None
    begun: StartedStore | None = None
    found, identifiers = without_store(), Identifiers.without_store(now)
    try:
        if asked.pstore is not Pstore.NO:
            among_others = {"among_others": True} if wanted.create else {}
            store = wanted.open_store(attributes, creates=asked.pstore is not Pstore.HOT, **among_others)
            begun = start_store(store, asked)
            found, identifiers = restore(store, now=now), begun.identifiers
        kernel = Kernel(attributes, found, identifiers)
    except StoreError as failure:
        _close(store)
        raise StartRefused(Code.RESTART_FAILED, f"the persistent store cannot be begun: {failure}") from failure
    except BaseException:
        _close(store)
        raise
    report = _report(attributes, wanted, begun, now)
    if report is not None:
        report.write(found.reported, now)
    return Runtime(
        attributes=attributes,
        kernel=kernel,
        store=store,
        begun=begun,
        report=report,
        clock=wanted.clock,
        job=job,
    )


def _close(store: PersistentStore | None) -> None:
    if store is not None:
        store.close()


def _report(attributes: Attributes, wanted: StartOptions, begun: StartedStore | None, now: int) -> Report | None:
    if begun is None or not attributes.broker.pstore_report:
        return None
    path = report_path(attributes.broker.run_mode, os.environ, wanted.report)
    report = Report(path, started=now, version=version())
    report.write(begun.reported, now)
    return report
