"""Connects the use cases of a coordinator with the listeners of both APIs."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from keyhouse.attestation import Platform
from keyhouse.authority import LIFETIME, CoordinatorKeys
from keyhouse.base.log import log
from keyhouse.base.version import VERSION
from keyhouse.coordinator import CLOCK_EVERY, Engine, Running, warn_of_expiry
from keyhouse.server.client_api import ROUTES, Answers, Dispatcher, UseCases
from keyhouse.server.client_api.public_log import PublicLogHandlers
from keyhouse.server.http.counts import RequestCounts
from keyhouse.server.http.exchange import Application
from keyhouse.server.http.listener import Listener
from keyhouse.server.net.acceptor import Acceptor
from keyhouse.server.net.limits import limits_on
from keyhouse.server.net.tls import TlsContext
from keyhouse.server.services.activation_outcomes import ActivationCounts, Refusals
from keyhouse.server.services.activations import ActivationService
from keyhouse.server.services.events import Events
from keyhouse.server.services.manifests import FirstManifest, Preparation, Updates
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.server.services.quotes import Quotes
from keyhouse.server.services.recovery import RecoverySession
from keyhouse.server.services.renewals import Renewals
from keyhouse.server.workload_api.listener import WorkloadListener

if TYPE_CHECKING:
    from keyhouse.coordinator import ReadGate
    from keyhouse.server.metrics.listener import Observability

GRACE: Final = 1.0
"""Seconds for running calls if the start fails after the start of the workload listener."""

SCRAPE_GRACE: Final = 1.0
"""Seconds for the end of a scrape, after the Client API has closed."""


def root_context(keys: CoordinatorKeys) -> TlsContext:
    """Return a TLS context with the root certificate and its key."""
    return TlsContext(keys.root_key, [keys.root_cert])


class ServingIdentity:
    """Switches quotes and listeners to the recovered keys, all at once after a recovery."""

    def __init__(self, quotes: Quotes, preparation: Preparation) -> None:
        self._quotes: Final = quotes
        self._preparation: Final = preparation
        self._listener: Listener | None = None
        self._others: tuple[Acceptor, ...] = ()

    def served_by(self, listener: Listener, *others: Acceptor) -> None:
        """Store the listeners for ``ready_for``, which changes their root after a recovery.

        ``listener`` then presents the recovered root. ``others`` are listeners that read their TLS
        context from the state. A change of the root also ends the connections of these listeners.
        """
        self._listener = listener
        self._others = others

    async def ready_for(self, keys: CoordinatorKeys) -> Callable[[], None]:
        """Prepare quote and TLS context of the recovered ``keys``, and return a function.

        A call of this function serves the new quote and context. The call also closes the
        connections under the temporary root, each after its pending answer.
        """
        begin_quotes = await self._preparation.off_loop(lambda: self._quotes.successor(keys))
        context = root_context(keys)

        def serve() -> None:
            begin_quotes()
            if self._listener is not None:
                self._listener.close_before(self._listener.replace_context(context))
            for other in self._others:
                other.close_before(other.begin_generation())

        return serve


class ClientApi(msgspec.Struct, frozen=True):
    """The objects behind the listener of the Client API."""

    application: Application
    # The application, or behind the read gate.
    dispatcher: Dispatcher
    use_cases: UseCases
    identity: ServingIdentity


class Listeners(msgspec.Struct, frozen=True):
    """The listeners of both APIs. The Client API's listener is not started yet."""

    client_api: Listener
    workload_api: WorkloadListener


@contextmanager
def client_api(
    engine: Engine,
    platform: Platform,
    checks: QuoteChecks,
    gate: "ReadGate | None" = None,
    standbys: int = 0,
) -> Iterator[ClientApi]:
    """Make the use cases of the Client API with ``checks``, and close them after the context.

    ``gate`` confirms that a view is the newest state; None: the store is not shared.
    ``standbys``: the least number of database standbys that store each change.
    """
    with ExitStack() as stack:
        stack.enter_context(closing(checks))
        preparation = stack.enter_context(closing(Preparation(engine)))
        quotes = stack.enter_context(closing(Quotes(platform, engine.view.state.keys)))
        identity = ServingIdentity(quotes, preparation)
        recovery = stack.enter_context(closing(RecoverySession(engine, identity.ready_for)))
        answers = Answers(
            lambda: engine.view,
            simulated=platform.kind == "simulation",
            replica=engine.process.instance[:4].hex() if gate is not None else "",
            standbys=standbys,
        )
        use_cases = UseCases(
            engine,
            answers,
            preparation,
            FirstManifest(engine, preparation, recovery),
            stack.enter_context(closing(Updates(engine, preparation))),
            recovery,
            quotes,
            checks,
            PublicLogHandlers(engine, answers, quotes),
            Refusals(engine.current.now()),
        )
        dispatcher = Dispatcher(ROUTES, use_cases)
        application: Application = dispatcher
        if gate is not None:
            from keyhouse.server.client_api.read_index import Confirmed

            application = Confirmed(dispatcher, engine, use_cases.answers, gate)
        yield ClientApi(application, dispatcher, use_cases, identity)


