"""Send a call of an operation, in version 2 or 1, and check its answer against the memory."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from keyhouse.client.calls import ApiCall
from keyhouse.client.effects import HttpAnswer, Steps, work
from keyhouse.client.errors import CallRefusedError, TrustError
from keyhouse.client.http.retries import Rules, exchange
from keyhouse.client.identity import UserIdentity
from keyhouse.client.memory.states import AHEAD, Memories, Watch
from keyhouse.client.tokens.identity import TokenIdentity
from keyhouse.client.trust import TrustedCoordinator, prove_log

T = TypeVar("T")

_UNAUTHENTICATED: Final = 401  # HTTP status, RFC 9110
_UNWITNESSED: Final = re.compile(
    r"GET /api/v2/(?:status|quote|line|manifest|openapi\.json|update(?:-manifest)?"
    r"|recover/public-key|log/.*)|POST /api/v2/(?:manifest|recover)"
)
"""Calls that are permitted to a coordinator without a log at its verification.

None of them returns or requests secrets.
"""

Keep = Callable[[Mapping[str, bytes]], None]
"""Stores encrypted recovery shares, by key name, in a safe place."""


class OperationSession:
    """The connection, the verified root and the memory that all operations of a session use."""

    def __init__(
        self,
        trusted: TrustedCoordinator,
        rules: Rules,
        user: UserIdentity | TokenIdentity | None = None,
    ) -> None:
        self.trusted = trusted
        self.rules = rules
        self.user = user  # None: no certificate is presented
        self.watch = Watch(trusted.memory, trusted.address, trusted.root_der)
        self.log_head = ""  # in the newest answer
        self.has_manifest = False  # whether the newest answer shows a manifest in force


def carry(session: OperationSession, call: ApiCall[T]) -> Steps[T]:
    """Send ``call`` and return its result, if the answer continues the remembered states."""
    known = yield from _begin(session, call)
    answer, read = yield from _in_either_version(session, call, known)
    yield from _check(session, known, answer)
    return _read(session, read, answer)


def carry_and_keep(
    session: OperationSession,
    call: ApiCall[T],
    keep: Keep | None,
    shares: Callable[[T], Mapping[str, bytes]],
) -> Steps[T]:
    """Send ``call``, pass the recovery shares in its result to ``keep``, and return the result.

    ``shares`` selects the shares in the result. The coordinator sends them only once. So ``keep``
    stores them before the check of the remembered states: this check fails if the memory cannot be
    written. Without ``keep`` the shares are only in the result.
    """
    known = yield from _begin(session, call)
    answer, read = yield from _in_either_version(session, call, known)
    try:
        data = _read(session, read, answer)
        if keep is not None:
            kept = keep
            yield from work(lambda: kept(shares(data)))
        return data
    finally:
        yield from _check(session, known, answer)


def _in_either_version(
    session: OperationSession, call: ApiCall[T], known: Memories
) -> Steps[tuple[HttpAnswer, Callable[[HttpAnswer], T]]]:
    """Send ``call`` in version 2, or in version 1 to an older coordinator.

    Returns the answer, and the function that reads it. The request names the newest ``known``
    state. A replica that cannot see this state does not answer from an older state.
    """
    at_least = str(session.watch.newest(known) or "")
    request = msgspec.structs.replace(call.request, at_least=at_least)
    answer = yield from exchange(request, session.rules)
    if not answer.is_of_older or call.old is None:
        return answer, call.read
    request = msgspec.structs.replace(call.old.request, at_least=at_least)
    answer = yield from exchange(request, session.rules)
    return answer, call.old.read


def _read(session: OperationSession, read: Callable[[HttpAnswer], T], answer: HttpAnswer) -> T:
    """Return the result of ``read`` for ``answer``.

    If the coordinator refuses an anonymous call, the error names the missing certificate.
    """
    try:
        return read(answer)
    except CallRefusedError as refused:
        if refused.http_status != _UNAUTHENTICATED or session.user is not None:
            raise
        # The coordinator answers as if the client had presented the certificate of an unknown user.
        raise CallRefusedError(
            _UNAUTHENTICATED,
            "no certificate was presented",
            kind=refused.kind,
            hint="connect with the certificate and key of a user, or of the workload",
        ) from None


def _begin(session: OperationSession, call: ApiCall[T]) -> Steps[Memories]:
    """Return the remembered states before ``call``; without a memory, return empty memories.

    A coordinator may have had no manifest at its verification. Then the client could check neither
    its witnesses nor its first manifest. By now the coordinator may enforce anyone's manifest. So
    if the user's trust demands either check, most calls raise ``TrustError`` until the client
    connects again.
    """
    endpoint = f"{call.request.method} {call.request.path}"
    trusted = session.trusted
    if (trusted.is_unwitnessed or trusted.is_without_line) and not _UNWITNESSED.fullmatch(endpoint):
        missing = (
            "no witness has seen its log"
            if trusted.is_unwitnessed
            else "no first manifest was compared"
        )
        raise TrustError(
            f"the coordinator enforced no manifest at its verification, so {missing}",
            hint="connect again after a manifest is set: keyhouse status shows the state",
        )
    if session.trusted.memory is None:
        return Memories()
    return (yield from work(session.watch.begin))


def _check(session: OperationSession, known: Memories, answer: HttpAnswer) -> Steps[None]:
    if session.trusted.memory is not None:
        yield from _require_continued(session, known, answer)
    session.log_head = answer.log or ""
    session.has_manifest = answer.state is not None


def _require_continued(
    session: OperationSession, known: Memories, answer: HttpAnswer
) -> Steps[None]:
    def send(call: ApiCall[T]) -> Steps[T]:
        at_least = answer.state or ""
        request = msgspec.structs.replace(call.request, at_least=at_least)
        return call.read((yield from exchange(request, session.rules)))

    proof = yield from prove_log(send, session.watch, known, answer, ahead=AHEAD)
    yield from work(lambda: session.watch.check(known, answer, proof))
