"""Answers of the Client API: puts the result or the refusal of a use case into its envelope.

JSend is the envelope of every answer over HTTP: ``{"status": ..., "data": ..., "message": ...}``
and a newline, in this order. ``data`` is always present. An empty ``message`` is left out. Source:
``docs/reference/routes.md``, "Answers".
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from keyhouse.base.errors import (
    BadRequestError,
    InvalidError,
    KeyhouseError,
    UnsettledError,
    release_frames,
)
from keyhouse.coordinator import View
from keyhouse.server.http.exchange import Answer, Head, ProtocolRefusal
from keyhouse.server.net.error_mapping import wording
from keyhouse.wire.client_api import Problems

Headers = tuple[tuple[bytes, bytes], ...]

Details = Mapping[str, str] | Problems | None
"""Reasons by the name of the wrong field, or the findings of a check."""


class _Refused(msgspec.Struct, frozen=True):
    status: str
    data: Details
    message: str


_encode = msgspec.json.Encoder().encode


def enveloped(data: bytes, headers: Headers = (), message: str = "") -> Answer:
    """Return a success (200) with ``data``, which is JSON already, and ``message`` for people."""
    tail = b',"message":%b}\n' % _encode(message) if message else b"}\n"
    return Answer(200, b'{"status":"success","data":%b%b' % (data, tail), headers)


def fail(status: int, message: str, data: Details, headers: Headers) -> Answer:
    """Return a ``fail`` of JSend with the HTTP ``status``: the request itself is wrong.

    ``data`` maps each wrong field to a reason; ``message`` is for people.
    """
    return _worded(status, "fail", data, message, headers)


def error(status: int, message: str, headers: Headers = ()) -> Answer:
    """Return an ``error`` of JSend with the HTTP ``status``: the request itself is not wrong.

    ``message`` is for people.
    """
    return _worded(status, "error", None, message, headers)


def refusal(problem: KeyhouseError, headers: Headers = (), *, fails: bool = True) -> Answer:
    """Return the answer for ``problem``, with the additional ``headers``.

    ``fails``: the word ``fail`` is permitted. Version 1 always has ``error`` instead.
    """
    worded = wording(problem)
    status, word = worded.http, worded.word if fails else "error"
    data: Details = None
    if isinstance(problem, BadRequestError):
        data = problem.fields
    elif isinstance(problem, InvalidError):
        data = Problems(problem.problems)
    # A client that repeats the request automatically would repeat the change.
    if isinstance(problem, UnsettledError):
        headers = (*headers, (b"keyhouse-outcome", b"unknown"))
    elif status == 503:  # noqa: PLR2004 the one status that asks to come again
        headers = (*headers, (b"retry-after", b"1"))
    return _worded(status, word, data, str(problem), headers)


def _worded(status: int, word: str, data: Details, message: str, headers: Headers) -> Answer:
    return Answer(status, _encode(_Refused(word, data, message)) + b"\n", headers)


_VERSION_2: Final = "/api/v2/"
"""The start of paths of version 2. Only version 2 has answers with the word ``fail``."""

_NO_FAULT: Final = frozenset({501, 503})
"""Statuses of protocol refusals that are not the fault of the request: never a ``fail``."""

_ROUTES_HINT: Final = "compare method and path with docs/reference/routes.md"

SHARED: Final = 5
"""Public answers that clients share: manifests and update logs of both versions, pending update."""


class Answers:
    """Builds answers. ``present`` returns the current view. Use on the event loop's thread only.

    ``simulated``: the platform is a simulation, and each answer states this. ``replica``: the name
    of this coordinator among several, or "". ``standbys``: the least number of standbys of the
    database that store each change before the answer.
    """

    def __init__(
        self,
        present: Callable[[], View],
        *,
        simulated: bool,
        replica: str = "",
        standbys: int = 0,
    ) -> None:
        self.present: Final = present
        self.simulated: Final = simulated
        self.standbys: Final = standbys
        self._always: Final = _always(replica, simulated=simulated)
        self._shared: tuple[tuple[bytes, Answer], ...] = ()
        self._headers_of: View | None = None
        self._headers: tuple[tuple[bytes, bytes], ...] = ()

    def headers(self, view: View) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers of every answer from ``view``."""
        if view is not self._headers_of:
            state = ((b"keyhouse-state", view.revision.encode()),) if view.revision else ()
            head = view.log_head
            log = ((b"keyhouse-log", head.encode()),) if head else ()
            self._headers_of, self._headers = view, (*state, *log, *self._always)
        return self._headers

    def success(self, data: msgspec.Struct | str | None, view: View, message: str = "") -> Answer:
        """Return 200 with ``data``, a value of the interface.

        ``view``: the source of ``data``; the headers state its place. ``message``: a text for
        people, or "".
        """
        return enveloped(msgspec.json.encode(data), self.headers(view), message)

    def encoded(self, data: bytes, view: View) -> Answer:
        """Return 200 with ``data``, which is JSON already.

        ``view``: the source of ``data``; the headers state its place.
        """
        return enveloped(data, self.headers(view))

    def shared(self, data: bytes, view: View) -> Answer:
        """Return 200 with public ``data``, which is JSON already, as one object for all clients.

        Such data may be large, so many slow clients share the same bytes in memory. ``view``: as
        for ``encoded``.
        """
        headers = self.headers(view)
        for known, answer in self._shared:
            if known is data and answer.headers is headers:
                return answer
        answer = self.encoded(data, view)
        self._shared = ((data, answer), *self._shared[: SHARED - 1])
        return answer

    def refused(self, problem: KeyhouseError, head: Head) -> Answer:
        """Return the answer for ``problem``, in the version of the interface that ``head`` uses.

        This also releases the stack frames of ``problem`` (``release_frames``).
        """
        release_frames(problem)
        headers = self.headers(self.present())
        return refusal(problem, headers, fails=head.path.startswith(_VERSION_2))

    def refused_by_protocol(self, refusal: ProtocolRefusal) -> Answer:
        """Return the answer to a request that the HTTP server refuses."""
        hint = f" ({refusal.hint})" if refusal.hint else ""
        message = refusal.message + hint
        headers = self.headers(self.present())
        at_fault = refusal.part and refusal.status not in _NO_FAULT
        if at_fault and refusal.path.startswith(_VERSION_2):
            return fail(refusal.status, message, {refusal.part: refusal.message}, headers)
        return error(refusal.status, message, headers)

    def not_found(self, head: Head, allowed: tuple[str, ...]) -> Answer:
        """Return 405 for an unknown path, or for a known path without the method of ``head``.

        ``allowed``: the methods of the path; empty for an unknown path.

        Existing clients understand 405 as "this server lacks this version of the interface".
        """
        path = head.path[:200].encode("unicode_escape").decode("ascii")
        headers = self.headers(self.present())
        if allowed:
            headers = (*headers, (b"allow", ", ".join(allowed).encode()))
            use = " or ".join(allowed)
            return error(405, f"{path} has no method {head.method} (use {use})", headers)
        return error(405, f"there is nothing at {head.method} {path} ({_ROUTES_HINT})", headers)


def _always(replica: str, *, simulated: bool) -> tuple[tuple[bytes, bytes], ...]:
    platform = ((b"keyhouse-platform", b"simulation"),) if simulated else ()
    return (*platform, (b"keyhouse-replica", replica.encode())) if replica else platform
