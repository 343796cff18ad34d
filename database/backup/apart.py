"""Whether two directories are apart: what is done in the one then leaves the other alone."""

from pathlib import Path


def are_apart(one: Path, other: Path) -> bool:
    """Say whether neither directory is the other or lies in it, whatever links lead there."""
    one, other = one.resolve(), other.resolve()
    return not one.is_relative_to(other) and not other.is_relative_to(one)
