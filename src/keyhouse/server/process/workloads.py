"""Where the workload API is put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from keyhouse.server.client_api.service import Service
    from keyhouse.server.services.activation_counts import ActivationCounts
    from keyhouse.server.services.events import Events
    from keyhouse.server.workload_api.listener import WorkloadListener

__all__ = ["workloads_served"]


GRACE: Final = 1.0
"""Seconds that calls have where the start failed after the listener was there."""


@asynccontextmanager
async def workloads_served(
    address: tuple[str, int],
    service: "Service",
    events: "Events | None",
    counts: "ActivationCounts",
    *,
    certificate_days: int | None,
) -> "AsyncIterator[WorkloadListener]":
    """Serve workloads on ``address`` for as long as the context lasts, or until it is stopped.

    Their certificates are good for so many days, None: for as long as the coordinator's.
    """
    from keyhouse.authority import LIFETIME
    from keyhouse.server.services.activations import Activations
    from keyhouse.server.workload_api.listener import WorkloadListener

    activations = Activations(
        service.engine,
        service.quote_checks,
        simulated=service.simulated,
        events=events,
        counts=counts,
        lifetime=LIFETIME if certificate_days is None else timedelta(days=certificate_days),
    )
    listener = WorkloadListener(service.engine, activations.activate, simulated=service.simulated)
    host, port = address
    try:
        await listener.start(host, port)
        where = f"{host or '*'}:{listener.port}"
        structlog.get_logger(__name__).info("serving the workload API", address=where)
        yield listener
    finally:
        await listener.stop(GRACE)
        activations.close()
