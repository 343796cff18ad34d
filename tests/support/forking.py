"""A child of this process that cannot hang: it would keep the test runner's pipes open, and the whole run with them."""

import os
import signal
import warnings
from collections.abc import Callable
from typing import NoReturn

CHILD_SECONDS = 60  # then it hangs
RAISED = 90  # the exit code of a child whose work has raised


def forked(work: Callable[[], int]) -> int:
    """Return what the work returns in a child; negative when a signal has ended it, SIGALRM when it hung."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of threads
        child = os.fork()
    if not child:
        _do(work)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _do(work: Callable[[], int]) -> NoReturn:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
        signal.alarm(CHILD_SECONDS)
        os._exit(work())
    finally:
        os._exit(RAISED)
