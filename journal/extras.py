"""Libraries that an extra brings: what is said where one is missing."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def brought_by(extra: str) -> Iterator[None]:
    """Let an import in the block whose library is missing say what to install. ModuleNotFoundError."""
    try:
        yield
    except ModuleNotFoundError as missing:
        text = f"{missing.name} is not installed: pip install 'oms-journal[{extra}]'"
        raise ModuleNotFoundError(text, name=missing.name) from missing
