"""The messages of the channel for running workloads: ``keyhouse.workload.v1`` over gRPC.

The protobuf module is imported at the first call, because a start needs none of it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from keyhouse.base.errors import InvalidError, KeyhouseError, Problem
from keyhouse.coordinator import Engine
from keyhouse.coordinator.activation import Pieces
from keyhouse.manifest import OnEnd
from keyhouse.server.grpc.call import Lasting
from keyhouse.server.services.digests import Digests
from keyhouse.server.services.renewals import (
    NONCE_SECONDS,
    POLL_SECONDS,
    RenewalRequest,
    Renewals,
    Served,
    Session,
)
from keyhouse.server.services.watches import Notice, Watches
from keyhouse.wire.headers import Place

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from keyhouse.coordinator import ReadGate
    from keyhouse.server.grpc.call import CallClient, Method
    from keyhouse.wire import workload_pb2

    Request = (
        workload_pb2.ChallengeRequest
        | workload_pb2.RenewRequest
        | workload_pb2.FetchRequest
        | workload_pb2.WatchRequest
    )

SERVICE: Final = "/keyhouse.workload.v1.Workload/"
WATCH: Final = SERVICE + "Watch"

_CHAIN: Final = 8  # bytes of a chain value in a place
_SESSION: Final = "session"
_FORMS: Final = {"pem": "PEM", "raw": "RAW", "string": "RAW", "hex": "HEX", "base64": "BASE64"}

M = TypeVar("M", bound="Message")


class Channel:
    """The methods of the channel for running workloads, over the state of ``engine``.

    ``renewals`` decides about the calls. ``gate`` confirms for lasting streams that a view is the
    newest state; None: the store is not shared.
    """

    def __init__(self, engine: Engine, renewals: Renewals, gate: "ReadGate | None") -> None:
        self._engine = engine
        self._renewals = renewals
        self.renewed: Final = renewals.renewed
        self.refused: Final[Counter[tuple[str, str]]] = Counter()  # by method and error code
        self.watches: Final = Watches(engine, renewals.digests, gate, self._encoded)

    def methods(self) -> "dict[str, Method]":
        """Return the handlers of the channel's methods, by the path of the method."""
        handlers: dict[str, Callable[[bytes, CallClient], Awaitable[Message | Lasting]]] = {
            "Challenge": self._challenge,
            "Renew": self._renew,
            "Fetch": self._fetch,
            "Watch": self._watch,
        }
        return {SERVICE + name: self._method(name, handler) for name, handler in handlers.items()}

    def _method(
        self, name: str, handler: "Callable[[bytes, CallClient], Awaitable[Message | Lasting]]"
    ) -> "Method":
        async def call(message: bytes, caller: "CallClient") -> bytes | Lasting:
            try:
                answer = await handler(message, caller)
            except KeyhouseError as refused:
                self.refused[name, refused.code] += 1
                raise
            return answer if isinstance(answer, Lasting) else answer.SerializeToString()

        return call

    async def _challenge(self, message: bytes, caller: "CallClient") -> "Message":
        from keyhouse.wire import workload_pb2 as wire

        seen = _seen(_decoded(wire.ChallengeRequest, message))
        nonce = await self._renewals.challenge(caller.identity, _session(caller), seen)
        return wire.ChallengeResponse(
            nonce=nonce,
            seconds=NONCE_SECONDS,
            intermediate=self._engine.view.running.keys.intermediate_cert,
            at=self._place(),
        )

    async def _renew(self, message: bytes, caller: "CallClient") -> "Message":
        from keyhouse.wire import workload_pb2 as wire

        asked = _decoded(wire.RenewRequest, message)
        request = RenewalRequest(asked.nonce, asked.csr, asked.evidence)
        given = await self._renewals.renew(
            request, caller.identity, _session(caller), _seen(asked), caller.server_leaf
        )
        return wire.RenewResponse(
            chain=given.chain,
            now=given.now,
            renew_at=given.renew_at,
            end=given.end,
            at=self._place(),
            settle_seconds=given.settle_seconds,
            marble_roots=given.roots,
        )

    async def _fetch(self, message: bytes, caller: "CallClient") -> "Message":
        from keyhouse.wire import workload_pb2 as wire

        asked = _decoded(wire.FetchRequest, message)
        served = await self._renewals.serve(caller.identity, _seen(asked))
        version, have, present = _version(served.digests), asked.have, served.present
        answer = wire.FetchResponse(
            version=version, at=self._place(), rules=_rules(served), now=served.now
        )
        if version.files != have.files:
            _fill(answer.files, present.files)
        # The predefined variables change with the marble root, as the digest ``certificate`` does.
        if (version.env, version.certificate) != (have.env, have.certificate):
            _fill(answer.env, {**present.env, **present.predefined})
        if version.argv != have.argv:
            answer.argv.extend(present.argv)
        if version.trust != have.trust:
            answer.marble_roots.extend(served.roots)
        return answer

    async def _watch(self, message: bytes, caller: "CallClient") -> "Message | Lasting":
        from keyhouse.wire import workload_pb2 as wire

        asked = _decoded(wire.WatchRequest, message)
        watched = await self._renewals.watch(caller.identity, _seen(asked))
        first = self._message(watched.notice(asked.have.certificate))
        if asked.once:
            return first
        return Lasting(first.SerializeToString(), partial(self.watches.begin, watched))

    def _encoded(self, notice: Notice) -> bytes:
        return self._message(notice).SerializeToString()

    def _message(self, notice: Notice) -> "workload_pb2.WatchResponse":
        from keyhouse.wire import workload_pb2 as wire

        return wire.WatchResponse(
            version=_version(notice.digests),
            at=self._place(),
            advice=wire.Advice.Name(notice.advice.value),
            spread_ms=notice.spread_ms,
            now=notice.now,
            poll_seconds=POLL_SECONDS,
        )

    def _place(self) -> "workload_pb2.Place":
        from keyhouse.wire import workload_pb2 as wire

        position = self._engine.view.position
        if position is None:
            return wire.Place()
        chain = position.chain[:_CHAIN]
        return wire.Place(epoch=position.epoch, sequence=position.sequence, chain=chain)


