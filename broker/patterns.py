"""Names with `*` for any characters: whether one fits, in time that does not grow with what could fit its stars.

A regular expression would try every way to share a name out among the stars: a pattern of a dozen keeps it busy for
minutes, and who asks or names something chooses both.
"""

from collections.abc import Iterable


def matches(patterns: Iterable[str], name: str) -> bool:
    """Return whether one of the patterns fits the whole name."""
    return any(_fits(pattern, name) for pattern in patterns)


def _fits(pattern: str, name: str) -> bool:
    first, *rest = pattern.split("*")
    if not rest:
        return name == first
    *middle, last = rest
    if not name.startswith(first):
        return False
    at = len(first)
    for part in middle:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(name) - len(last) >= at and name.endswith(last)
