"""Checks each request of the Client API by its head, then calls the handler of its route.

Answers to reads stay in memory while their view is current. At the level debug, the process logs
the caller and the call. Names of users and secrets are public, because the manifest is public. The
logged entries contain no value of a secret.
"""

import re
from collections.abc import Iterable
from typing import Final, Self

import msgspec

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import log
from keyhouse.base.log_texts import CALL_REFUSED, LOG_EXTENDED, SECRETS_READ
from keyhouse.base.printable import beginning
from keyhouse.coordinator import OPEN_WHILE_HELD, Operation, Running, View, policy_of, require
from keyhouse.server.client_api.routes import Caller, Route, UseCases, Write
from keyhouse.server.http.exchange import Admission, Answer, Head, ProtocolRefusal
from keyhouse.server.http.query import values
from keyhouse.server.services.feature_gates import identify_marble, require_gate

ROOM: Final = 12 * 1024 * 1024
"""Bytes of the young generation of stored answers. The old generation has the same size.

This suffices for ten thousand secrets that a user reads one by one. Memory is allocated on use.
"""

LARGEST: Final = 16 * 1024
"""Largest body of a stored answer, and largest sum of target and certificate, in bytes."""

_OVERHEAD: Final = 512
"""Estimated bytes of an answer besides body, target and certificate."""


_WITH_GRAMMAR: Final = "/api/v2/log/"


