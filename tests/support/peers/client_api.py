"""The Client API over a real engine, without a listener."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from keyhouse.coordinator import Engine
from keyhouse.server.client_api import Dispatcher
from keyhouse.server.process.serving import client_api
from keyhouse.server.services.quote_checks import QuoteChecks, no_collateral
from keyhouse_simulation import SimulatedPlatform, make_machine


@contextmanager
def application_of(engine: Engine) -> Iterator[Dispatcher]:
    """Have what answers for ``engine``, on a simulated platform that has no collateral."""
    platform = SimulatedPlatform(make_machine(datetime.now(UTC)))
    checks = QuoteChecks(platform.root_ca, no_collateral, lambda: datetime.now(UTC))
    with client_api(engine, platform, checks) as api:
        yield api.application
