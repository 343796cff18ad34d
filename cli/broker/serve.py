"""`oms serve`: runs the broker as a server, in the foreground, until it is told to stop."""

import asyncio
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.attributes.keywords import START_OF_MODE
from oms_journal.broker.attributes.text import AttributesInvalid
from oms_journal.broker.embedded.beginning import attributes_of
from oms_journal.broker.reachability import PORT_MAX
from oms_journal.broker.server.migration.exchange import MoveFailed
from oms_journal.broker.server.runtime.state import PortRefused
from oms_journal.broker.server.runtime.systemd import STATE_DIRECTORY, Systemd, unit_file
from oms_journal.broker.server.security.access import AccessRefused
from oms_journal.broker.server.server import Server, StoreTaken
from oms_journal.broker.server.standby.standby import StandbyEnds
from oms_journal.broker.store.start import StartRefused
from oms_journal.cli import options, output
from oms_journal.cli.broker.attributes import failure_of
from oms_journal.cli.failures import ExitCode, Failure, Usage, meaning
from oms_journal.cli.output import printable
from oms_journal.cli.progress import ProgressBar
from oms_journal.journal.errors import DatabaseLocked, NotADatabase

FileToServe = Annotated[
    Path | None,
    typer.Argument(
        metavar="ATTRIBUTE-FILE",
        envvar="ETB_ATTR",
        help="The attribute file; without one the built-in defaults.",
        show_default=False,
    ),
]
RunMode = Annotated[
    str | None,
    typer.Option("--run-mode", metavar="MODE", help="Run as STANDARD, STANDBY, PSTORE-UNLOAD or PSTORE-LOAD."),
]
PartnerAddress = Annotated[
    str | None, typer.Option("--partner", metavar="HOST:PORT", help="Find the other broker at this HTTP address.")
]
ReportFile = Annotated[
    str | None,
    typer.Option("-p", metavar="FILE", help="Write the report of the store into this file, with PSTORE-REPORT=YES."),
]
StompPort = Annotated[
    int | None,
    typer.Option(
        "--stomp-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Listen for STOMP on this port; 0: any that is free.  [61613]",
    ),
]
Erase = Annotated[
    str | None,
    typer.Option(
        "--erase",
        metavar="BROKER-ID",
        help="Begin with an empty store (PSTORE=COLD), erasing what this broker has in it.",
    ),
]
_ADDRESS = re.compile(r"([^\s:/]+:([0-9]{1,5}))(?::TCP)?", re.IGNORECASE)
_OPTIONS = {  # that give attributes
    "host": "HOST",
    "stomp-port": "STOMP-PORT",
    "http-port": "HTTP-PORT",
    "run-mode": "RUN-MODE",
    "partner": "PARTNER-CLUSTER-ADDRESS",
}
IsUnit = Annotated[bool, typer.Option("--systemd-unit", help="Print a unit file for systemd that serves so, and end.")]


def serve(  # noqa: PLR0913 - one for each option
    file: FileToServe = None,
    spool: Annotated[
        Path | None,
        typer.Option(
            "--spool", "-s", envvar="SPOOL_DIRECTORY", metavar="DIR", help="Keep the store in this directory."
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="Listen on this address.  [127.0.0.1]")
    ] = None,
    stomp_port: StompPort = None,
    http_port: Annotated[
        int | None,
        typer.Option(
            "--http-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="Listen for HTTP on this port; 0: any that is free.  [1971]",
        ),
    ] = None,
    run_mode: RunMode = None,
    partner: PartnerAddress = None,
    report: ReportFile = None,
    create: options.Create = False,
    erase: Erase = None,
    is_unit: IsUnit = False,
    as_json: options.AsJson = False,
) -> None:
    """Serve programs over STOMP and HTTP until SIGTERM or Ctrl-C.

    Without a file oms listens on this machine alone. It begins the store in the spool directory, or goes on with it
    (PSTORE=WARM). It prints where it listens, and logs to stderr, one line each. If you stop it, you lose nothing that
    was acknowledged.

    With --erase you confirm that oms erases the store, for this start alone.

    With PSTORE-UNLOAD here and PSTORE-LOAD at the partner oms moves the store there, whole and compared, and ends by
    itself.
    """
    given: dict[str, str | int | None] = {"host": host, "stomp_port": stomp_port, "http_port": http_port}
    if is_unit:
        said = given | {"run_mode": run_mode, "partner": partner, "erase": erase}
        for line in _unit(file, spool, said).splitlines():
            output.print_line(line)
        return
    given |= _mode(run_mode, partner, create=create)
    attributes = _attributes(file, spool, given, as_json=as_json)
    if erase is not None:
        _check_erasable(attributes)
        attributes = _attributes(file, spool, given | {"pstore": "COLD"}, as_json=as_json)
    _log_to_stderr(as_json=as_json)
    _run_to_its_end(partial(Server, attributes, report=report, create=create, erase=erase), as_json=as_json)


def _run_to_its_end(make: Callable[..., Server], *, as_json: bool) -> None:
    """Run the server until it ends. Failure where it cannot serve, or another broker has its store."""
    try:
        with ProgressBar(is_bytes=False, is_long=True) as bar:
            asyncio.run(_run(partial(make, show=bar), as_json=as_json))
    except (AccessRefused, PortRefused, StandbyEnds, MoveFailed) as refused:
        raise Failure(str(refused), ExitCode.UNUSABLE) from refused
    except StoreTaken as taken:
        raise Failure(str(taken), ExitCode.LOCKED) from taken
    except StartRefused as refused:
        raise _start_failure(refused) from refused


