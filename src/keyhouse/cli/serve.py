"""`keyhouse serve`: the coordinator as a process."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from keyhouse.cli.error_text import error_text
from keyhouse.cli.process import harden
from keyhouse.cli.settings import SettingRefused, Settings, read_settings
from keyhouse.cli.standard_error import write_error
from keyhouse.wire.errors import Invalid, KeyhouseError

if TYPE_CHECKING:
    from asyncio import Event

    from keyhouse.api import Listener
    from keyhouse.attestation import Platform
    from keyhouse.coordinator import Engine, NewDeployment
    from keyhouse.journal import Home

__all__ = ["main"]

REFUSED: Final = 1
INTERRUPTED: Final = 130

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)

GRACE = 10.0
"""Seconds that accepted requests have to be answered after the signal to stop."""


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal; return the exit code: 0 stopped, 1 refused or broken, 2 usage."""
    try:
        settings = read_settings(arguments, os.environ)
        _run(settings)
    except KeyhouseError as error:
        write_error(error_text(error))
        return REFUSED
    except KeyboardInterrupt:  # before the signals were taken over
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 the last resort, which tells no text of the error
        from keyhouse.cli.last_resort import Unexpected

        write_error(error_text(Unexpected.of(error)))
        return REFUSED
    return 0


def _run(settings: Settings) -> None:
    # Where structlog finds rich it would draw tracebacks with it, which shows values and costs a
    # third of the start. This process prints no tracebacks.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import uvloop

    from keyhouse.cli.logs import configure_logs

    configure_logs(settings.log_level, settings.log_format)
    uvloop.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    """Open what the settings name, serve until the end, and close it, whatever happens."""
    import asyncio

    import structlog

    from keyhouse.attestation import SealPolicy, open_platform
    from keyhouse.cli.last_resort import install_last_resort
    from keyhouse.cli.platform_choice import platform_name
    from keyhouse.journal import Home

    log = structlog.get_logger(__name__)
    install_last_resort()
    stop = _stop_signals()
    for missing in harden():
        log.warning("the process is less protected than it could be", missing=missing)
    for note in settings.notes:
        log.warning(note)
    new = _new_deployment(settings)
    name = platform_name(settings.platform)
    folder = settings.data_dir.absolute()
    platform = await asyncio.to_thread(open_platform, name, folder)
    if platform.kind == "simulation":
        log.warning("SIMULATION: this coordinator proves nothing and protects nothing")
    home = await Home.open(
        folder,
        platform_kind=platform.kind,
        sealing_key=lambda policy: platform.sealing_key(SealPolicy(policy)),
    )
    try:
        await _serve_home(settings, platform, home, new, stop)
    finally:
        await home.close()
    log.info("stopped")
    # All is done: a signal that comes while the interpreter ends must not change the exit code.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)


async def _serve_home(
    settings: Settings, platform: "Platform", home: "Home", new: "NewDeployment", stop: "Event"
) -> None:
    import structlog

    from keyhouse import __version__
    from keyhouse.api import Listener, Quotes, Service, TlsContext, routes
    from keyhouse.cli.serve_metrics import counts_for, metrics_served
    from keyhouse.coordinator import HostClock, Process, open_engine

    engine = await open_engine(
        home,
        clock=HostClock(),
        process=Process(
            platform=platform.kind,
            instance=os.urandom(16),
            version=__version__,
            measurement=platform.measurements.unique_id,
        ),
        new=new,
        confirm_clock=settings.confirm_clock,
    )
    keys = engine.view.state.keys
    simulated = platform.kind == "simulation"
    service = Service(engine, Quotes(platform, keys), routes(), simulated=simulated)
    try:
        counts = counts_for(settings.metrics)
        context = TlsContext(keys.root_key, [keys.root_cert])
        listener = Listener(service, context, counts=counts)
        async with metrics_served(settings.metrics, service, listener, counts):
            _settle_memory()
            await listener.start(settings.client_host, settings.client_port)
            structlog.get_logger(__name__).info(
                "serving the Client API",
                phase=engine.view.phase.words,
                address=f"{settings.client_host or '*'}:{listener.port}",
                platform=platform.kind,
                version=__version__,
            )
            await _until_stopped(engine, listener, stop)
    finally:
        service.close()


def _settle_memory() -> None:
    """Spare the collector what the start made, and let it look for cycles rarely.

    Hardly anything here is in a cycle; with the defaults an upload of 1,000 secrets is stopped
    for tens of milliseconds by collections that find nothing.
    """
    import gc

    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def _new_deployment(settings: Settings) -> "NewDeployment":
    from keyhouse.authority import parse_names
    from keyhouse.coordinator import NewDeployment

    try:
        dns_names, ip_addresses = parse_names(settings.dns_names)
    except Invalid as error:
        first = error.problems[0]
        raise SettingRefused(
            f"entry {first.at} of --dns-names {first.problem}", hint=first.hint
        ) from None
    return NewDeployment(settings.curve, dns_names, ip_addresses)


def _stop_signals() -> "Event":
    """Return the event that SIGTERM and SIGINT set, from now on."""
    import asyncio

    stop = asyncio.Event()
    for number in _STOPPING:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _until_stopped(engine: "Engine", listener: "Listener", stop: "Event") -> None:
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
