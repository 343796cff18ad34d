"""The tests, and the fakes and tools they share."""

import os

# Every group that is formed goes through the reader before it is written, in child processes too.
os.environ.setdefault("OMS_CHECK", "1")
