"""Checks each request of the Client API by its head, then lets the handler of its route answer.

Answers to reads are kept for as long as their view is the current one. Who called what is told at
the level debug, for development: names of users and secrets are the manifest's, which is public; no
value is told.
"""

from asyncio import Future
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any, Final, Self

import msgspec

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import log
from keyhouse.base.printable import beginning
from keyhouse.coordinator import OPEN_WHILE_HELD, Operation, Running, View, policy_of
from keyhouse.server.client_api.routes import Caller, Grammars, Route, UseCases, Write
from keyhouse.server.http.exchange import Admission, Answer, Conclude, Head, Later, Refusal
from keyhouse.server.http.query import values
from keyhouse.server.services.feature_gates import identify_marble, require_enabled

ROOM: Final = 12 * 1024 * 1024
"""Bytes of the answers that are kept at a time, and as much again of those kept before them.

Enough for ten thousand secrets that one user reads one by one. Memory is taken as it is used.
"""

LARGEST: Final = 16 * 1024
"""Bytes of the largest body that is kept, and of the longest target and certificate together."""

_OVERHEAD: Final = 512
"""Bytes that an answer takes beside its body, its target and its certificate."""


class ViewAnswers:
    """What was answered to exactly this request, by exactly this caller, from exactly this view.

    A view never changes, so the same question has the same answer until the next change publishes
    another view. From then on no kept answer is given: a lost permission counts at once. Refusals
    are not kept: anonymous clients cannot fill this.

    Two generations: when the room of the young one is used up it becomes the old one, and what was
    old and not asked for again meanwhile is forgotten. So nothing is looked through to make room.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._view: View | None = None
        self._young: dict[Head, Answer] = {}
        self._old: dict[Head, Answer] = {}
        self._used = 0  # by the young generation

    def get(self, view: View, head: Head) -> Answer | None:
        """Return the answer that ``view`` gave to an equal ``head``, if it is still kept."""
        if view is not self._view:
            return None
        answer = self._young.get(head)
        if answer is None and self._old:
            answer = self._old.pop(head, None)
            if answer is not None:
                self._put(head, answer)
        return answer

    def keep(self, view: View, head: Head, answer: Answer | Admission) -> None:
        """Keep a complete answer that is not too large."""
        if isinstance(answer, Admission) or len(answer.body) > LARGEST:
            return
        if _asked(head) > LARGEST:
            return
        if view is not self._view:
            self._view, self._young, self._old, self._used = view, {}, {}, 0
        self._put(head, answer)

    def _put(self, head: Head, answer: Answer) -> None:
        self._used += _asked(head) + len(answer.body) + _OVERHEAD
        if self._used > self._room:
            self._old, self._young = self._young, {}
            self._used = _asked(head) + len(answer.body) + _OVERHEAD
        self._young[head] = answer


def _asked(head: Head) -> int:
    return len(head.path) + len(head.query) + len(head.identity or b"")


_NOBODY: Final = "nobody"


class CallLog:
    """Used on the event loop's thread. What ``view`` has in its update log already is not told."""

    def __init__(self, view: View) -> None:
        self._told = len(view.log)

    @classmethod
    def if_wanted(cls, view: View) -> Self | None:
        """Return a log; None at a higher level: calls are not slowed down by what is not told."""
        return cls(view) if log.tells("debug") else None

    def answered(self, view: View, head: Head, route: Route) -> None:
        """Tell which secrets were read, and what has changed."""
        if route.operation is Operation.READ_SECRETS:
            names = [beginning(name) for name in values(head.query, "s")]
            log.debug("secrets were read", user=_caller(view, head), secrets=names)
        for line in view.log.lines(self._told):
            log.debug("the update log has a new entry", entry=msgspec.json.decode(line))
        self._told = len(view.log)

    def refused(self, view: View, head: Head, problem: KeyhouseError) -> None:
        """Tell why a call was refused."""
        call = f"{head.method} {beginning(head.path)}"
        log.debug("a call was refused", call=call, user=_caller(view, head), reason=problem.message)


def _caller(view: View, head: Head) -> str:
    """Return the name of the user who calls."""
    state = view.state
    if not isinstance(state, Running) or head.identity is None:
        return _NOBODY
    return policy_of(state.manifest).permissions.find_user(head.identity) or _NOBODY


class Dispatcher:
    """Implements ``Application`` over the engine's current view."""

    def __init__(self, routes: Iterable[Route], use_cases: UseCases) -> None:
        self._use_cases: Final = use_cases
        self._engine: Final = use_cases.engine
        self._lease: Final = use_cases.engine.lease
        self._answers: Final = use_cases.answers
        self._routes: Final = {(route.method, route.path): route for route in routes}
        self._grammars: Final = Grammars(self._routes.values())
        self._known = ViewAnswers()
        self._log: Final = CallLog.if_wanted(use_cases.engine.view)

    def admit(self, head: Head) -> Answer | Admission:
        """Check a request by its head; reads are answered at once, from one view."""
        view = self._engine.view
        known = self._known.get(view, head)
        if known is not None and (not self._lease.is_enforced or self._may_give(head)):
            if self._log is not None:
                self._log.answered(view, head, self._known_route(head))
            return known
        path = self._grammars.path_of(head.path)
        route = self._routes.get((head.method, path))
        if route is None:
            return self._answers.not_found(head, self._methods(path))
        try:
            self._require_allowed(route, view, head.identity)
            if self._is_bound(route):
                self._lease.require()
            if route.read is not None:
                self._count(route)
                answer = route.read(self._use_cases, view, head)
                self._known.keep(view, head, answer)
                if self._log is not None:
                    self._log.answered(view, head, route)
                return answer
        except KeyhouseError as problem:
            return self._refused(problem, head)
        write = route.write
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
        if self._known_route(head).operation in OPEN_WHILE_HELD or self._lease.held:
            return False
        self._lease.charge()
        return True

    def _known_route(self, head: Head) -> Route:
        return self._routes[head.method, self._grammars.path_of(head.path)]

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
            self._lease.charge()

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
            outcome = write(self._use_cases, head, body)
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
        return tuple(sorted(method for method, known in self._routes if known == path))
