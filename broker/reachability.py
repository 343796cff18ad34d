"""Checks the address of a server, and says in words for people why a server was not reached.

what is wrong                              what is told
the address                                how one is written
no connection                              what the system says of it: refused, no such host, no answer in time
TLS where there is none, or the reverse    which of http:// and https:// to write
a certificate nobody vouches for           what is wrong with it, and where the authority is said
an answer in no HTTP                       that there is another server
"""

import os
import re
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

PORT_MAX = 65535
_IN_TIME = "it gave no answer in time; is it overloaded, or is another program there?"
_NO_HTTP = "what answers there speaks no HTTP; is it the port of STOMP, or another program's?"
_HUNG_UP = "it ended the connection without an answer; a server with TLS is reached with https://"
_NO_TLS = "it speaks no TLS; write http:// for a server without TLS-CERTIFICATE"
_GONE = (ConnectionRefusedError, BrokenPipeError, ConnectionAbortedError)


def checked_url(url: str, *, may_have_path: bool = False) -> str:
    """Return the URL of a server, without a slash at its end. ValueError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # the libraries' own texts are for programs
        raise _bad(url, f"the port is a number of 1 to {PORT_MAX}, and an address of IPv6 stands in brackets") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise _bad(url)
    if not url.isprintable() or " " in url:
        raise _bad(url, "it has no blanks")
    if port == 0:
        raise _bad(url, f"the port is a number of 1 to {PORT_MAX}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL of a broker has no user in it: a user and a password are said by themselves")
    if parts.path.strip("/") and not may_have_path:
        raise _bad(url, "nothing stands behind the port")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _bad(url: str, why: str = "") -> ValueError:
    shown = repr(_without_secrets(url)) if url else "an empty text"
    return ValueError(f"{shown} is no URL of a broker; write http://HOST:1971 or https://HOST:1971{why and f': {why}'}")


def _without_secrets(url: str) -> str:
    """Return the URL as it may be told and logged: without user, password and query."""
    scheme, slashes, rest = url.partition("://") if "://" in url else ("", "", url)
    _, at, host = rest.rpartition("@")
    plain = re.split("[?#]", host, maxsplit=1)[0]
    return f"{scheme}{slashes}{at and '...@'}{plain}{'...' if plain != host else ''}"


def trusting(ca_file: str) -> ssl.SSLContext:
    """Return what trusts the authority in a file, "" for those of the system. ValueError."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except ssl.SSLError:
        raise ValueError(f"{ca_file} holds no certificate of an authority in PEM") from None
    except OSError as failure:
        raise ValueError(f"{ca_file} cannot be read: {failure.strerror or 'it is no file'}") from None


def reason_of(failure: BaseException) -> str:
    """Return why a server was not reached, or not heard to the end."""
    chain = list(_chain(failure))
    for each in chain:
        if isinstance(each, ssl.SSLCertVerificationError):
            why = each.verify_message or "it is not valid"
            return (
                f"nobody vouches for its certificate ({why}); say the authority's with ca_file, OMS_CA_FILE or TLS-CA"
            )
        if isinstance(each, ssl.SSLError):
            return _NO_TLS if "VERSION" in str(each.reason) or "HTTP_REQUEST" in str(each.reason) else _HUNG_UP
    for each in chain:
        if isinstance(each, socket.gaierror):
            return each.strerror or "there is no such host"
        if isinstance(each, ConnectionResetError):  # a server with TLS that is faster than our request does that
            return _HUNG_UP
        if isinstance(each, _GONE) and each.errno is not None:
            return os.strerror(each.errno)
        if isinstance(each, OSError) and each.errno is not None:
            return each.strerror or os.strerror(each.errno)
    if any(isinstance(each, TimeoutError) or "Timeout" in type(each).__name__ for each in chain):
        return _IN_TIME
    said = " ".join(f"{type(each).__name__} {each}" for each in chain).lower()
    is_hung_up = "disconnect" in said or "closed" in said or isinstance(failure, ConnectionError)
    return _HUNG_UP if is_hung_up else _NO_HTTP


def is_refused(failure: BaseException) -> bool:
    """Say whether the machine answers, and nobody listens at the port."""
    return any(isinstance(each, ConnectionRefusedError) for each in _chain(failure))


def _chain(failure: BaseException) -> Iterator[BaseException]:
    """Yield what led to a failure, itself first."""
    found: list[object] = [failure]
    seen = set[int]()
    while found:
        each = found.pop(0)
        if isinstance(each, BaseException) and id(each) not in seen:
            seen.add(id(each))
            yield each
            found += [getattr(each, "reason", None), each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