class ViewAnswers:
    """Stored answers of one view, by the head of the request.

    The head includes the caller. A view never changes, so an equal head has an equal answer until a
    change publishes another view. After that, no stored answer is used, so a lost permission has
    effect at once. Refusals are not stored, so anonymous clients cannot fill the memory.

    There are two generations. When the young generation is full, it becomes the old generation, and
    the former old generation is dropped. An answer of the old generation moves to the young
    generation on use. So no search is needed to make room. ``room``: the most bytes of a
    generation.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._view: View | None = None
        self._young: dict[Head, Answer] = {}
        self._old: dict[Head, Answer] = {}
        # Bytes of the young generation.
        self._used = 0

    def get(self, view: View, head: Head) -> Answer | None:
        """Return the stored answer from ``view`` for an equal ``head``, or None."""
        if view is not self._view:
            return None
        answer = self._young.get(head)
        if answer is None and self._old:
            answer = self._old.pop(head, None)
            if answer is not None:
                self._put(head, answer)
        return answer

    def store(self, view: View, head: Head, answer: Answer | Admission) -> None:
        """Store ``answer``, the answer from ``view`` for ``head``.

        Store nothing if answer or head exceeds ``LARGEST``. An ``Admission`` is not stored, because
        it has no answer yet.
        """
        if isinstance(answer, Admission) or len(answer.body) > LARGEST:
            return
        if _size_of(head) > LARGEST:
            return
        if view is not self._view:
            self._view, self._young, self._old, self._used = view, {}, {}, 0
        self._put(head, answer)

    def _put(self, head: Head, answer: Answer) -> None:
        self._used += _size_of(head) + len(answer.body) + _OVERHEAD
        if self._used > self._room:
            self._old, self._young = self._young, {}
            self._used = _size_of(head) + len(answer.body) + _OVERHEAD
        self._young[head] = answer


def _size_of(head: Head) -> int:
    return len(head.path) + len(head.query) + len(head.identity or b"")


_NOBODY: Final = "nobody"


class CallLog:
    """Logs calls at the level debug. Use on the event loop's thread only.

    ``view``: the first view; the lines of its update log are not logged.
    """

    def __init__(self, view: View) -> None:
        self._logged = len(view.log)

    @classmethod
    def if_wanted(cls, view: View) -> Self | None:
        """Return a log of calls at the level debug; otherwise None, so that calls cost no time."""
        return cls(view) if log.accepts("debug") else None

    def answered(self, view: View, head: Head, route: Route) -> None:
        """Log the secrets that a call has read, and new lines of the update log."""
        if route.operation is Operation.READ_SECRETS:
            names = [beginning(name) for name in values(head.query, "s")]
            log.debug(SECRETS_READ, user=_caller(view, head), secrets=names)
        for line in view.log.lines(self._logged):
            log.debug(LOG_EXTENDED, entry=msgspec.json.decode(line))
        self._logged = len(view.log)

    def refused(self, view: View, head: Head, problem: KeyhouseError) -> None:
        """Log a refused request with its caller and the reason, ``problem``."""
        call = f"{head.method} {beginning(head.path)}"
        log.debug(CALL_REFUSED, call=call, user=_caller(view, head), reason=problem.message)


def _caller(view: View, head: Head) -> str:
    """Return the name of the calling user, or "nobody" if the manifest names no such user."""
    state = view.state
    if not isinstance(state, Running) or head.identity is None:
        return _NOBODY
    return policy_of(state.manifest).permissions.find_user(head.identity) or _NOBODY


class Grammars:
    """The routes among ``routes`` whose paths end with a placeholder, such as a tile of a log."""

    def __init__(self, routes: Iterable[Route]) -> None:
        # Patterns, compiled at their first use.
        self._known = [
            (re.escape(route.path.partition("{")[0]) + route.grammar, route)
            for route in routes
            if route.grammar
        ]

    def path_of(self, path: str) -> str:
        """Return the path of the route that matches ``path``, with the placeholder in braces.

        Without such a route, return ``path``. The result is a key of the table of routes.
        """
        if path.startswith(_WITH_GRAMMAR):
            for grammar, route in self._known:
                if re.fullmatch(grammar, path, re.ASCII):
                    return route.path
        return path


class Dispatcher:
    """The HTTP application of the Client API, over the current view of the engine.

    ``routes``: the routes of all versions.
    """

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
        """Check a request by its head. Reads are answered at once, from a single view."""
        view = self._engine.view
        known = self._known.get(view, head)
        if known is not None and (not self._lease.is_enforced or self._may_send_stored(head)):
            if self._log is not None:
                self._log.answered(view, head, self._known_route(head))
            return known
        route = self._route(head)
        if route is None:
            return self._answers.not_found(head, self._methods(head))
        try:
            self._require_allowed(route, view, head.identity)
            if self._is_bound(route):
                self._lease.require()
            if route.read is not None:
                self._count(route)
                answer = route.read(self._use_cases, view, head)
                self._known.store(view, head, answer)
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

    def refuse(self, refusal: ProtocolRefusal) -> Answer:
        """Return the answer to a request that the HTTP server refuses."""
        return self._answers.refused_by_protocol(refusal)

    def forget_answers(self) -> None:
        """Drop all stored answers, because certificates expire with time."""
        self._known = ViewAnswers()

    def _may_send_stored(self, head: Head) -> bool:
        """Return whether a stored answer to ``head`` may be sent, and charge the lease for its use.

        The method is called only if the manifest requires witnesses. Operations that stay open
        without a lease get a new answer each time, because the status also depends on the lease.
        Without a valid lease, a coordinator sends no stored answer. Then ``admit`` continues, and
        refuses the request.
        """
        if self._known_route(head).operation in OPEN_WHILE_HELD or self._lease.held:
            return False
        self._lease.charge()
        return True

    def _known_route(self, head: Head) -> Route:
        route = self._route(head)
        assert route is not None  # noqa: S101 a stored answer came from a route
        return route

    def _route(self, head: Head) -> Route | None:
        route = self._routes.get((head.method, head.path))
        return route or self._routes.get((head.method, self._grammars.path_of(head.path)))

    def _is_bound(self, route: Route) -> bool:
        """Return whether ``route`` needs a lease from witnesses, and is refused without a lease."""
        return self._lease.is_enforced and route.operation not in OPEN_WHILE_HELD

    def _count(self, route: Route) -> None:
        """Charge the lease for an operation of ``route``, if the route needs a lease.

        If anybody may call the route, only require a valid lease. Otherwise anonymous clients could
        use up all operations of the lease. Raises ``HeldError`` without a valid lease.
        """
        if not self._is_bound(route):
            return
        if route.caller is Caller.ANYBODY:
            self._lease.require()
        else:
            self._lease.charge()

    def _require_allowed(self, route: Route, view: View, identity: bytes | None) -> None:
        """Refuse a request that phase, feature gate or certificate do not permit.

        ``identity``: the DER of the client's certificate, or None.
        """
        require(route.operation, view.phase)
        state = view.state
        if not isinstance(state, Running):
            return
        if route.gate is not None:
            require_gate(state, route.operation, route.gate)
        if route.caller is Caller.USER:
            policy_of(state.manifest).identify(identity)
        elif route.caller is Caller.MARBLE:
            identify_marble(state, identity, now=self._engine.current.now())

    async def _write(self, route: Route, write: Write, head: Head, body: bytes) -> Answer:
        try:
            # The lease may have expired while the body arrived.
            self._count(route)
            answer = await write(self._use_cases, head, body)
        except KeyhouseError as problem:
            return self._refused(problem, head)
        if self._log is not None:
            self._log.answered(self._engine.view, head, route)
        return answer

    def _refused(self, problem: KeyhouseError, head: Head) -> Answer:
        if self._log is not None:
            self._log.refused(self._engine.view, head, problem)
        return self._answers.refused(problem, head)

    def _methods(self, head: Head) -> tuple[str, ...]:
        """Return the methods of the path of ``head``, or none for an unknown path."""
        path = self._grammars.path_of(head.path)
        return tuple(sorted(method for method, known in self._routes if known == path))
