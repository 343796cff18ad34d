"""A player's scoresheet: what the broker has delivered to him, and what he has answered, line by line in a file.

    line             written
    heard UOWID e5   when the broker has handed out the partner's move, and nothing is committed
    reply Nf3        before the answer is committed
    done UOWID       once that is known to be committed, by the UOWID of the answer; without one, of what was heard

A crash between a `reply` and its `done` leaves open whether the commit got through. SYNCPOINT OPTION=LAST knows: when
it names a unit of work that is on no line yet, it did. What was not committed is heard again, and written again; so
everything that was ever delivered can be checked. A sheet lies beside the spool directory, and is named after it.
"""

import errno
from dataclasses import dataclass, field
from pathlib import Path

from oms_journal.cli.demo.chess.pgn import Side, written
from oms_journal.cli.failures import ExitCode, Failure
from oms_journal.journal.disk import Disk, RealDisk


@dataclass(frozen=True, slots=True)
class HeardMove:
    """A move as it was delivered."""

    uowid: str
    move: str


@dataclass(slots=True)
class Score:
    """What the lines of a sheet come to."""

    moves: list[str] = field(default_factory=list)  # both sides' in turn
    received: list[str] = field(default_factory=list)  # UOWIDs of the moves that came, committed
    sent: list[str] = field(default_factory=list)  # of the moves that went
    deliveries: int = 0  # how often the broker has handed out a move
    again: list[HeardMove] = field(default_factory=list)  # handed out once more after they had been committed
    heard: HeardMove | None = None  # not known to be committed
    reply: str | None = None  # likewise

    def known(self) -> set[str]:
        """Return every UOWID that is committed."""
        return {*self.received, *self.sent}

    def take(self, words: list[str]) -> None:
        """Take in a line. ValueError for what is none."""
        match words:
            case ["heard", uowid, move] if written(move) == move:
                self.deliveries += 1
                self.heard, self.reply = HeardMove(uowid, move), None
                if uowid in self.known():
                    self.again.append(self.heard)
            case ["reply", move] if written(move) == move:
                self.reply = move
            case ["done", uowid]:
                if self.heard is not None:
                    self.moves.append(self.heard.move)
                    self.received.append(self.heard.uowid)
                if self.reply is not None:
                    self.moves.append(self.reply)
                    self.sent.append(uowid)
                self.heard = self.reply = None
            case _:
                raise ValueError(" ".join(words))


def sheet_path(spool: Path, side: Side) -> Path:
    """Return where the side's sheet is of the game in a spool directory."""
    place = spool.absolute()
    return place.with_name(f"{place.name}.{side.value}.sheet")


class Sheet:
    """The scoresheet of one side. One process at a time writes: the one with the broker."""

    def __init__(self, spool: Path, side: Side, disk: Disk | None = None) -> None:
        self.path = sheet_path(spool, side)
        self._disk = disk or RealDisk()
        self.score = Score()
        self._end = 0  # of the last whole line
        for line in self._read().split("\n")[:-1]:
            try:
                self.score.take(line.split(" "))
            except ValueError:
                raise Failure(f"{self.path}: {line[:40]!r} is no line of a scoresheet", ExitCode.UNUSABLE) from None

    def _read(self) -> str:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return ""
        self._end = data.rfind(b"\n") + 1  # a crash may have cut a line short
        return data[: self._end].decode(errors="replace")

    def heard(self, uowid: str, move: str) -> None:
        """Note what was delivered."""
        self._write(f"heard {uowid} {move}")

    def reply(self, move: str) -> None:
        """Note what is about to be committed."""
        self._write(f"reply {move}")

    def done(self, uowid: str) -> None:
        """Note that it is committed."""
        self._write(f"done {uowid}")

    def _write(self, line: str) -> None:
        """Add a line; durable on return."""
        data = f"{line}\n".encode()
        try:
            file = self._disk.open(self.path, writable=True)
        except OSError as failure:
            if failure.errno != errno.ENOENT:
                raise
            file = self._disk.create(self.path)
            self._disk.sync_directory(self.path.parent)
        try:
            file.truncate(self._end)
            file.write_durably([data], self._end)
        finally:
            file.close()
        self._end += len(data)
        self.score.take(line.split(" "))
