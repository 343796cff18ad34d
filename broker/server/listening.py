"""What the server answers over HTTP: all routes in one place, where the libraries for it are installed."""

import logging
from dataclasses import replace
from importlib.util import find_spec

from broker.server.served import Listener, Served
from broker.server.web_limits import WebLimits

_log = logging.getLogger("oms.server")
_LIBRARIES = ("starlette", "uvicorn", "h11", "python_multipart")


def web_listener(served: Served, limits: WebLimits | None = None) -> Listener | None:
    """Return the listener of HTTP with all routes; None, and a line in the log, where a library is missing."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        _log.warning("no HTTP: %s is not installed; pip install 'oms-journal[server]'", ", ".join(missing))
        return None
    from broker.server.aci import aci_routes
    from broker.server.web import WebListener

    routes = [*aci_routes()]
    limits = replace(limits or WebLimits(), connections=served.attributes.broker.max_connections)
    return WebListener(served, routes, limits)
