"""The Client API over HTTPS."""

from typing import Final

from keyhouse.server.client_api import v1
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.dispatcher import Dispatcher
from keyhouse.server.client_api.routes import Caller, Route, UseCases
from keyhouse.server.client_api.v2 import table as v2

__all__ = ["ROUTES", "Answers", "Caller", "Dispatcher", "Route", "UseCases"]

ROUTES: Final = (*v2.ROUTES, *v1.ROUTES)
"""Every route of both versions."""