def _version(digests: Digests) -> "workload_pb2.Version":
    from keyhouse.wire import workload_pb2 as wire

    return wire.Version(
        files=digests.files,
        env=digests.env,
        argv=digests.argv,
        certificate=digests.certificate,
        trust=digests.trust,
    )


def _fill(parts: "Mapping[str, workload_pb2.Content]", given: Mapping[str, Pieces]) -> None:
    from keyhouse.wire import workload_pb2 as wire

    for name, pieces in given.items():
        content = parts[name].piece  # the first access creates the entry
        for piece in pieces:
            if isinstance(piece, bytes):
                content.add(data=piece)
            else:
                form, member = _FORMS[piece.function], piece.member.upper()
                content.add(own=wire.Own(member=member, form=form))


def _rules(served: Served) -> "workload_pb2.Rules":
    from keyhouse.wire import workload_pb2 as wire

    on_change = served.renewal.on_change
    return wire.Rules(
        signal=on_change.signal,
        command=on_change.command,
        restart=on_change.restart,
        stop_at_end=served.renewal.on_end == OnEnd.STOP,
    )


def _session(caller: "CallClient") -> Session:
    """Return the session of the connection. Its first call creates the session."""
    session = caller.kept.setdefault(_SESSION, Session())
    assert isinstance(session, Session)  # noqa: S101 nothing else has this name
    return session


def _decoded(kind: type[M], message: bytes) -> M:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(message)
    # The text of this error may contain bytes of the request.
    except DecodeError:
        raise _malformed("", f"is not a {kind.__name__}") from None


def _seen(request: "Request") -> Place | None:
    if not request.HasField("seen"):
        return None
    place = request.seen
    if len(place.chain) != _CHAIN:
        raise _malformed("seen.chain", f"must have {_CHAIN} bytes")
    return Place(place.epoch, place.sequence, place.chain.hex())


def _malformed(at: str, problem: str) -> InvalidError:
    hint = "send the message of this method, as workload.proto defines it"
    return InvalidError("the request", [Problem(at, problem, hint)])
