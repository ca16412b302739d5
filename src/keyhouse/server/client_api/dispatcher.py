"""Checks each request of the Client API by its head, then lets the handler of its route answer."""

from asyncio import Future
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from keyhouse.base.errors import KeyhouseError
from keyhouse.coordinator import OPEN_WHILE_HELD, Running, View, policy_of
from keyhouse.server.client_api.call_log import CallLog
from keyhouse.server.client_api.routes import Caller, Grammars, Read, Route, UseCases, Write
from keyhouse.server.client_api.view_answers import ViewAnswers
from keyhouse.server.http.exchange import Admission, Answer, Conclude, Head, Later, Refusal
from keyhouse.server.services.access import identify_marble, require_enabled


class _Target(NamedTuple):
    """A route with its handler: exactly one of ``read`` and ``write``."""

    route: Route
    read: Read | None
    write: Write | None


class Dispatcher:
    """Implements ``Application`` over the engine's current view."""

    def __init__(self, routes: Iterable[Route], use_cases: UseCases) -> None:
        self._engine: Final = use_cases.engine
        self._lease: Final = use_cases.engine.lease
        self._answers: Final = use_cases.answers
        self._targets: Final = {
            (route.method, route.path): _Target(
                route,
                route.read and route.read(use_cases),
                route.write and route.write(use_cases),
            )
            for route in routes
        }
        self._grammars: Final = Grammars(target.route for target in self._targets.values())
        self._known = ViewAnswers()
        self._log: Final = CallLog.if_wanted(use_cases.engine.view)

    def admit(self, head: Head) -> Answer | Admission:
        """Check a request by its head; reads are answered at once, from one view."""
        view = self._engine.view
        known = self._known.get(view, head)
        if known is not None and (not self._lease.is_enforced or self._may_give(head)):
            if self._log is not None:
                route = self._targets[head.method, self._grammars.path_of(head.path)].route
                self._log.answered(view, head, route)
            return known
        path = self._grammars.path_of(head.path)
        target = self._targets.get((head.method, path))
        if target is None:
            return self._answers.not_found(head, self._methods(path))
        route, read, write = target
        try:
            self._require_allowed(route, view, head.identity)
            if self._is_bound(route):
                self._lease.require()
            if read is not None:
                self._count(route)
                answer = read(view, head)
                self._known.keep(view, head, answer)
                if self._log is not None:
                    self._log.answered(view, head, route)
                return answer
        except KeyhouseError as problem:
            return self._refused(problem, head)
        assert write is not None  # noqa: S101 a route that does not read writes
        identified = route.caller is not Caller.ANYBODY
        return Admission(
            route.body_limit,
            lambda body: self._write(route, write, head, body),
            identified,
            route.appends,
        )

    def refuse(self, refusal: Refusal) -> Answer:
        """Word what the protocol refuses."""
        return self._answers.refused_by_protocol(refusal)

    def forget_answers(self) -> None:
        """Make each answer again when it is asked for: with time, certificates expire."""
        self._known = ViewAnswers()

    def _may_give(self, head: Head) -> bool:
        """Tell whether a kept answer still holds where witnesses decide, and count it.

        The status is not always that of the view; what is held is refused elsewhere.
        """
        route = self._targets[head.method, self._grammars.path_of(head.path)].route
        if route.operation in OPEN_WHILE_HELD or self._lease.held:
            return False
        self._lease.spend()
        return True

    def _is_bound(self, route: Route) -> bool:
        """Tell whether witnesses decide over ``route``."""
        return self._lease.is_enforced and route.operation not in OPEN_WHILE_HELD

    def _count(self, route: Route) -> None:
        """Count what is served now, unless its callers could use up the lease.

        Raises ``HeldError``.
        """
        if not self._is_bound(route):
            return
        if route.caller is Caller.ANYBODY:
            self._lease.require()
        else:
            self._lease.spend()

    def _require_allowed(self, route: Route, view: View, identity: bytes | None) -> None:
        """Refuse what the phase, the feature gate or the caller's certificate rules out."""
        require_enabled(view, route.operation, route.gate)
        state = view.state
        if not isinstance(state, Running):
            return
        if route.caller is Caller.USER:
            policy_of(state.manifest).identify(identity)
        elif route.caller is Caller.MARBLE:
            identify_marble(state, identity, now=self._engine.now())

    def _write(
        self, route: Route, write: Write, head: Head, body: bytes
    ) -> Answer | Awaitable[Answer]:
        try:
            self._count(route)  # the lease may have ended while the body came
            outcome = write(head, body)
        except KeyhouseError as problem:
            return self._refused(problem, head)
        if isinstance(outcome, Later):
            return Later(outcome.done, partial(self._concluded, route, outcome.conclude, head))
        return self._written(route, outcome, head)

    def _concluded(
        self, route: Route, conclude: Conclude, head: Head, done: "Future[Any]"
    ) -> Answer | Awaitable[Answer]:
        try:
            outcome = conclude(done)
        except KeyhouseError as problem:
            return self._refused(problem, head)
        if not isinstance(outcome, Answer):
            return self._written(route, outcome, head)
        if self._log is not None:
            self._log.answered(self._engine.view, head, route)
        return outcome

    async def _written(self, route: Route, outcome: Awaitable[Answer], head: Head) -> Answer:
        try:
            answer = await outcome
        except KeyhouseError as problem:
            return self._refused(problem, head)
        if self._log is not None:
            self._log.answered(self._engine.view, head, route)
        return answer

    def _refused(self, problem: KeyhouseError, head: Head) -> Answer:
        if self._log is not None:
            self._log.refused(self._engine.view, head, problem)
        return self._answers.refused(problem, head)

    def _methods(self, path: str) -> tuple[str, ...]:
        """Return the methods that ``path`` has; none for an unknown path."""
        return tuple(sorted(method for method, known in self._targets if known == path))
