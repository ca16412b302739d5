"""The Client API behind its router: judges each request by its head, then lets a handler answer."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec
import structlog

from keyhouse.authority import CoordinatorKeys
from keyhouse.base.errors import Forbidden, KeyhouseError
from keyhouse.coordinator import Engine, Running, View, policy_of, require
from keyhouse.server.client_api import envelope
from keyhouse.server.client_api.bodies import LogBody, LogText
from keyhouse.server.client_api.routes import Caller, Route, Table
from keyhouse.server.client_api.view_answers import ViewAnswers
from keyhouse.server.http.exchange import Admission, Answer, Head, Refusal
from keyhouse.server.http.listener import Listener
from keyhouse.server.net.acceptor import Acceptor
from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit
from keyhouse.server.net.tls import TlsContext
from keyhouse.server.services.marbles import identify_marble
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.server.services.quotes import Quotes
from keyhouse.server.services.recovery import RecoveryDesk

__all__ = ["Service"]

log = structlog.get_logger(__name__)

T = TypeVar("T")

_VERSION_2: Final = "/api/v2/"
"""Only version 2 of the interface has answers whose word is ``fail``."""

_NO_FAULT: Final = frozenset({501, 503})
"""What the protocol refuses though the request itself is not wrong: never a ``fail``."""

INLINE: Final = 1024
"""Bodies up to this size are read and checked on the event loop: microseconds. Others go off it."""

SHARED: Final = 5
"""Public answers kept for all who ask: manifest and update log in both versions, the update."""

MANIFESTS_WAITING: Final = 4
"""First manifests that may wait while one is prepared: anybody may send one."""

PLANS: Final = 16
"""Plans that are being made or wait for that; one is made at a time, beside the updates."""


class Service:
    """Implements ``Application`` over the engine's current view."""

    def __init__(
        self,
        engine: Engine,
        quotes: Quotes,
        table: Table,
        *,
        quote_checks: QuoteChecks,
        simulated: bool,
    ) -> None:
        self.engine: Final = engine
        self.quotes: Final = quotes
        self.quote_checks: Final = quote_checks
        self.log_body: Final = LogBody()
        self.log_text: Final = LogText()
        self.simulated: Final = simulated
        self.recovery: Final = RecoveryDesk(engine, self._ready_for)
        self.plans: Final = BoundedExecutor(
            "plan", ConcurrencyLimit(PLANS, "other plans are being made")
        )
        self._listener: Listener | None = None
        self._others: tuple[Acceptor, ...] = ()
        self._table = table
        self._answers = ViewAnswers()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="prepare")
        self._one_manifest = asyncio.Semaphore(1)
        places = MANIFESTS_WAITING + 1
        self._manifests = ConcurrencyLimit(places, "other manifests are being prepared")
        self._shared: tuple[tuple[bytes, Answer], ...] = ()
        self._headers_of: View | None = None
        self._headers: tuple[tuple[bytes, bytes], ...] = ()

    def served_by(self, listener: Listener, *others: Acceptor) -> None:
        """Let ``listener`` serve the recovered root once there is one.

        ``others`` take their context from the state; their connections end with the old root too.
        """
        self._listener = listener
        self._others = others

    # --- Application ---

    def admit(self, head: Head) -> Answer | Admission:
        """Judge a request by its head; reads are answered at once, from one view."""
        view = self.engine.view
        known = self._answers.get(view, head)
        if known is not None:
            return known
        route = self._table.by_target.get((head.method, head.path))
        if route is None:
            return self._unknown(head)
        try:
            self._judge(route, view, head.identity)
            if route.read is not None:
                answer = route.read(self, view, head)
                self._answers.keep(view, head, answer)
                return answer
        except KeyhouseError as problem:
            return self.refused(problem, head)
        identified = route.caller is not Caller.ANYBODY
        return Admission(
            route.body_limit, lambda body: self._written(route, head, body), identified
        )

    def refuse(self, refusal: Refusal) -> Answer:
        """Word what the protocol refuses."""
        hint = f" ({refusal.hint})" if refusal.hint else ""
        message = refusal.message + hint
        headers = self.headers(self.engine.view)
        at_fault = refusal.part and refusal.status not in _NO_FAULT
        if at_fault and refusal.path.startswith(_VERSION_2):
            return envelope.fail(refusal.status, message, {refusal.part: refusal.message}, headers)
        return envelope.error(refusal.status, message, headers)

    def forget_answers(self) -> None:
        """Answer anew what was answered before: with time, certificates expire."""
        self._answers = ViewAnswers()

    # --- for handlers ---

    def headers(self, view: View) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers that every answer from ``view`` carries."""
        if view is not self._headers_of:
            state = ((b"keyhouse-state", view.revision.encode()),) if view.revision else ()
            simulated = ((b"keyhouse-platform", b"simulation"),) if self.simulated else ()
            self._headers_of, self._headers = view, (*state, *simulated)
        return self._headers

    def success(self, data: msgspec.Struct | str | None, view: View, message: str = "") -> Answer:
        """Return 200 with ``data``, of a type of the interface, as seen from ``view``."""
        return envelope.enveloped(msgspec.json.encode(data), self.headers(view), message)

    def encoded(self, data: bytes, view: View) -> Answer:
        """Return ``success`` for ``data`` that are JSON already."""
        return envelope.enveloped(data, self.headers(view))

    def shared(self, data: bytes, view: View) -> Answer:
        """Return ``success`` for public ``data`` that may be large: one answer for all who ask.

        Clients that are slow to take it, however many, then hold its bytes once.
        """
        headers = self.headers(view)
        for known, answer in self._shared:
            if known is data and answer.headers is headers:
                return answer
        answer = self.encoded(data, view)
        self._shared = ((data, answer), *self._shared[: SHARED - 1])
        return answer

    def refused(self, problem: KeyhouseError, head: Head) -> Answer:
        """Return what ``problem`` becomes for the caller of ``head``."""
        headers = self.headers(self.engine.view)
        return envelope.refusal(problem, headers, fails=head.path.startswith(_VERSION_2))

    def judged_again(self, head: Head) -> View:
        """Return the view of now if it still allows the request of ``head``, whose body took time.

        Raises what ``admit`` would have refused it with.
        """
        view = self.engine.view
        self._judge(self._table.by_target[head.method, head.path], view, head.identity)
        return view

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, without keeping other requests waiting."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def one_manifest_at_a_time(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what ``work`` returns; preparing a first manifest is costly and open to all.

        Raises:
            Unavailable: others are waiting for the same already.
        """
        with self._manifests.one():
            async with self._one_manifest:
                return await work()

    def close(self) -> None:
        """Give the threads back."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.plans.close()
        self.recovery.close()
        self.quotes.close()
        self.quote_checks.close()

    async def _ready_for(self, keys: CoordinatorKeys) -> Callable[[], None]:
        """Make quote and TLS context of recovered ``keys``; return what begins to serve them.

        Connections under the temporary root are closed, each after the answer it waits for.
        """
        listener = self._listener
        begin_quotes = await self.off_loop(lambda: self.quotes.successor(keys))
        context = TlsContext(keys.root_key, [keys.root_cert])

        def serve() -> None:
            begin_quotes()
            if listener is not None:
                listener.close_before(listener.replace_context(context))
            for other in self._others:
                other.close_before(other.begin_generation())

        return serve

    # --- judging ---

    def _judge(self, route: Route, view: View, identity: bytes | None) -> None:
        """Refuse what the phase, the feature gate or the caller's certificate rules out."""
        require(route.operation, view.phase)
        state = view.state
        if not isinstance(state, Running):
            return
        if route.gate and not policy_of(state.manifest).has_gate(route.gate):
            raise Forbidden(
                f"{route.operation} is not enabled",
                hint=f"add {route.gate} to Config.FeatureGates of the manifest",
            )
        if route.caller is Caller.USER:
            policy_of(state.manifest).identify(identity)
        elif route.caller is Caller.MARBLE:
            identify_marble(state, identity, now=self.engine.now())

    async def _written(self, route: Route, head: Head, body: bytes) -> Answer:
        assert route.write is not None  # noqa: S101 a route that does not read writes
        try:
            return await route.write(self, head, body)
        except KeyhouseError as problem:
            return self.refused(problem, head)

    def _unknown(self, head: Head) -> Answer:
        """Answer 405: clients take it for "no such version of the interface"."""
        allowed = self._table.methods(head.path)
        path = head.path[:200].encode("unicode_escape").decode("ascii")
        headers = self.headers(self.engine.view)
        if allowed:
            headers = (*headers, (b"allow", ", ".join(allowed).encode()))
            return envelope.error(405, f"{path} has no method {head.method}", headers)
        return envelope.error(405, f"there is nothing at {head.method} {path}", headers)
