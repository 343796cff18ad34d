"""After a fork the child's copy of every open database is closed: the directory stays the parent's."""

import os
import weakref
from collections.abc import Callable

_open: "list[weakref.WeakMethod[Callable[[], None]]]" = []
_registered = False


def close_in_children(close: "weakref.WeakMethod[Callable[[], None]]") -> None:
    """Have the method called in every child that is forked from now on, while its object lives."""
    global _registered
    if not _registered:
        os.register_at_fork(after_in_child=_close_all)
        _registered = True
    _open[:] = [one for one in _open if one() is not None]
    _open.append(close)


def _close_all() -> None:
    for one in _open:
        close = one()
        if close is not None:
            close()
