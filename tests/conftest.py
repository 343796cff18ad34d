"""What all tests share: Hypothesis tries the same examples each time, and no example is timed."""

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
