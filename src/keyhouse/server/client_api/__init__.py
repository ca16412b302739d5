"""The Client API over HTTPS."""

from keyhouse.server.client_api.routes import Caller, Route, Table
from keyhouse.server.client_api.service import Service
from keyhouse.server.client_api.v1 import table as v1
from keyhouse.server.client_api.v2 import table as v2
from keyhouse.server.http.listener import Listener
from keyhouse.server.net.error_mapping import ERRORS
from keyhouse.server.net.limits import Limits
from keyhouse.server.net.tls import TlsContext
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.server.services.quotes import Quotes

__all__ = ["ERRORS", "Caller", "Limits", "Listener", "QuoteChecks", "Quotes", "Route"]
__all__ += ["Service", "Table", "TlsContext", "routes"]


def routes() -> Table:
    """Return every route of both versions."""
    return Table((*v2.ROUTES, *v1.ROUTES))
