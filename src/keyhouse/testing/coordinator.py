"""A coordinator in a thread: the rooms of ``keyhouse serve``, with a clock of the test."""

import asyncio
import os
import threading
from concurrent.futures import Future
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from keyhouse.attestation import Platform
from keyhouse.attestation.platforms.find import simulation
from keyhouse.testing.clock import MovableClock

if TYPE_CHECKING:
    from keyhouse.coordinator import Engine
    from keyhouse.journal import Home
    from keyhouse.server.client_api import QuoteChecks, Service

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
        from keyhouse.server.process.parts import opened, service_of, writing

        self._loop = asyncio.get_running_loop()
        # By name, as on the command line: without the distribution there is no simulation.
        machine, now = self._folder / "simulation", self._clock.moment
        platform = simulation()(machine, now=now, upkeep=False)
        async with opened(self._folder, platform) as home:
            engine = await self._engine(home, platform)
            self._catch_up(engine)
            simulation()(machine, now=now)  # only now it is known how late it is there
            async with writing(engine):
                checks = self._quote_checks(engine, platform)
                with closing(service_of(engine, platform, checks)) as service:
                    await self._listen(service)

    async def _engine(self, home: "Home", platform: Platform) -> "Engine":
        from keyhouse import __version__
        from keyhouse.coordinator import NewDeployment, Process, open_engine

        return await open_engine(
            home,
            clock=self._clock,
            process=Process(
                platform=platform.kind,
                instance=os.urandom(16),
                version=__version__,
                measurement=platform.measurements.unique_id,
            ),
            new=NewDeployment("P-256", ("localhost",), (_HERE,)),
            confirm_clock=True,  # a test means what it does to its clock
        )

    def _catch_up(self, engine: "Engine") -> None:
        """Let the clock go on from where it was when this state was last in use."""
        behind = engine.now() - self._clock.now()
        if behind > 0:
            self._clock.advance(timedelta(microseconds=behind))

    async def _listen(self, service: "Service") -> None:
        from keyhouse.server.process.parts import listener_of
        from keyhouse.server.process.workloads import workloads_served
        from keyhouse.server.services.activation_counts import ActivationCounts

        listener = listener_of(service)
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

    def _quote_checks(self, engine: "Engine", platform: Platform) -> "QuoteChecks":
        from keyhouse.server.client_api import QuoteChecks
        from keyhouse.server.process.collateral_file import CollateralFile
        from keyhouse.server.services.collateral_memory import JournalledMarks

        return QuoteChecks(
            platform.root_ca,
            CollateralFile(self._folder / "simulation" / "collateral.json"),
            lambda: _EPOCH + timedelta(microseconds=engine.now()),
            JournalledMarks(engine),
            lambda: self._clock.now() / 1_000_000,
        )
