"""The examples of the documents, run as a reader would run them.

A page's blocks run in their order, each as a program of its own, in one folder. Then the whole page runs again there.

    ```python     a program; a block ```text directly behind it is what it prints
    ```console    what is typed behind `$ `, with what it prints below it; `> ` goes on with a line

A line `...` in what is printed stands for any lines, `...` within a line for anything in it. What a program prints is
compared where the page shows it; it must end with 0 in any case. An HTML comment directly before a block says more:

    <!-- not run: why -->    the block cannot run here
    <!-- beside -->          it runs beside the blocks that follow, until the page ends: a server

A page has a network of its own where the system allows it, with the ports that it names.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.project import REPOSITORY

TIMEOUT_SECONDS = 180
READY_SECONDS = 60  # for what runs beside, until it has printed what the page shows
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->", re.DOTALL)
BESIDE = "<!-- beside -->"
KINDS = ("python", "console")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page that says `python` or `console`."""

    page: Path
    line: int  # of the page, from 1
    kind: str
    text: str
    printed: str | None  # as the page shows it; None where it does not, and for console, whose output is within
    why_not_run: str | None
    is_beside: bool

    def __str__(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def pages() -> list[Path]:
    """Return the documents whose examples run."""
    single = [REPOSITORY / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md")]
    return [*(page for page in single if page.exists()), *sorted((REPOSITORY / "docs").rglob("*.md"))]


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """Return the blocks of a page that say `python` or `console`, in their order."""
    tokens = MarkdownIt().disable("inline").parse(page.read_text(encoding="utf-8"))  # what is within lines is no block
    return tuple(_blocks(page, tokens))


def _blocks(page: Path, tokens: list[Token]) -> Iterator[Block]:
    for place, token in enumerate(tokens):
        if token.type != "fence" or token.info.split(" ")[0] not in KINDS:
            continue
        before = tokens[place - 1].content if place and tokens[place - 1].type == "html_block" else ""
        behind = tokens[place + 1] if place + 1 < len(tokens) else None
        shows = behind is not None and behind.type == "fence" and behind.info == "text"
        reason = NOT_RUN.search(before)
        yield Block(
            page=page,
            line=(token.map or [0])[0] + 1,
            kind=token.info.split(" ")[0],
            text=token.content,
            printed=behind.content if behind is not None and shows and token.info == "python" else None,
            why_not_run=reason[1] if reason else None,
            is_beside=BESIDE in before,
        )


class Differs(AssertionError):
    """A block does not do what its page says."""


def play(page: Path, directory: Path, times: int = 2) -> None:
    """Run the blocks of a page in a directory, as often as said; Differs."""
    folder, programs = directory / "folder", directory / "programs"
    folder.mkdir()
    programs.mkdir()
    with _network() as network:
        for _ in range(times):
            with ExitStack() as beside:
                for block in blocks(page):
                    if block.why_not_run is None:
                        _play_block(_Player(folder, programs, network), block, beside)


@dataclass(frozen=True, slots=True)
class _Player:
    folder: Path
    programs: Path
    network: list[str]

    def start(self, block: Block, name: str, text: str) -> subprocess.Popen[str]:
        program = self.programs / name
        program.write_text(text, encoding="utf-8")
        command = [*self.network, sys.executable if block.kind == "python" else "bash", str(program)]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=_environment(),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMS_", "SPOOL_", "PYTEST_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return kept | {"PATH": path, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def _play_block(player: _Player, block: Block, beside: ExitStack) -> None:
    if block.is_beside:
        beside.enter_context(_running(player, block))
    elif block.kind == "python":
        printed = _outcome(player, block, "example.py", block.text)
        _compare(block, block.text, block.printed, printed)
    else:
        _play_console(player, block)


def _play_console(player: _Player, block: Block) -> None:
    """Run the commands of a block in one shell, and compare what each has printed with what the page shows below it."""
    typed = commands(block)
    mark = "<end of a command>"
    script = "".join(f"{command}\nstatus=$?; echo '{mark}'\n[ $status = 0 ] || exit $status\n" for command, _ in typed)
    printed = _outcome(player, block, "commands.sh", script).split(f"{mark}\n")
    for (command, shown), answer in zip(typed, printed, strict=False):
        _compare(block, command, shown or None, answer)


def commands(block: Block) -> list[tuple[str, str]]:
    """Return what is typed in a block, and what the page shows as its answer, "" for nothing."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif not found:
            raise Differs(f"{block}: a console block begins with a line that is typed, behind `$ `")
        elif line.startswith("> "):
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", "")
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


def _outcome(player: _Player, block: Block, name: str, text: str) -> str:
    process = player.start(block, name, text)
    try:
        printed, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise Differs(f"{block} was not done after {TIMEOUT_SECONDS} s:\n{process.communicate()[0]}") from None
    if process.returncode != 0:
        raise Differs(f"{block} ended with {process.returncode}:\n{text}\n{printed}")
    return printed


def _compare(block: Block, typed: str, shown: str | None, printed: str) -> None:
    if shown is not None and not _shows(shown, printed):
        raise Differs(f"{block}\n{typed}\nprinted\n\n{printed}\nand the page shows\n\n{shown}")


def _shows(shown: str, printed: str) -> bool:
    """Say whether that was printed which a page shows."""
    lines = [line.rstrip() for line in shown.splitlines()]
    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in lines
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed.splitlines())) is not None


@contextmanager
def _running(player: _Player, block: Block) -> Iterator[None]:
    """Run a block beside what follows, from the moment that it has printed what the page shows."""
    (typed,) = commands(block)
    process = player.start(block, "beside.sh", f"exec {typed[0]}")
    assert process.stdout is not None
    printed = b""
    try:
        os.set_blocking(process.stdout.fileno(), False)
        end = time.monotonic() + READY_SECONDS
        while not _shows(typed[1], printed.decode()):
            with suppress(BlockingIOError):
                printed += os.read(process.stdout.fileno(), 65536)
            if process.poll() is not None or time.monotonic() > end:
                raise Differs(f"{block} ended, or printed too little:\n{printed.decode()}")
            time.sleep(0.02)
        yield
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(TIMEOUT_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.stdout.close()


@contextmanager
def _network() -> Iterator[list[str]]:
    """Yield what goes before a command so that it has a network of its own; nothing where the system allows none."""
    alone = ["unshare", "--map-root-user", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 3600"]
    with suppress(FileNotFoundError), subprocess.Popen(alone, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as one:
        assert one.stdout is not None
        try:
            if one.stdout.readline() == b"up\n":
                yield ["nsenter", f"--target={one.pid}", "--user", "--net", "--preserve-credentials"]
                return
        finally:
            one.kill()
    yield []


def main() -> None:
    """Print the blocks that do not run, and why."""
    for page in pages():
        for block in blocks(page):
            if block.why_not_run is not None:
                sys.stdout.write(f"{block}: {block.why_not_run}\n")


if __name__ == "__main__":
    main()