def _mode(run_mode: str | None, partner: str | None, *, create: bool) -> dict[str, str | int | None]:
    """Return the attributes of a run mode: what it takes as PSTORE goes with it. Usage where it begins no store."""
    said: dict[str, str | int | None] = {}
    if run_mode is not None:
        said["run_mode"] = run_mode
        if create and run_mode.upper() in ("PSTORE-LOAD", "PSTORE-UNLOAD"):
            raise Usage(f"--create goes with RUN-MODE=STANDARD or STANDBY, not with {run_mode}")
        if run_mode.upper() in START_OF_MODE:
            said["pstore"] = START_OF_MODE[run_mode.upper()]
    if partner is not None:
        address = _ADDRESS.fullmatch(partner)
        if address is None or not 1 <= int(address[2]) <= PORT_MAX:
            raise Usage(f"--partner is HOST:PORT, with a port of 1 to {PORT_MAX}, not {partner!r}")
        said["partner_cluster_address"] = f"{address[1]}:TCP"
    return said


def _check_erasable(attributes: Attributes) -> None:
    """Raise Usage where the start would open no store of its own, which --erase could empty."""
    broker = attributes.broker
    if broker.run_mode != "STANDARD":
        raise Usage(f"--erase goes with RUN-MODE=STANDARD, not with {broker.run_mode}")
    if broker.pstore == "NO":
        raise Usage("--erase begins with an empty store, and PSTORE=NO has none: say PSTORE=COLD, HOT or WARM")


async def _run(make: Callable[..., Server], *, as_json: bool) -> None:
    async with Systemd(os.environ) as systemd:

        def ready(addresses: list[str]) -> None:
            if as_json:
                output.print_json_line({"listening": dict(address.split(" ", 1) for address in addresses)})
            else:
                for address in addresses:
                    output.print_line(f"listening for {address}")
            sys.stdout.flush()
            systemd.ready(f"listening for {', '.join(addresses)}")

        moved = await make(on_stop=systemd.stopping).run(ready)
    if moved and as_json:
        output.print_json_line({"moved": moved})
    elif moved:
        output.print_line(moved)


def _unit(file: Path | None, spool: Path | None, said: Mapping[str, str | int | None]) -> str:
    """Return the unit file of a server that is called like this one, with absolute paths."""
    if said.get("erase") is not None:
        raise Usage("--erase is for one start: in a unit file it would erase the store at each restart")
    program = Path(sys.argv[0]).absolute()
    is_module = program.name == "__main__.py"
    command = [*([sys.executable, "-m", "oms_journal.cli"] if is_module else [str(program)]), "serve"]
    if file is not None:
        command.append(str(file.absolute()))
    spool = spool.absolute() if spool is not None else STATE_DIRECTORY / "store" if file is None else None
    writable = []
    if spool is not None:
        command += ["--spool", str(spool)]
        writable.append(spool)
    for name, value in said.items():
        if value is not None:
            command += [f"--{name.replace('_', '-')}", str(value)]
    return unit_file([*command, "--json"], writable=writable)


def _attributes(
    file: Path | None, spool: Path | None, said: Mapping[str, str | int | None], *, as_json: bool
) -> Attributes:
    if said.get("host") == "":
        raise Usage("--host is an empty text; give the name or the address of an interface, as in 127.0.0.1")
    if spool is not None and spool.exists() and not spool.is_dir():
        raise Usage(f"{spool} is not a directory; --spool DIR or SPOOL_DIRECTORY gives another")
    given = {name: str(value) for name, value in said.items() if value is not None}
    try:
        return attributes_of(spool, file, given)
    except AttributesInvalid as invalid:
        options_of = {
            attribute: f"--{option}"
            for option, attribute in _OPTIONS.items()
            if file is None or said.get(attribute.lower().replace("-", "_")) is not None
        }
        raise failure_of(invalid, as_json=as_json, options_of=options_of) from None


def _start_failure(refused: Exception) -> Failure:
    cause = refused.__cause__
    if isinstance(cause, NotADatabase):
        return meaning(cause)
    if not isinstance(cause, DatabaseLocked):
        return Failure(str(refused), ExitCode.UNUSABLE)
    return Failure(f"{refused}; a broker with RUN-MODE=STANDBY would stand by for it", ExitCode.LOCKED)


class _Lines(logging.Formatter):
    """A log record as one line: time, level, who, and what; or as JSON, with what it is about in fields of its own.

    A line of JSON has `time` (UTC), `level`, `logger`, `event`, `text`; `broker/server/runtime/log.py` has the events.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += " | " + " | ".join(self.formatException(record.exc_info).splitlines())
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._as_json:
            line = {"time": when, "level": record.levelname.lower(), "logger": record.name, "event": "message"}
            return json.dumps(line | getattr(record, "fields", {}) | {"text": text})
        return f"{when} {record.levelname.lower():7} {record.name}: {printable(text)}"


class _Stderr(logging.Handler):
    """Writes to what stderr is at the moment: while a bar stands there, above it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            self.handleError(record)


def _log_to_stderr(*, as_json: bool) -> None:
    stream = _Stderr()
    stream.setFormatter(_Lines(as_json=as_json))
    ours = logging.getLogger("oms")
    ours.handlers[:] = [stream]
    ours.setLevel(logging.INFO)
    ours.propagate = False
    # What libraries have to say has the same form; what a client does wrong over HTTP is told to that client.
    logging.captureWarnings(capture=True)
    logging.getLogger().handlers[:] = [stream]
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
