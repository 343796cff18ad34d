"""What all tests share: Hypothesis tries the same examples each time, no example is timed, and Ctrl-C arrives."""

import signal

from hypothesis import settings

from tests.spark_session import spark as spark  # a fixture of all tests

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

# A shell starts what runs in its background with SIGINT ignored, and programs started from there inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
