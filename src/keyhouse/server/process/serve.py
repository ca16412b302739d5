"""`keyhouse serve`: the start and the end of a coordinator process."""

import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from keyhouse.base.errors import InvalidError, KeyhouseError, StartAgainError
from keyhouse.base.log import log, write_error
from keyhouse.base.process.error_text import error_text
from keyhouse.base.process.flags import SettingMisusedError, SettingRefusedError
from keyhouse.base.process.hardening import harden, return_large_blocks
from keyhouse.server.process.settings import Settings, read_settings

if TYPE_CHECKING:
    from asyncio import Event, Task
    from contextlib import AbstractAsyncContextManager

    from keyhouse.attestation import Platform
    from keyhouse.coordinator import Engine, NewDeployment, Process
    from keyhouse.journal import StateStorage
    from keyhouse.server.http.listener import Listener
    from keyhouse.server.metrics.listener import Observability
    from keyhouse.server.net.acceptor import Acceptor
    from keyhouse.server.process.replicas import Sharing
    from keyhouse.server.process.serving import Listeners
    from keyhouse.server.services.line_quotes import LineQuotes
    from keyhouse.server.services.quote_checks import QuoteChecks

T = TypeVar("T")

REFUSED: Final = 1
USAGE: Final = 2
AGAIN: Final = 3
INTERRUPTED: Final = 130

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)

WARMED_AFTER = 1.0
"""Seconds after the start until libraries are loaded that the start itself does not need."""

