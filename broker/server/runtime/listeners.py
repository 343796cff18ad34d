"""Where a socket listens, as it is told people."""

import socket


def address(listening: socket.socket) -> str:
    """Return HOST:PORT."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
