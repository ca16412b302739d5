"""The parts of a coordinator as they fit together, whoever runs it: `keyhouse serve`, a test."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from keyhouse.attestation import Platform, SealPolicy
from keyhouse.coordinator import Engine, HostClock, require_clock_of_fresh
from keyhouse.journal import Home
from keyhouse.journal.directory.layout import JOURNAL
from keyhouse.server.client_api import Listener, QuoteChecks, Quotes, Service, TlsContext, routes

if TYPE_CHECKING:
    from keyhouse.server.http.counts import RequestCounts

__all__ = ["listener_of", "opened", "require_clock", "service_of", "writing"]


def require_clock(folder: Path, *, confirmed: bool) -> None:
    """Refuse a clock far ahead where ``folder`` has no journal, before anything is made by it.

    Where there is one it has to be opened first: it knows the time. Raises ``Broken``.
    """
    if not os.path.lexists(folder / JOURNAL):
        require_clock_of_fresh(HostClock(), confirmed=confirmed)


@asynccontextmanager
async def opened(folder: Path, platform: Platform) -> AsyncIterator[Home]:
    """Have the state in ``folder`` open, which ``platform`` seals, for as long as this lasts."""
    home = await Home.open(
        folder,
        platform_kind=platform.kind,
        sealing_key=lambda policy: platform.sealing_key(SealPolicy(policy)),
    )
    try:
        yield home
    finally:
        await home.close()


@asynccontextmanager
async def writing(engine: Engine) -> AsyncIterator[asyncio.Task[None]]:
    """Let the engine write for as long as the context lasts; then end and close it in order.

    Raises:
        Broken: the engine does not know what is durable; a restart will read it.
    """
    task = asyncio.create_task(engine.run())
    try:
        yield task
    finally:
        engine.stop()
        try:
            await task
        finally:
            await engine.close()


def service_of(engine: Engine, platform: Platform, checks: QuoteChecks) -> Service:
    """Return what answers requests; to be closed."""
    return Service(
        engine,
        Quotes(platform, engine.view.state.keys),
        routes(),
        quote_checks=checks,
        simulated=platform.kind == "simulation",
    )


def listener_of(service: Service, counts: "RequestCounts | None" = None) -> Listener:
    """Return the listener of the Client API, which serves the root certificate."""
    keys = service.engine.view.state.keys
    return Listener(service, TlsContext(keys.root_key, [keys.root_cert]), counts=counts)
