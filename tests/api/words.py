"""What a refusal may say: it names the argument, and no word of it comes from elsewhere."""

import re
from collections.abc import Collection, Sequence

from oms_journal import JournalError

NEVER = re.compile(
    r"' object is not|has no attribute|unsupported operand|indices must be|unhashable|not callable|takes \d+ positional"
    r"|unexpected keyword|cannot convert|could not convert|out of range|out of bounds|embedded null|argument must be"
    r"|must be str, not|bytes-like|required argument|a bytes|numpy|ufunc|dtype|\barray\b|\bstruct\b|__\w+__|_\w+\(\)"
    r"|operation forbidden|released memoryview|codec can't|not supported between|expected str|truth value|PathLike"
    r"|invalid literal|int too large|too large to convert|fromisoformat|omsmsg|\.py\b|AssertionError|<lambda>"
    r"|0x[0-9a-f]{6}"
)


class BadWords(AssertionError):
    """A refusal does not say what it should."""


def check_words(failure: BaseException, words: Sequence[Collection[str]], names: Collection[str]) -> None:
    """Raise BadWords where a refusal names none of the arguments, or says what it should not."""
    text = str(failure)
    if type(failure) is JournalError:
        raise BadWords(f"a bare JournalError: {text}") from failure
    if not isinstance(failure, TypeError | ValueError | JournalError | RuntimeError):
        raise BadWords(f"{type(failure).__name__}: {text}") from failure
    if (found := NEVER.search(text)) is not None:
        raise BadWords(f"{type(failure).__name__} says {found[0]!r}: {text}") from failure
    lower = text.lower()
    if not any(word.lower() in lower for each in words for word in each) and not any(name in lower for name in names):
        raise BadWords(f"{type(failure).__name__} names none of {sorted(names)}: {text}") from failure
