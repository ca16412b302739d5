"""A coordinator in a thread: the rooms of ``keyhouse serve``, with a clock of the test."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from keyhouse.attestation import Platform, SealPolicy
from keyhouse.attestation.platforms import simulation
from keyhouse.testing.clock import MovableClock

if TYPE_CHECKING:
    from keyhouse.api import QuoteChecks
    from keyhouse.coordinator import Engine
    from keyhouse.journal import Home

__all__ = ["Coordinator", "Ports"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PATIENCE: Final = 60.0  # seconds until it serves
_GRACE: Final = 2.0  # seconds for requests that are being answered when it is stopped
_HERE: Final = "127.0.0.1"


class Ports(NamedTuple):
    """Where a coordinator serves, on 127.0.0.1."""

    client_api: int
    workload_api: int


class Coordinator:
    """A coordinator over ``folder``; ``certificate_days`` as the setting of ``keyhouse serve``."""

    def __init__(self, folder: Path, clock: MovableClock, certificate_days: int | None) -> None:
        self._folder = folder
        self._clock = clock
        self._certificate_days = certificate_days
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._started: Future[Ports] = Future()
        self._thread = threading.Thread(target=self._run, name="keyhouse")

    def start(self) -> Ports:
        """Return once it serves. Raises what keeps it from that."""
        self._thread.start()
        return self._started.result(_PATIENCE)

    def stop(self) -> None:
        """Let it end in order; return once it has."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        import uvloop

        try:
            uvloop.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        from keyhouse.journal import Home

        self._loop = asyncio.get_running_loop()
        # By name, as on the command line: without the distribution there is no simulation.
        platform = simulation()(self._folder / "simulation", now=self._clock.moment)
        home = await Home.open(
            self._folder,
            platform_kind=platform.kind,
            sealing_key=lambda policy: platform.sealing_key(SealPolicy(policy)),
        )
        try:
            async with self._engine(home, platform) as engine:
                await self._listen(engine, platform)
        finally:
            await home.close()

    @asynccontextmanager
    async def _engine(self, home: "Home", platform: Platform) -> "AsyncIterator[Engine]":
        from keyhouse import __version__
        from keyhouse.coordinator import NewDeployment, Process, open_engine

        engine = await open_engine(
            home,
            clock=self._clock,
            process=Process(
                platform=platform.kind,
                instance=os.urandom(16),
                version=__version__,
                measurement=platform.measurements.unique_id,
            ),
            new=NewDeployment("P-256", ("localhost",), (_HERE,)),
        )
        writing = asyncio.create_task(engine.run())
        try:
            yield engine
        finally:
            engine.stop()
            try:
                await writing
            finally:
                await engine.close()

    async def _listen(self, engine: "Engine", platform: Platform) -> None:
        from keyhouse.api import Listener, Quotes, Service, TlsContext, routes
        from keyhouse.api.activation_counts import ActivationCounts
        from keyhouse.cli.serve_workloads import workloads_served

        keys = engine.view.state.keys
        service = Service(
            engine,
            Quotes(platform, keys),
            routes(),
            quote_checks=self._quote_checks(engine, platform),
            simulated=True,
        )
        listener = Listener(service, TlsContext(keys.root_key, [keys.root_cert]))
        try:
            async with workloads_served(
                (_HERE, 0),
                service,
                None,
                ActivationCounts(),
                certificate_days=self._certificate_days,
            ) as workloads:
                service.served_by(listener, workloads)
                await listener.start(_HERE, 0)
                self._started.set_result(Ports(listener.port, workloads.port))
                await self._stop.wait()
                await asyncio.gather(listener.stop(_GRACE), workloads.stop(_GRACE))
        finally:
            service.close()

    def _quote_checks(self, engine: "Engine", platform: Platform) -> "QuoteChecks":
        from keyhouse.api import QuoteChecks
        from keyhouse.api.collateral_memory import JournalledMarks
        from keyhouse.cli.collateral_file import CollateralFile

        return QuoteChecks(
            platform.root_ca,
            CollateralFile(self._folder / "simulation" / "collateral.json"),
            lambda: _EPOCH + timedelta(microseconds=engine.now()),
            JournalledMarks(engine),
        )