GRACE = 10.0
"""Seconds for the answers to accepted requests, after the signal to stop."""


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal. Return the exit code.

    Codes: 0 stopped, 1 refused or broken, 2 usage, 3 the process has to start again.
    """

    def run() -> int:
        if "--check-config" in arguments:
            raise SettingRefusedError(
                "--check-config needs the package of the command keyhouse, not installed here",
                hint="run keyhouse serve --check-config where keyhouse is installed",
            )
        settings = read_settings(arguments, os.environ)
        if settings.replicas == 1:
            return _run(settings)
        from keyhouse.server.process.supervisor import supervise

        return supervise(settings, lambda own: exit_code(lambda: _run(own)))

    return exit_code(run)


def exit_code(run: Callable[[], int]) -> int:
    """Return the result of ``run``. If it raises, print the error and return its exit code."""
    try:
        return run()
    except KeyhouseError as error:
        write_error(error_text(error))
        return _code_of(error)
    except KeyboardInterrupt:  # before the handlers of the signals
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 the last resort shows no text of the error
        from keyhouse.base.process.crash_report import UnexpectedError

        write_error(error_text(UnexpectedError.of(error)))
        return REFUSED


def _code_of(error: KeyhouseError) -> int:
    if isinstance(error, StartAgainError):
        return AGAIN
    return USAGE if isinstance(error, SettingMisusedError) else REFUSED


def _run(settings: Settings) -> int:
    import uvloop

    from keyhouse.server.logs import configure_logs

    configure_logs(settings.log_level, settings.log_format, settings.replica.number)
    uvloop.run(_serve(settings))
    return 0


async def _serve(settings: Settings) -> None:
    """Open the state, serve until a signal to stop, and close the state, also after an error."""
    import asyncio

    from keyhouse.attestation import open_platform
    from keyhouse.attestation.platforms.find import platform_name
    from keyhouse.base.process.crash_report import report_crashes
    from keyhouse.server.process.open_state import new_deployment, opened, require_clock
    from keyhouse.server.process.serving import watched

    report_crashes()
    stop = _stop_signals()
    missing = harden()
    for note in settings.notes:
        log.warning(note)
    new = new_deployment(settings)
    name = platform_name(settings.platform)
    folder = settings.data_dir.absolute()
    if settings.store is None:
        require_clock(folder, confirmed=settings.confirm_clock)
    # With a store, another coordinator may give the data key.
    must_seal = settings.store is None
    platform = await asyncio.to_thread(open_platform, name, folder, must_seal=must_seal)
    for each in missing if not platform.is_library_os else ():
        log.warning("the process is less protected than it could be", missing=each)
    if platform.kind == "simulation":
        log.warning("SIMULATION: this coordinator proves nothing and protects nothing")
    async with (
        opened(settings.state_dir, platform, settings.database) as storage,
        watched(settings.metrics_addr) as metrics,
    ):
        await _serve_storage(settings, platform, storage, new, metrics, stop)
    log.info("stopped")


async def _serve_storage(
    settings: Settings,
    platform: "Platform",
    storage: "StateStorage",
    new: "NewDeployment",
    metrics: "Observability | None",
    stop: "Event",
) -> None:
    from keyhouse.server.process.open_state import (
        line_quotes,
        quote_checks,
        sealing_note,
        witnessed,
        writing,
    )
    from keyhouse.server.services.quote_checks import JournalledMarks

    # With a shared store, this may wait for other coordinators for as long as they serve.
    quotes = line_quotes(settings, platform)
    try:
        opening = _opened_engine(settings, platform, storage, new, quotes)
        opened = await _unless_stopped(opening, stop)
    finally:
        await quotes.close()
    if opened is None:
        return
    engine, sharing = opened
    if note := sealing_note(platform.kind, engine.view.state):
        log.warning(note)
    async with quote_checks(
        settings, platform, JournalledMarks(engine), engine.current.moment
    ) as checks:
        await quotes.verify_by(checks)
        if sharing is not None:
            sharing.quotes.verify_by(checks)
        async with writing(engine) as task, witnessed(engine):
            await _apply_startup_manifest(settings, engine)
            async with (
                _among_others(settings, platform, storage, engine, sharing) as looking,
                _answering(settings, platform, engine, checks, metrics) as listeners,
            ):
                await _start(settings, platform.kind, engine, listeners.client_api)
                async with _warmed_up(checks):
                    ending = (task,) if looking is None else (task, looking)
                    await _until_stopped(ending, stop, listeners.client_api, listeners.workload_api)


def _answering(
    settings: Settings,
    platform: "Platform",
    engine: "Engine",
    checks: "QuoteChecks",
    metrics: "Observability | None",
) -> "AbstractAsyncContextManager[Listeners]":
    """Start both APIs as the settings state, until the context ends."""
    from keyhouse.server.process.serving import serving

    return serving(
        engine,
        platform,
        checks,
        settings.mesh_addr,
        certificate_days=settings.marble_certificate_days,
        metrics=metrics,
        replicated=settings.store is not None,
        standbys=settings.store_standbys,
        inherited=settings.replica.workload_api,
    )


@asynccontextmanager
async def _warmed_up(checks: "QuoteChecks") -> AsyncIterator[None]:
    """Load modules and decoders for the first quote and manifest, some seconds after the start.

    So the load delays neither the first answers nor the first quote.
    """
    import asyncio

    def load_preparation() -> None:
        from keyhouse.coordinator import prepare_manifest, prepare_update  # noqa: F401  20 ms
        from keyhouse.manifest.check import read_document

        read_document(b"{}")  # decoders of the manifest types: 3 ms

    async def warm_up() -> None:
        await asyncio.sleep(WARMED_AFTER)
        await checks.warm_up()
        await checks.in_turn(load_preparation)

    warming = asyncio.create_task(warm_up())
    try:
        yield
    finally:
        warming.cancel()
        await asyncio.wait([warming])


async def _opened_engine(
    settings: Settings,
    platform: "Platform",
    storage: "StateStorage",
    new: "NewDeployment",
    quotes: "LineQuotes",
) -> "tuple[Engine, Sharing | None]":
    """Return the engine for ``storage`` and, with a shared store, the objects for replicas.

    ``new``: the curve and the names for a new deployment. ``quotes``: for entries of the line.
    """
    from contextlib import AsyncExitStack

    from keyhouse.base.version import VERSION
    from keyhouse.coordinator import HostClock, Origin, open_engine
    from keyhouse.server.process.open_state import start_quotes

    origin = Origin(settings.origin, quotes, claim=settings.claim_fingerprint, version=VERSION)
    process, sharing = _process(settings, platform), None
    async with AsyncExitStack() as stack:
        if settings.store is not None:
            from keyhouse.server.process.replicas import joining

            opened = joining(settings, platform, storage, process, origin)
            sharing = await stack.enter_async_context(opened)
            process = sharing.process
        engine = await open_engine(
            storage,
            clock=HostClock(),
            process=process,
            new=new,
            confirm_clock=settings.confirm_clock,
            shared=None if sharing is None else sharing.shared,
            make_quote=start_quotes(settings, platform),
            origin=origin,
        )
        return engine, sharing


def _among_others(
    settings: Settings,
    platform: "Platform",
    storage: "StateStorage",
    engine: "Engine",
    sharing: "Sharing | None",
) -> "AbstractAsyncContextManager[Task[None] | None]":
    """Send the data key to other replicas during the context, if the store is shared.

    ``sharing``: None means that the store is not shared; the context then does nothing.
    """
    from contextlib import nullcontext

    if sharing is None:
        return nullcontext()
    from keyhouse.server.process.replicas import among_others

    return among_others(settings, platform, storage, engine, sharing)


def _process(settings: Settings, platform: "Platform") -> "Process":
    from msgspec.structs import replace

    from keyhouse.coordinator import FirstManifestRule
    from keyhouse.server.process.open_state import process_on

    rule = FirstManifestRule(
        claim=settings.claim_fingerprint,
        allowed_in_recovery=not settings.no_new_manifest_in_recovery,
    )
    # Another replica may serve a state that does not open on this machine.
    if settings.store is not None:
        rule = FirstManifestRule(
            claim=settings.claim_fingerprint,
            allowed_in_recovery=settings.replace_lost_state,
            allowing_flag="start with --replace-lost-state",
        )
    return replace(
        process_on(platform),
        first_manifest=rule,
        removed_may_cancel=not settings.no_cancel_by_removed,
        given_up_log=settings.begin_new_log,
        shares_store=settings.store is not None,
    )


async def _unless_stopped(work: "Coroutine[None, None, T]", stop: "Event") -> "T | None":
    """Return the result of ``work``, or None if ``stop`` is set before."""
    import asyncio

    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.wait({working, stopping})


async def _start(settings: Settings, platform: str, engine: "Engine", listener: "Listener") -> None:
    """Start the listener of the Client API, as the last part of the start."""
    from keyhouse.base.version import VERSION

    _settle_memory()
    await listener.start(*settings.client_addr, settings.replica.client_api)
    # The same text as in the header Keyhouse-Replica.
    instance = {"instance": engine.process.instance[:4].hex()} if settings.store is not None else {}
    log.info(
        "serving the Client API",
        phase=engine.view.phase.words,
        address=f"{settings.client_addr.host or '*'}:{listener.port}",
        platform=platform,
        version=VERSION,
        **instance,
    )
    _notify_service_manager()


def _notify_service_manager() -> None:
    """Notify systemd that requests are answered now (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # abstract, without a file
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.sendto(b"READY=1", socket.MSG_DONTWAIT, address)
    except OSError:
        log.warning("the service manager did not receive the notification of readiness")


async def _apply_startup_manifest(settings: Settings, engine: "Engine") -> None:
    if settings.startup_manifest is None:
        return
    from keyhouse.server.process.startup_manifest import (
        StartupInvalidError,
        apply_startup_manifest,
        read_startup_manifest,
    )

    recovery_file = settings.startup_recovery_file
    raw = read_startup_manifest(settings.startup_manifest, recovery_file)
    try:
        await apply_startup_manifest(engine, raw, recovery_file)
    except InvalidError as invalid:
        raise StartupInvalidError(settings.startup_manifest, invalid.problems) from None


def _settle_memory() -> None:
    """Exclude objects of the start from garbage collection, and make collections rare.

    Few objects of a coordinator are in reference cycles. With the default thresholds, collections
    without any result interrupt an upload of 1,000 secrets for tens of milliseconds. No collection
    precedes the freeze: the collection takes a tenth of the start and finds some 500 objects.
    Therefore no cycle may hold large objects: ``release_frames`` breaks the cycles of failed
    requests.
    """
    import gc

    return_large_blocks()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    gc.enable()


def _stop_signals() -> "Event":
    """Return an event that the first SIGTERM or SIGINT sets. Later signals are ignored.

    The kernel ignores them for the whole process. A handler of the loop would end with the loop,
    and a signal mask counts for one thread only. Then a second signal could change the exit code
    while the interpreter ends.
    """
    import asyncio

    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def first(_number: int, _frame: object) -> None:
        for number in _STOPPING:
            signal.signal(number, signal.SIG_IGN)
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)

    for number in _STOPPING:
        signal.signal(number, first)
    return stop


async def _until_stopped(
    ending: Iterable["Task[None]"], stop: "Event", *listeners: "Acceptor"
) -> None:
    """Serve until ``stop`` is set or a task of ``ending`` ends.

    Then stop ``listeners``, which answer accepted requests first.
    """
    import asyncio

    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({*ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await asyncio.gather(*(listener.stop(GRACE) for listener in listeners))
