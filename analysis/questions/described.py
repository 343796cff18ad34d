"""The columns of an answer: what each means is said once, and read in the docstring and in the DataFrame.

A question is a function that returns a DataFrame. `answers` puts the columns into the order in which
their meanings are given, gives each its meaning as a comment (as DESCRIBE shows, and the field's
metadata under `comment`), and writes the same into the function's docstring.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

_Asked = ParamSpec("_Asked")


def answers(meanings: Mapping[str, str]) -> Callable[[Callable[_Asked, DataFrame]], Callable[_Asked, DataFrame]]:
    """Return a decorator of a question whose answer has just these columns."""

    def describe(question: Callable[_Asked, DataFrame]) -> Callable[_Asked, DataFrame]:
        @wraps(question)
        def asked(*args: _Asked.args, **named: _Asked.kwargs) -> DataFrame:
            found = question(*args, **named)
            return found.select(
                *[F.col(name).alias(name, metadata={"comment": meaning}) for name, meaning in meanings.items()]
            )

        asked.__doc__ = f"{inspect.getdoc(question)}\n\n{_listed(meanings)}"
        return asked

    return describe


def meanings(answer: DataFrame) -> dict[str, str]:
    """Return what the columns of an answer mean, in their order."""
    return {field.name: str(field.metadata.get("comment", "")) for field in answer.schema}


def _listed(meanings: Mapping[str, str]) -> str:
    width = max(map(len, meanings))
    return "\n".join(["Columns:", *(f"    {name:{width}}  {meaning}" for name, meaning in meanings.items())])
