"""Directories as crashes, disks and people leave them, at random: killed, cut, flipped, exchanged, taken over.

For readers of the format: what one says of such a directory another has to say, too.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from oms_journal import back_up, restore
from oms_journal.journal.format.headers import FRAMES_AT, HEADER_SIZE
from oms_journal.journal.format.lockfile import COPY_AT, OWNER_LINE_SIZE, WITNESS_AT, WITNESS_SIZE
from tests.support.journals.random_journal import RandomWriter

BLOCK = 4096
# In the lock file: the owner's line, its copy, the witness.
OWNER_LINES = ((0, OWNER_LINE_SIZE), (COPY_AT, OWNER_LINE_SIZE), (WITNESS_AT, WITNESS_SIZE))


class RandomDirectory:
    """Makes one directory, the same each time for a seed; `told` says what was done to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.path = folder / f"{seed}"
        self.told: list[str] = []
        self._chance, self._seed = random.Random(seed), seed

    def make(self) -> Path:
        """Make it. JournalError where what was done to it before a restore or a backup is refused by these."""
        chance = self._chance
        RandomWriter(self.path, self._seed).write(openings=chance.randrange(1, 4), steps=chance.randrange(5, 60))
        if chance.random() < 0.5:
            self._kill()
        chosen = chance.random()
        for limit, change in ((0.2, self._restore), (0.35, self._back_up), (0.5, self._take_over)):
            if chosen < limit:
                self.told.append(change.__name__.strip("_"))
                change()
                break
        for _ in range(chance.randrange(3)):
            self._hurt()
        return self.path

    # What happens to a database as a whole.

    def _kill(self) -> None:
        """Leave the directory as it is while it is open."""
        self.told.append("killed")
        with RandomWriter(self.path, self._seed + 1).open() as database:
            for _ in range(self._chance.randrange(8)):
                database.add("q", self._chance.randbytes(self._chance.randrange(600)))
            left = self._copy()
        self._replace(left)

    def _restore(self) -> None:
        backup, target = self._beside("backup"), self._beside("restored")
        with RandomWriter(self.path, self._seed + 2).open() as database:
            back_up(self.path, backup)
            for _ in range(self._chance.choice((0, 8))):
                database.add("q", self._chance.randbytes(900))
        restore(backup, target)
        if self._chance.random() < 0.7:
            self._later(target, 3, self._chance.randrange(40))
        for path in self.path.glob("omsmsg-*.data") if self._chance.random() < 0.2 else ():
            if self._chance.random() < 0.5:
                shutil.copy(path, target)
        self._replace(target)

    def _back_up(self) -> None:
        backup = self._beside("backup")
        back_up(self.path, backup)
        if self._chance.random() < 0.6:
            self._later(self.path, 4, self._chance.randrange(40))
            back_up(self.path, backup)
        for path in self.path.glob("omsmsg-*.data") if self._chance.random() < 0.3 else ():
            if not (backup / path.name).exists():
                shutil.copy(path, backup)
        if self._chance.random() < 0.3:
            manifest = bytearray((backup / "omsmsg.backup").read_bytes())
            manifest[self._chance.randrange(len(manifest) // 2)] ^= 1
            (backup / "omsmsg.backup").write_bytes(manifest)
        self._replace(backup)

    def _take_over(self) -> None:
        """Let the owner before go on writing, and put what it has written beside the files of the next one."""
        with RandomWriter(self.path, self._seed + 5).open() as database:
            for _ in range(self._chance.randrange(6)):
                database.add("q", self._chance.randbytes(600))
            taken = self._copy()
            self._later(taken, 6, self._chance.randrange(30))
            for _ in range(self._chance.randrange(60)):
                database.add("q", self._chance.randbytes(600))
            for path in sorted(self.path.glob("omsmsg-??????????.data")):
                if not (taken / path.name).exists() and self._chance.random() < 0.8:
                    shutil.copy(path, taken)
        self._replace(taken)

    def _later(self, path: Path, other: int, steps: int) -> None:
        writer = RandomWriter(path, self._seed + other)
        writer.clock.advance(100_000)
        writer.write(openings=1, steps=steps, cleans=self._chance.random() < 0.5)

    def _beside(self, what: str) -> Path:
        return self.path.with_name(f"{self.path.name}-{what}")

    def _copy(self) -> Path:
        """Copy the open directory. What is only being prepared goes while it is copied."""
        target = self._beside("copy")
        shutil.copytree(self.path, target, ignore=shutil.ignore_patterns("*.new"))
        return target

    def _replace(self, other: Path) -> None:
        shutil.rmtree(self.path)
        other.rename(self.path)

    # What happens to one file.

    def _hurt(self) -> None:
        files = sorted(self.path.glob("omsmsg-*.data"))
        if not files:
            return
        path = self._chance.choice(files[-3:] if self._chance.random() < 0.5 else files)
        ways: tuple[tuple[int, Callable[[Path], None]], ...] = (
            (3, self._flip), (2, self._cut), (2, self._lose_block), (1, self._remove), (1, self._empty),
            (1, self._zero), (1, self._exchange), (1, self._hurt_lock), (1, self._remove_lock), (1, self._hurt_headers),
            (1, self._hurt_footer),
        )  # fmt: skip
        weights, verbs = zip(*ways, strict=True)
        verb = self._chance.choices(verbs, weights)[0]
        self.told.append(f"{verb.__name__.strip('_')} {path.name}")
        verb(path)

    def _flip(self, path: Path) -> None:
        self._flip_between(path, 0, path.stat().st_size)

    def _flip_between(self, path: Path, start: int, end: int) -> None:
        data = bytearray(path.read_bytes())
        if start < min(end, len(data)):
            data[self._chance.randrange(start, min(end, len(data)))] ^= 1 << self._chance.randrange(8)
            path.write_bytes(data)

    def _cut(self, path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: self._chance.randrange(len(data) + 1)])

    def _lose_block(self, path: Path) -> None:
        data = bytearray(path.read_bytes())
        at = self._chance.randrange(0, len(data) + 1, BLOCK)
        size = len(data[at : at + BLOCK])
        data[at : at + BLOCK] = bytes(size) if self._chance.random() < 0.5 else self._chance.randbytes(size)
        path.write_bytes(data)

    def _remove(self, path: Path) -> None:
        path.unlink()

    def _empty(self, path: Path) -> None:
        path.write_bytes(b"")

    def _zero(self, path: Path) -> None:
        path.write_bytes(bytes(path.stat().st_size))

    def _exchange(self, path: Path) -> None:
        path.write_bytes(self._chance.choice(sorted(self.path.glob("omsmsg-*.data"))).read_bytes())

    def _hurt_headers(self, path: Path) -> None:
        for at in self._chance.choice(((0,), (BLOCK,), (0, BLOCK))):
            self._flip_between(path, at, at + HEADER_SIZE)

    def _hurt_footer(self, path: Path) -> None:
        size = path.stat().st_size
        self._flip_between(path, max(FRAMES_AT, size - 400), size)

    def _hurt_lock(self, _path: Path) -> None:
        lock = self.path / "omsmsg.lock"
        start, size = self._chance.choice(OWNER_LINES)
        if lock.exists():
            self._flip_between(lock, start, start + size)

    def _remove_lock(self, _path: Path) -> None:
        (self.path / "omsmsg.lock").unlink(missing_ok=True)
