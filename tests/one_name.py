"""A finder that refuses the plain names of our folders, which a checkout has on its path.

`import journal` would work in a test, and load each module a second time: two locks for one directory, two classes of
one error.
"""

from collections.abc import Sequence
from types import ModuleType

from tests.support.project import FOLDERS, NAME


def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
    """Refuse one of our folders, and leave everything else to other finders."""
    if path is None and name in FOLDERS:
        raise ModuleNotFoundError(f"no {name} here: it is {NAME}.{name}", name=name)
