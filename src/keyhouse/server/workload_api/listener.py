"""The workload API: ``rpc.Marble`` over gRPC, and its listener.

Source: wire reference of the interface, "Workload API" and "Workload API listener".
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from keyhouse.authority import CoordinatorKeys
from keyhouse.base.errors import InvalidError, Problem
from keyhouse.coordinator import Engine, ReadGate
from keyhouse.coordinator.activation import ActivationRequest, Parameters
from keyhouse.server.grpc.service import GrpcCounts, GrpcService
from keyhouse.server.net.acceptor import Acceptor
from keyhouse.server.net.limits import WorkloadLimits
from keyhouse.server.net.tls import TlsContext

if TYPE_CHECKING:
    from keyhouse.server.grpc.call import Caller, Method
    from keyhouse.server.grpc.connection import GrpcConnection

ACTIVATE: Final = "/rpc.Marble/Activate"

_MODULES: Final = ("keyhouse.server.grpc.connection", "keyhouse.wire.marble_pb2")
"""HTTP/2 and protobuf, a tenth of all that a start would import."""

Activate = Callable[[ActivationRequest, bytes | None, bytes], Awaitable[Parameters]]
"""Decides on the request of a workload.

Takes the DER of the certificate that the workload presented, and of the marble root it was shown.
"""


class WorkloadListener(Acceptor):
    """Serves ``activate`` to anyone who has a TLS client certificate, any one.

    It presents the marble root of the engine's present state, which ``gate`` confirms where there
    are other writers: workloads refuse parameters of another one. ``simulated`` shows itself in the
    headers of every answer.
    """

    def __init__(
        self,
        engine: Engine,
        activate: Activate,
        *,
        simulated: bool,
        limits: WorkloadLimits | None = None,
        gate: ReadGate | None = None,
    ) -> None:
        limits = self.limits = limits or WorkloadLimits()
        headers = (("keyhouse-platform", "simulation"),) if simulated else ()
        service = GrpcService({ACTIVATE: _method(activate)}, limits, headers)
        self._service: Final = service
        super().__init__(
            service,
            limits,
            lambda generation: _connection(service, generation),
            _MarbleRoot(engine).context,
            _MODULES,
            None if gate is None else gate.passed,
        )

    @property
    def counts(self) -> GrpcCounts:
        """What was called and answered."""
        return self._service.counts

    @property
    def calls_in_flight(self) -> int:
        """How many calls run, or wait for their client to take the answer."""
        return self._service.calls.held


class _MarbleRoot:
    """The TLS context of the marble root, made again for a state with another one.

    Asked for each connection: who connects after a change was published, and so before it was
    answered, gets the certificate of that state, whatever the change was.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._made: tuple[CoordinatorKeys, TlsContext] | None = None

    def context(self) -> TlsContext:
        """Return the context of now. Making one takes less than a millisecond."""
        keys = self._engine.view.state.keys
        made = self._made
        if made is not None and (made[0] is keys or _same_marble_root(made[0], keys)):
            return made[1]
        chain = [keys.marble_root_cert]
        context = TlsContext(keys.intermediate_key, chain, alpn=b"h2", required=True)
        self._made = (keys, context)
        return context


def _connection(service: GrpcService, generation: int) -> "GrpcConnection":
    from keyhouse.server.grpc.connection import GrpcConnection

    return GrpcConnection(service, generation)


def _same_marble_root(one: CoordinatorKeys, other: CoordinatorKeys) -> bool:
    return one.marble_root_cert == other.marble_root_cert


def _method(activate: Activate) -> "Method":
    async def call(message: bytes, caller: "Caller") -> bytes:
        return _encoded(await activate(_decoded(message), caller.identity, caller.shown))

    return call


def _decoded(message: bytes) -> ActivationRequest:
    from google.protobuf.message import DecodeError

    from keyhouse.wire.marble_pb2 import ActivationReq

    try:
        request = ActivationReq.FromString(message)
    except DecodeError:  # its text may show what was sent
        hint = "send an ActivationReq as the interface defines it"
        raise InvalidError("the request", [Problem("", "is no ActivationReq", hint)]) from None
    return ActivationRequest(
        quote=request.Quote, csr=request.CSR, marble_type=request.MarbleType, uuid=request.UUID
    )


def _encoded(parameters: Parameters) -> bytes:
    from keyhouse.wire import marble_pb2

    return marble_pb2.ActivationResp(
        Parameters=marble_pb2.Parameters(
            Files=parameters.files, Env=parameters.env, Argv=parameters.argv
        )
    ).SerializeToString()
