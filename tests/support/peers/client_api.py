"""The Client API over a real engine, without a listener."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

from keyhouse.attestation.sources.selection import no_collateral
from keyhouse.coordinator import Engine, ReadGate
from keyhouse.server.client_api import Dispatcher
from keyhouse.server.http.exchange import Application, Deferred
from keyhouse.server.process.serving import ClientApi, client_api
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse_simulation import SimulatedPlatform, make_machine

T = TypeVar("T")


def said(deferred: Deferred[T]) -> "asyncio.Future[T]":
    """Return a future with the later result of ``deferred``."""
    found: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def told(what: T | Exception) -> None:
        if isinstance(what, Exception):
            found.set_exception(what)
        else:
            found.set_result(what)

    deferred.then(told)
    return found


@contextmanager
def application_of(engine: Engine) -> Iterator[Dispatcher]:
    """Yield the dispatcher for ``engine``, on a simulated platform without collateral."""
    with _api(engine, None) as api:
        yield api.dispatcher


@contextmanager
def replica_of(engine: Engine) -> Iterator[Application]:
    """Yield the application for ``engine``, a replica on a shared store."""
    with _api(engine, ReadGate(engine)) as api:
        yield api.application


@contextmanager
def _api(engine: Engine, gate: ReadGate | None) -> Iterator[ClientApi]:
    platform = SimulatedPlatform(make_machine(datetime.now(UTC)))
    checks = QuoteChecks(platform.root_ca, no_collateral, lambda: datetime.now(UTC))
    with client_api(engine, platform, checks, gate) as api:
        yield api