@asynccontextmanager
async def serving(
    engine: Engine,
    platform: Platform,
    checks: QuoteChecks,
    mesh: tuple[str, int],
    *,
    certificate_days: int | None = None,
    metrics: "Observability | None" = None,
    replicated: bool = False,
    standbys: int = 0,
    inherited: socket.socket | None = None,
) -> AsyncIterator[Listeners]:
    """Serve the workload API on ``mesh``, and yield the listeners, until the context ends.

    ``mesh``: host and port. ``certificate_days``: the validity of workload certificates; None: the
    coordinator's own period. ``metrics`` exports counters; None: nothing is counted.
    ``replicated``: other replicas write to the same store, so each answer needs a confirmed view.
    ``standbys``: the least number of database standbys that store each change. ``inherited``: a
    socket at ``mesh`` that several processes share.
    """
    gate = None
    if replicated:
        from keyhouse.coordinator import ReadGate

        gate = ReadGate(engine)
    counts = RequestCounts(route.path for route in ROUTES) if metrics else None
    events = Events() if metrics else None
    with client_api(engine, platform, checks, gate, standbys) as api:
        simulated = api.use_cases.answers.simulated
        activated = ActivationCounts()
        activations = ActivationService(
            engine,
            checks,
            simulated=simulated,
            events=events,
            counts=activated,
            refusals=api.use_cases.refusals,
            gate=gate,
            lifetime=LIFETIME if certificate_days is None else timedelta(days=certificate_days),
        )
        keys = engine.view.state.keys
        limits, mesh_limits = limits_on(library_os=platform.is_library_os)
        listener = Listener(
            api.application, root_context(keys), limits, counts=counts, places=replicated
        )
        renewals = Renewals(engine, checks, simulated=simulated, gate=gate, events=events)
        workload_api = WorkloadListener(
            engine,
            activations.activate,
            simulated=simulated,
            limits=mesh_limits,
            gate=gate,
            renewals=renewals,
        )
        async with (
            _workloads_served(workload_api, mesh, (activations, renewals), inherited) as workloads,
            expiry_reminders(engine, api.dispatcher.forget_answers),
        ):
            api.identity.served_by(listener, workloads)
            listeners = Listeners(listener, workloads)
            with _export_metrics(metrics, api.use_cases, listeners, counts, events, activated):
                yield listeners


@asynccontextmanager
async def _workloads_served(
    listener: WorkloadListener,
    address: tuple[str, int],
    services: tuple[ActivationService, Renewals],
    inherited: socket.socket | None,
) -> AsyncIterator[WorkloadListener]:
    """Serve workloads on ``address`` until the context ends or the listener stops.

    ``services``: the services of activations and renewals. ``inherited``: a shared socket at the
    address, or None.
    """
    host, port = address
    try:
        await listener.start(host, port, inherited)
        where = f"{host or '*'}:{listener.port}"
        log.info("serving the workload API", address=where)
        yield listener
    finally:
        await listener.stop(GRACE)
        for service in services:
            service.close()


@asynccontextmanager
async def watched(address: tuple[str, int] | None) -> "AsyncIterator[Observability | None]":
    """Serve metrics on ``address`` (host, port) until the context ends. With None, yield None.

    The Prometheus client is imported only with an address, because the import takes a third of a
    start.
    """
    if address is None:
        yield None
        return
    from keyhouse.server.metrics.listener import Observability, metrics_listener

    observability = Observability()
    listener = metrics_listener(observability)
    host, port = address
    await listener.start(host, port)
    log.info("serving metrics", address=f"{host or '*'}:{listener.port}")
    try:
        yield observability
    finally:
        await listener.stop(SCRAPE_GRACE)


@contextmanager
def _export_metrics(
    metrics: "Observability | None",
    use_cases: UseCases,
    listeners: Listeners,
    requests: RequestCounts | None,
    events: Events | None,
    activations: ActivationCounts,
) -> Iterator[None]:
    """Export the counters as metrics until the context ends. Do nothing without ``metrics``."""
    if metrics is None or requests is None or events is None:
        yield
        return
    from keyhouse.server.metrics.families import Sources

    sources = Sources(
        engine=use_cases.engine,
        quotes=use_cases.quotes,
        listener=listeners.client_api,
        workloads=listeners.workload_api,
        activations=activations,
        requests=requests,
        version=VERSION,
        simulated=use_cases.answers.simulated,
        collateral=use_cases.quote_checks.health,
    )
    with metrics.exporting(sources, events):
        yield


DAY: Final = 24 * 3600.0
"""Seconds between two checks of certificate expiry."""


@asynccontextmanager
async def expiry_reminders(
    engine: Engine,
    forget_answers: Callable[[], None],
    *,
    every: float = DAY,
    poll: float = CLOCK_EVERY,
) -> AsyncIterator[None]:
    """Check the certificates every ``every`` seconds, until the context ends.

    Each check logs the certificates that end soon. Each check also calls ``forget_answers``,
    because stored answers about the status name expired certificates. Every ``poll`` seconds the
    clock is read. So a clock jump is noticed even without requests.
    """
    tasks = [
        asyncio.create_task(_remind(engine, forget_answers, every)),
        asyncio.create_task(_poll_clock(engine, poll)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _poll_clock(engine: Engine, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        engine.current.now()


async def _remind(engine: Engine, forget_answers: Callable[[], None], every: float) -> None:
    while True:
        await asyncio.sleep(every)
        forget_answers()
        state = engine.view.state
        if isinstance(state, Running):
            await asyncio.to_thread(warn_of_expiry, state, engine.current.now())
