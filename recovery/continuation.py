"""An opening that failed, and goes on in the same process: what it had not acknowledged must not come back.

After a failed sync nobody knows what the disk has of the last group, and an opening by anybody else takes what it
finds. The process that failed has told its callers more: that their commits were not done. Where it opens the
directory again it hands over its last acknowledged commit; what lies behind that is archived and cut.

This holds only while the directory is as the process left it. When another opening has had it since, may have taken
the frames in doubt for good and may have gone on from them, or when the last acknowledged commit is not there
(another volume, an older copy, the empty directory under a mount point), nothing is changed and the start is refused.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import CannotContinue, DiskError
from oms_journal.journal.lock import DirectoryLock, Holder, read_holder
from oms_journal.recovery.examination import Examination, read_contents
from oms_journal.recovery.survey import Candidate


@dataclass(slots=True)
class Continuation:
    """What the process knows of its failed opening. `owner` goes up with every attempt to go on."""

    writer: int  # owner number of the opening that failed
    commit: int  # its last acknowledged commit, 0 for none
    owner: int  # under which this process had the directory last
    is_in_doubt: bool = False  # the next number may have been written already

    def acquire(self, disk: Disk, directory: Path, claim: Callable[[Disk, Path], DirectoryLock]) -> DirectoryLock:
        """Become the owner again; CannotContinue when another opening was the owner meanwhile."""
        holder = read_holder(disk, directory)
        if holder is None:
            raise CannotContinue(
                f"{directory} has no lock file that names an owner: it is not the directory that was open"
            )
        if self._is_ours(holder):
            try:
                ownership = claim(disk, directory)
            except DiskError:
                self.is_in_doubt = True
                raise
            if ownership.number == holder.number + 1:
                self.owner, self.is_in_doubt = ownership.number, False
                return ownership
            ownership.close()
        raise CannotContinue(
            f"{directory} has been opened by process {holder.pid} on {holder.host or 'an unknown host'} since; "
            "start this process anew"
        )

    def _is_ours(self, holder: Holder) -> bool:
        """Say whether this process was the last owner, be it by an attempt that failed while it became that."""
        is_next = self.is_in_doubt and holder.number == self.owner + 1 and holder.pid == os.getpid()
        return holder.number == self.owner or is_next

    def marked(self, task: Candidate) -> Candidate:
        """Return what is to be examined with what the process knows of it."""
        if task.header is not None and task.header.owner == self.writer:
            return replace(task, kept_commit=self.commit)
        return task

    def check(self, disk: Disk, directory: Path, examined: Sequence[Examination]) -> None:
        """Raise CannotContinue unless the last acknowledged commit is there."""
        mine = [one for one in examined if one.header is not None and one.header.owner == self.writer]
        found = 0
        for one in mine[-2:]:  # the last one may hold nothing but what is cut
            contents = read_contents(disk, one)
            found = max(found, contents.last_commit if contents is not None else 0)
        if found != self.commit:
            raise CannotContinue(
                f"{directory} does not hold commit {self.commit}, which this process had acknowledged, but "
                f"{f'ends with commit {found}' if found else 'nothing of what it wrote'}; start this process anew"
            )
