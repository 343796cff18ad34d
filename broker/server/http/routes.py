"""What the server answers over HTTP: all routes in one place, where the libraries for it are installed."""

import logging
from dataclasses import replace
from importlib.util import find_spec

from oms_journal.broker.server.runtime.limits import WebLimits
from oms_journal.broker.server.runtime.state import Listener, ServerState
from oms_journal.broker.server.runtime.tls import Certificate

_log = logging.getLogger("oms.server")
_LIBRARIES = ("starlette", "uvicorn", "h11")


def web_listener(
    served: ServerState, limits: WebLimits | None = None, *, certificate: Certificate | None = None
) -> Listener | None:
    """Return the listener of HTTP with all routes; None, and a line in the log, where a library is missing."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        _log.warning("no HTTP: %s is not installed; pip install 'oms-journal[server]'", ", ".join(missing))
        return None
    from oms_journal.broker.server.http.block_calls import aci_routes
    from oms_journal.broker.server.http.console import console_routes
    from oms_journal.broker.server.http.listener import WebListener
    from oms_journal.broker.server.http.login import BrowserSessions, login_routes
    from oms_journal.broker.server.http.metrics import metric_routes
    from oms_journal.broker.server.http.openapi import openapi_routes
    from oms_journal.broker.server.http.operator_routes import admin_routes
    from oms_journal.broker.server.http.request_guard import guarding
    from oms_journal.broker.server.migration.routes import moving_routes
    from oms_journal.broker.server.standby.peer_routes import peer_routes

    routes = [*aci_routes(), *login_routes(), *admin_routes(), *metric_routes(), *peer_routes(), *moving_routes()]
    attributes = served.attributes
    limits = limits or WebLimits()
    longest = attributes.longest_message() * 4 // 3 + limits.block_bytes  # in base64
    bodies = max(limits.body_bytes, longest)
    limits = replace(limits, connections=attributes.broker.max_connections, body_bytes=bodies)
    listener = WebListener(
        served,
        [*routes, *openapi_routes(routes), *console_routes()],
        limits,
        middleware=guarding(served, certificate),
        certificate=certificate,
    )
    listener.app.state.sessions = BrowserSessions()
    return listener
