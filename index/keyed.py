"""The latest version of each key, and where: in the order of the keys, so that prefixes can be walked.

Values are not kept in memory. A key costs about 130 bytes besides its own. Keys that begin with
`operations.ENGINE_PREFIX` belong to the engine and are counted apart: they never keep a data file,
since clean-up writes them again.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from sortedcontainers import SortedDict

from oms_journal.index.table import Ints
from oms_journal.journal.operations import ENGINE_PREFIX

_OFFSET_BITS = 40  # of an offset divided by 8
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_ENGINE = ENGINE_PREFIX.encode()
_BEHIND_ENGINE = b"\1"  # the callers' keys begin here
_BEHIND_NAMES = b"\xff"  # which no name in UTF-8 has


class Version(NamedTuple):
    """Where the latest version of a key lies."""

    sequence: int
    offset: int


class Keyed:
    """The live keys of a database. Does not lock: its owner does."""

    def __init__(self) -> None:
        self._versions: SortedDict[bytes, int] = SortedDict()  # key -> sequence and offset in one number
        self.files: dict[int, int] = {}  # data file -> live keys in it, the engine's left out

    def __len__(self) -> int:
        return len(self._versions) - sum(1 for _ in self.keys(_ENGINE))

    def put(self, key: bytes, sequence: int, offset: int) -> None:
        """Note the latest version of a key."""
        self._uncount(key, self._versions.get(key))
        self._versions[key] = sequence << _OFFSET_BITS | offset >> 3
        self._count(key, sequence)

    def put_many(self, latest: Mapping[bytes, int | None], sequence: int) -> None:
        """Note the last offsets of keys in one data file; None for a key that was dropped."""
        dropped = [key for key, offset in latest.items() if offset is None]
        for key in dropped:
            self.drop(key)
        new = {key: sequence << _OFFSET_BITS | offset >> 3 for key, offset in latest.items() if offset is not None}
        for key in new:
            self._uncount(key, self._versions.get(key))
            self._count(key, sequence)
        self._versions.update(new)

    def drop(self, key: bytes) -> bool:
        """Forget a key; False when there was none."""
        found = self._versions.pop(key, None)
        self._uncount(key, found)
        return found is not None

    def _count(self, key: bytes, sequence: int) -> None:
        if not key.startswith(_ENGINE):
            self.files[sequence] = self.files.get(sequence, 0) + 1

    def _uncount(self, key: bytes, packed: int | None) -> None:
        if packed is not None and not key.startswith(_ENGINE):
            self.files[packed >> _OFFSET_BITS] -= 1

    def find(self, key: bytes) -> Version | None:
        """Return where the key's latest version lies."""
        packed = self._versions.get(key)
        return None if packed is None else Version(packed >> _OFFSET_BITS, (packed & _OFFSET_MASK) << 3)

    def located(self, prefix: bytes) -> tuple[list[bytes], Ints, Ints]:
        """Return the callers' keys with the prefix, with data file and offset of their latest versions, as they lie."""
        behind = prefix + _BEHIND_NAMES
        keys = list(self._versions.irange(max(prefix, _BEHIND_ENGINE), behind, inclusive=(True, False)))
        packed = [self._versions[key] for key in keys]  # of a high sequence they are no 64-bit integers
        sequences = np.fromiter((one >> _OFFSET_BITS for one in packed), np.int64, len(keys))
        offsets = np.fromiter(((one & _OFFSET_MASK) << 3 for one in packed), np.int64, len(keys))
        order = np.lexsort((offsets, sequences))
        return [keys[at] for at in order.tolist()], sequences[order], offsets[order]

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the keys that begin with the prefix, in order. Do not change the keys meanwhile."""
        for key in self._versions.irange(prefix):
            if not key.startswith(prefix):
                return
            yield key

    def in_files(self, sequences: Collection[int]) -> dict[int, list[bytes]]:
        """Return the keys, none of the engine's, whose latest versions lie in each of these data files.

        From one pass over the keys, which ends with the last one that is wanted.
        """
        found: dict[int, list[bytes]] = {sequence: [] for sequence in sequences}
        left = sum(self.files.get(sequence, 0) for sequence in found)
        if left:
            for key, packed in self._versions.items():
                sequence = packed >> _OFFSET_BITS
                if sequence in found and not key.startswith(_ENGINE):
                    found[sequence].append(key)
                    left -= 1
                    if not left:
                        break
        return found

    def firsts(self, wanted: Collection[int]) -> dict[int, bytes]:
        """Return the first key, none of the engine's, whose latest version lies in each of these data files."""
        found: dict[int, bytes] = {}
        if any(self.files.get(sequence) for sequence in wanted):
            for key, packed in self._versions.items():
                sequence = packed >> _OFFSET_BITS
                if sequence in wanted and sequence not in found and not key.startswith(_ENGINE):
                    found[sequence] = key
        return found

    def forget_file(self, sequence: int) -> None:
        count = self.files.pop(sequence, 0)
        assert not count, "only files without live keys go"
