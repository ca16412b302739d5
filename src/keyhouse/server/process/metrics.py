"""Where the metrics are put together, for a coordinator that was given an address for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from keyhouse.server.client_api import UseCases
    from keyhouse.server.http.counts import RequestCounts
    from keyhouse.server.http.listener import Listener
    from keyhouse.server.services.activation_counts import ActivationCounts
    from keyhouse.server.services.events import Events
    from keyhouse.server.workload_api.listener import WorkloadListener

__all__ = ["metrics_served"]

GRACE: Final = 1.0
"""Seconds that a scrape has to end after the Client API has closed."""


@asynccontextmanager
async def metrics_served(
    address: tuple[str, int] | None,
    use_cases: "UseCases",
    listeners: "tuple[Listener, WorkloadListener]",
    requests: "RequestCounts | None",
    events: "Events | None",
    activations: "ActivationCounts",
) -> AsyncIterator[None]:
    """Serve ``/metrics`` and ``/events`` on ``address`` for as long as the context lasts.

    The Prometheus client is imported only where there is an address: it takes a third of a start.
    """
    if address is None or requests is None or events is None:
        yield
        return
    import structlog

    from keyhouse import __version__
    from keyhouse.server.metrics.families import Sources
    from keyhouse.server.metrics.listener import metrics_listener

    sources = Sources(
        engine=use_cases.engine,
        quotes=use_cases.quotes,
        listener=listeners[0],
        workloads=listeners[1],
        activations=activations,
        requests=requests,
        version=__version__,
        simulated=use_cases.answers.simulated,
        collateral=use_cases.quote_checks.health,
    )
    watched = metrics_listener(sources, events)
    host, port = address
    await watched.start(host, port)
    structlog.get_logger(__name__).info("serving metrics", address=f"{host or '*'}:{watched.port}")
    try:
        yield
    finally:
        await watched.stop(GRACE)
