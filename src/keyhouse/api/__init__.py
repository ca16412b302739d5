"""The Client API over HTTPS."""

from keyhouse.api import v1, v2
from keyhouse.api.limits import Limits
from keyhouse.api.quote_checks import QuoteChecks
from keyhouse.api.quotes import Quotes
from keyhouse.api.routes import Caller, Route, Table
from keyhouse.api.server import Listener
from keyhouse.api.service import Service
from keyhouse.api.tls import TlsContext
from keyhouse.api.wording import ERRORS

__all__ = ["ERRORS", "Caller", "Limits", "Listener", "QuoteChecks", "Quotes", "Route"]
__all__ += ["Service", "Table", "TlsContext", "routes"]


def routes() -> Table:
    """Return every route of both versions."""
    return Table((*v2.ROUTES, *v1.ROUTES))
