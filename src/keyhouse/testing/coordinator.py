"""A coordinator in a thread: the parts of ``keyhouse serve``, with the clock of the test.

The clock runs with the host's clock, and a test can advance it.
"""

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from keyhouse.attestation import Platform
from keyhouse.attestation.platforms.find import SIMULATED_BUNDLES, simulation

if TYPE_CHECKING:
    from keyhouse.coordinator import Engine
    from keyhouse.journal import StateStorage
    from keyhouse.server.services.quote_checks import QuoteChecks


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Seconds until the coordinator serves.
_PATIENCE: Final = 60.0
# Seconds for requests in progress after a stop.
_GRACE: Final = 2.0
_HERE: Final = "127.0.0.1"
_MICROSECOND: Final = timedelta(microseconds=1)


class MovableClock:
    """The clock of a coordinator under test: the host's time, minus ``behind``, plus added time.

    Threads may share a clock.
    """

    def __init__(self, behind: timedelta = timedelta(0)) -> None:
        self._ahead = -(behind // _MICROSECOND)
        self._lock = threading.Lock()

    def now(self) -> int:
        """Return microseconds since 1970-01-01T00:00:00Z."""
        return time.time_ns() // 1000 + self._ahead

    def elapsed(self) -> int:
        """Return microseconds of a monotonic clock, including the time that a test has added."""
        return time.monotonic_ns() // 1000 + self._ahead

    def moment(self) -> datetime:
        """Return the time as a date, UTC."""
        return _EPOCH + self.now() * _MICROSECOND

    def advance(self, by: timedelta) -> None:
        """Advance the clock by ``by``. Raises ``ValueError`` for a negative time."""
        if by < timedelta(0):
            raise ValueError("the clock of the test can only move forward: pass a positive time")
        with self._lock:
            self._ahead += by // _MICROSECOND


class Ports(NamedTuple):
    """The ports of a coordinator on 127.0.0.1."""

    client_api: int
    workload_api: int


class CoordinatorThread:
    """A coordinator in a thread, with ``folder`` as its state directory.

    ``certificate_days`` is the setting of ``keyhouse serve``; None keeps the default.
    """

    def __init__(self, folder: Path, clock: MovableClock, certificate_days: int | None) -> None:
        self._folder = folder
        self._clock = clock
        self._certificate_days = certificate_days
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._started: Future[Ports] = Future()
        self._thread = threading.Thread(target=self._run, name="keyhouse")

    def start(self) -> Ports:
        """Start the thread, and return once the coordinator serves.

        Returns its ports. Raises the error of a failed start.
        """
        self._thread.start()
        return self._started.result(_PATIENCE)

    def stop(self) -> None:
        """Stop the coordinator, and return after the end of its thread."""
        loop = self._loop
        if loop is not None:
            # The coordinator has ended by itself.
            with suppress(RuntimeError):
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
        from keyhouse.server.process.open_state import opened, writing
        from keyhouse.server.process.serving import serving

        self._loop = asyncio.get_running_loop()
        # By name, as on the command line: without the distribution there is no simulation.
        machine, now = self._folder / "simulation", self._clock.moment
        platform = simulation()(machine, now=now, upkeep=False)
        async with opened(self._folder, platform) as storage:
            engine = await self._engine(storage, platform)
            self._catch_up(engine)
            # Only now the deployment's present time is known.
            simulation()(machine, now=now)
            checks, days = self._quote_checks(engine, platform), self._certificate_days
            async with (
                writing(engine),
                serving(engine, platform, checks, (_HERE, 0), certificate_days=days) as listeners,
            ):
                client, workload = listeners.client_api, listeners.workload_api
                await client.start(_HERE, 0)
                self._started.set_result(Ports(client.port, workload.port))
                await self._stop.wait()
                await asyncio.gather(client.stop(_GRACE), workload.stop(_GRACE))

    async def _engine(self, storage: "StateStorage", platform: Platform) -> "Engine":
        from keyhouse.coordinator import NewDeployment, open_engine
        from keyhouse.server.process.open_state import process_on

        return await open_engine(
            storage,
            clock=self._clock,
            process=process_on(platform),
            new=NewDeployment("P-256", ("localhost",), (_HERE,)),
            # A test sets its clock on purpose.
            confirm_clock=True,
            # The simulation proves no origin anyway, and old folders of tests have no line.
            origin=None,
        )

    def _catch_up(self, engine: "Engine") -> None:
        """Advance the clock to the newest time in the state of ``engine``, if the clock is behind.

        This happens if a test opens an older deployment again.
        """
        behind = engine.current.now() - self._clock.now()
        if behind > 0:
            self._clock.advance(timedelta(microseconds=behind))

    def _quote_checks(self, engine: "Engine", platform: Platform) -> "QuoteChecks":
        from keyhouse.attestation.sources.files import CollateralFiles
        from keyhouse.attestation.sources.selection import amd_checks
        from keyhouse.server.services.quote_checks import JournalledMarks, QuoteChecks

        def now() -> datetime:
            return _EPOCH + timedelta(microseconds=engine.current.now())

        bundles = [self._folder / "simulation" / name for name in SIMULATED_BUNDLES]
        return QuoteChecks(
            platform.root_ca,
            CollateralFiles(bundles, platform.root_ca, now),
            now,
            JournalledMarks(engine),
            lambda: self._clock.now() / 1_000_000,
            amd_checks(None, self._folder, platform),
        )
