"""Who has to go where all together hold too much: of the user who holds most, who holds most of that."""

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def holder_of_most(held: Mapping[T, int], user_of: Callable[[T], str]) -> T:
    """Return which holder of the user with most bytes has most of them. There is at least one."""
    of_users: dict[str, int] = {}
    for holder, size in held.items():
        of_users[user_of(holder)] = of_users.get(user_of(holder), 0) + size
    user = max(of_users, key=of_users.__getitem__)
    return max((holder for holder in held if user_of(holder) == user), key=held.__getitem__)
