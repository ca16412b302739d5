"""The Client API's service over a real engine, without a listener."""

from datetime import UTC, datetime

from keyhouse.coordinator import Engine
from keyhouse.server.client_api import Service, routes
from keyhouse.server.http.exchange import Head
from keyhouse.server.services.quote_checks import QuoteChecks, no_collateral
from keyhouse.server.services.quotes import Quotes
from keyhouse_simulation import SimulatedPlatform, make_machine
from support.samples.deployment import user


def service_of(engine: Engine) -> Service:
    """Return the service of ``engine``, on a simulated platform that has no collateral."""
    platform = SimulatedPlatform(make_machine(datetime.now(UTC)))
    checks = QuoteChecks(platform.root_ca, no_collateral, lambda: datetime.now(UTC))
    quotes = Quotes(platform, engine.view.state.keys)
    return Service(engine, quotes, routes(), quote_checks=checks, simulated=True)


def head_of(name: str) -> Head:
    """Return the head of an update by the user ``name``."""
    return Head("POST", "/api/v2/update", b"", user(name).der)
