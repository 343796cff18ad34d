"""The program `oms`: the table of its commands, and how each end of a command becomes an exit code."""

import errno
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from oms_journal.cli.arguments import Command, Group
from oms_journal.cli.failures import ExitCode, Failure, Usage, meaning, tell
from oms_journal.cli.output import Notes
from oms_journal.journal.errors import JournalError

# The commands as they are listed: each name, the module of ours that is imported when it is called, and its function
# there. Until then its line is all there is of it.
COMMANDS = {
    "load": ("messages.load", "load", "Add each line, object or row of FILE as a message, durably."),
    "send": ("messages.messages", "send", "Add one message to a queue, durably, and print its number."),
    "receive": ("messages.receive", "receive", "Take messages in order: print each, then mark it delivered."),
    "list": ("messages.messages", "list_messages", "Show the queues, or the undelivered messages of one."),
    "show": ("messages.messages", "show", "Show one undelivered message: place, properties, payload."),
    "dump": ("history.dump", "dump", "Print every operation in the journal, in order."),
    "stats": ("store.inspect", "stats", "Show files, bytes, queues, and what pins the oldest file."),
    "explain": ("store.inspect", "explain", "Say why each data file is still there, and what could go."),
    "delete": ("messages.remove", "delete", "Delete undelivered messages, by number or queue, after asking."),
    "drop": ("messages.remove", "drop", "Drop a key and its value, after asking."),
    "release": ("messages.release", "release", "Release what is held back, or discard it, after asking."),
    "verify": ("store.inspect", "verify", "Say whether each data file is clean, torn or damaged."),
    "recover": ("store.repair", "recover", "Repair what is torn or damaged, and report what was lost."),
    "cleanup": ("store.repair", "cleanup", "Delete the oldest data files that nothing needs any more."),
    "backup": ("store.backup", "backup", "Back a database up into a directory, while it runs."),
    "restore": ("store.restore", "restore", "Make a database from a backup, in a directory that is new."),
    "io-test": ("store.iotest", "io_test", "Measure how fast this directory's device makes bytes durable."),
    "demo": ("demo.flights.command", "demo", "Run the main job on 336,776 real flights, a kill included."),
    "analyze": ("history.analyze", "analyze", "Say what is stuck, slow, full or lost, as a page and tables."),
    "export": ("history.export", "export", "Keep a Parquet data set current, for DuckDB, Polars, pandas."),
    "estimate": ("store.estimate", "estimate", "Say how much disk and memory a load of units of work takes."),
    "chess": ("demo.chess.command", "chess", "Play chess by mail over a broker: a whole game, with kills."),
    "queue": ("queue.commands", "queue", "Serve a queue to other processes; requeue dead letters."),
    "serve": ("broker.serve", "serve", "Serve programs over STOMP and HTTP until it is told to stop."),
    "info": ("broker.queries", "query", "Show what a running broker knows."),
    "cmd": ("broker.command", "command", "Give a running broker a command."),
    "top": ("broker.top", "top", "Watch a running broker."),
    "attributes": ("broker.attributes", "attributes", "Check a broker's attribute file, show the values that count."),
    "user": ("broker.users", "user", "Say who may log on to a server, and may do what."),
}


_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class Oms(Group):
    """The group of all commands. Every way a command can end becomes one line and an exit code."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        """Run the command line and exit; `standalone_mode` makes no difference."""
        if sys.stderr is None:  # it was closed before the start
            sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - to the end
        arguments = list(sys.argv[1:] if args is None else args)
        Notes.as_json = "--json" in arguments
        named["standalone_mode"] = False
        sys.exit(_exit_code(lambda: super(Oms, self).main(arguments, *rest, **named), as_json=Notes.as_json))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; output whose reader has gone ends it without a word."""
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            raise typer.Exit(ExitCode.PIPE_CLOSED) from None
        except OSError as failure:
            if failure.filename is not None or failure.errno not in _OF_OUTPUT:
                raise
            _discard_output()
            raise Failure(f"cannot write the output: {failure.strerror}", ExitCode.UNUSABLE) from failure
        return value


class LazyCommand(Command):
    """A command that is imported when it is called; until then its name and its line in the list are all there is."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the imported command."""
        assert self.name is not None
        return _import_command(self.name).make_context(info_name, args, parent=parent, **extra)


@cache
def _import_command(name: str) -> Any:
    module, function, _ = COMMANDS[name]
    found = getattr(import_module(f"oms_journal.cli.{module}"), function)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command(name, cls=Command)(found)
    return typer.main.get_command(alone)


def _exit_code(run: Callable[[], Any], *, as_json: bool) -> int:
    """Return the exit code, having said on stderr why, if it is a failure."""
    try:
        _check_streams()
        status = run()
        if status != ExitCode.INTERRUPTED:
            return status if isinstance(status, int) else ExitCode.DONE
        failure = Failure("interrupted", ExitCode.INTERRUPTED)
    except Failure as its_own:
        failure = its_own
    except typer.TyperException as wrong:
        failure = Usage(_usage_text(wrong))
    except typer.Abort:
        failure = Failure("stopped, nothing was changed", ExitCode.NO)
    except (JournalError, OSError) as refused:
        failure = meaning(refused)
    except Exception:  # the top of the program: whatever comes here is a bug of ours
        traceback.print_exc()
        failure = Failure("this is a bug in oms; please report it with the lines above", ExitCode.BUG)
    tell(failure, as_json=as_json)
    return failure.code


def _check_streams() -> None:
    """Usage where there is nowhere to write to; what cannot be read from is empty."""
    if sys.stdout is None:
        raise Usage("standard output is closed: give it a place, as with > FILE")
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - to the end


def _usage_text(wrong: typer.TyperException) -> str:
    text = wrong.format_message()
    context = getattr(wrong, "ctx", None)
    path = context.command_path if context is not None else "oms"
    return f"{text.removesuffix('.')}; see `{path} --help`"


def _discard_output() -> None:
    """Make what is still buffered for standard output go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:  # a standard output without a descriptor
        return


app = typer.Typer(
    name="oms",
    cls=Oms,
    help="Keep messages in a durable journal: add, take, look, verify, recover, clean up.",
    epilog="Exit codes: 0 done or intact, 1 the answer is no or damage was found, 2 wrong usage, "
    "3 locked by another process, 4 the store cannot be used.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        try:
            version = metadata.version("oms-journal")
        except metadata.PackageNotFoundError:
            version = "(not installed)"
        typer.echo(f"oms {version}")
        raise typer.Exit


@app.callback()
def oms(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep messages in a durable journal: add, take, look, verify, recover, clean up."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(ExitCode.USAGE)


for _name, (_, _, _line) in COMMANDS.items():
    app.command(_name, cls=LazyCommand, help=_line)(lambda: None)


def main() -> None:
    """Run `oms`; the entry point of the installed command."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: a name is told in any terminal
    app(prog_name="oms")
