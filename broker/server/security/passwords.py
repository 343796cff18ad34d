"""Passwords as they are kept: a salted scrypt hash, as text. Who has the text has to guess, and each guess is dear.

scrypt:15:8:1:SALT:HASH        log2 of N, r, p; salt and hash in base64
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import NamedTuple

PASSWORD_BYTES_MAX = 1024  # more is no password, and costs time
PASSWORD_CHARACTERS_MIN = 8
_SALT_BYTES, _HASH_BYTES = 16, 32
_LOG_N_RANGE, _R_RANGE, _P_RANGE = range(4, 21), range(1, 33), range(1, 17)  # at most 4 GiB, and some seconds


class Cost(NamedTuple):
    """What a guess costs: 128 · N · r bytes of memory (here 32 MiB), p times the time."""

    log_n: int = 15
    r: int = 8
    p: int = 1


COST = Cost()


class PasswordHash(NamedTuple):
    """What is kept of a password."""

    cost: Cost
    salt: bytes
    digest: bytes

    def __str__(self) -> str:
        return ":".join(["scrypt", *map(str, self.cost), _text(self.salt), _text(self.digest)])

    def __repr__(self) -> str:
        return "PasswordHash(…)"  # not even the hash belongs into a log

    def fits(self, password: str) -> bool:
        """Return whether it is this password. Takes some 0.1 s, in which other threads run."""
        data = password.encode("utf-8", "surrogatepass")
        if len(data) > PASSWORD_BYTES_MAX:
            return False
        return hmac.compare_digest(_digest(data, self.salt, self.cost), self.digest)


def hash_password(password: str, cost: Cost = COST) -> PasswordHash:
    """Return what is kept of a new password. ValueError for one that is too short or too long, with the reason."""
    if len(password) < PASSWORD_CHARACTERS_MIN:
        raise ValueError(f"a password has at least {PASSWORD_CHARACTERS_MIN} characters, not {len(password)}")
    data = password.encode("utf-8", "surrogatepass")
    if len(data) > PASSWORD_BYTES_MAX:
        raise ValueError(f"a password has at most {PASSWORD_BYTES_MAX:,} bytes, not {len(data):,}")
    salt = secrets.token_bytes(_SALT_BYTES)
    return PasswordHash(cost, salt, _digest(data, salt, cost))


def nobodys(cost: Cost = COST) -> PasswordHash:
    """Return what no password fits, and takes as long to find that out."""
    return PasswordHash(cost, secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_HASH_BYTES))


def parse_password_hash(text: str) -> PasswordHash:
    """Return what the text says; ValueError for anything that `str` does not write."""
    kind, *rest = text.split(":")
    if kind != "scrypt" or len(rest) != 5 or not all(part.isascii() and part.isdecimal() for part in rest[:3]):
        raise ValueError("it is not scrypt:LOG2N:R:P:SALT:HASH")
    cost = Cost(*map(int, rest[:3]))
    if cost.log_n not in _LOG_N_RANGE or cost.r not in _R_RANGE or cost.p not in _P_RANGE:
        raise ValueError("the cost is out of range")
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in rest[3:])
    except binascii.Error:
        raise ValueError("the salt or the hash is not base64") from None
    if len(salt) < _SALT_BYTES or len(digest) != _HASH_BYTES:
        raise ValueError("the salt or the hash is cut short")
    return PasswordHash(cost, salt, digest)


def _digest(data: bytes, salt: bytes, cost: Cost) -> bytes:
    n = 1 << cost.log_n
    memory = 128 * cost.r * (n + cost.p + 2) + (1 << 16)
    return hashlib.scrypt(data, salt=salt, n=n, r=cost.r, p=cost.p, maxmem=memory, dklen=_HASH_BYTES)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
