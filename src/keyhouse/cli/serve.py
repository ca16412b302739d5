"""`keyhouse serve`: the coordinator as a process."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keyhouse.cli.process import harden
from keyhouse.cli.settings import Settings, read_settings
from keyhouse.wire.errors import KeyhouseError

if TYPE_CHECKING:
    import asyncio

    from keyhouse.api import Listener
    from keyhouse.coordinator import Engine

__all__ = ["main"]

GRACE = 10.0
"""Seconds that accepted requests have to be answered after the signal to stop."""


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal; return the exit code: 0 stopped, 1 refused or broken, 2 usage."""
    try:
        settings = read_settings(arguments, os.environ)
        return _run(settings)
    except KeyhouseError as error:
        sys.stderr.write(f"error: {error.message}\n")
        if error.hint:
            sys.stderr.write(f"hint: {error.hint}\n")
        return 1


def _run(settings: Settings) -> int:
    # Where structlog finds rich it would draw tracebacks with it, which shows values and costs a
    # third of the start. This process prints no tracebacks.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import uvloop

    from keyhouse.cli.logs import configure_logs

    configure_logs(settings.log_level, settings.log_format)
    uvloop.run(_serve(settings))
    return 0


async def _serve(settings: Settings) -> None:
    import asyncio

    import structlog

    from keyhouse import __version__
    from keyhouse.api import Listener, Quotes, Service, TlsContext, routes
    from keyhouse.attestation import SealPolicy, open_platform
    from keyhouse.authority import parse_names
    from keyhouse.coordinator import HostClock, NewDeployment, Process, open_engine
    from keyhouse.journal import Home

    log = structlog.get_logger(__name__)
    for missing in harden():
        log.warning("the process is less protected than it could be", missing=missing)
    for note in settings.notes:
        log.warning(note)
    stop = _stop_signals()
    platform = await asyncio.to_thread(open_platform, settings.platform, settings.data_dir)
    simulated = platform.kind == "simulation"
    if simulated:
        log.warning("SIMULATION: this coordinator proves nothing and protects nothing")
    home = await Home.open(
        settings.data_dir,
        platform_kind=platform.kind,
        sealing_key=lambda policy: platform.sealing_key(SealPolicy(policy)),
    )
    dns_names, ip_addresses = parse_names(settings.dns_names)
    engine = await open_engine(
        home,
        clock=HostClock(),
        process=Process(
            platform=platform.kind,
            instance=os.urandom(16),
            version=__version__,
            measurement=platform.measurements.unique_id,
        ),
        new=NewDeployment(settings.curve, dns_names, ip_addresses),
        confirm_clock=settings.confirm_clock,
    )
    keys = engine.view.state.keys
    service = Service(engine, Quotes(platform, keys), routes(), simulated=simulated)
    listener = Listener(service, TlsContext(keys.root_key, [keys.root_cert]))
    await listener.start(settings.client_host, settings.client_port)
    log.info(
        "serving the Client API",
        phase=engine.view.phase.words,
        address=f"{settings.client_host or '*'}:{listener.port}",
        platform=platform.kind,
        version=__version__,
    )
    await _until_stopped(engine, listener, stop)
    service.close()
    log.info("stopped")


def _stop_signals() -> "asyncio.Event":
    """Return the event that SIGTERM and SIGINT set, from now on."""
    import asyncio

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _until_stopped(engine: "Engine", listener: "Listener", stop: "asyncio.Event") -> None:
    """Serve until ``stop`` is set or the engine breaks; answer what was accepted; close in order.

    Raises:
        Broken: the engine does not know what is durable; a restart will read it.
    """
    import asyncio

    writing = asyncio.create_task(engine.run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({writing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await listener.stop(GRACE)
    engine.stop()
    try:
        await writing
    finally:
        await engine.close()
