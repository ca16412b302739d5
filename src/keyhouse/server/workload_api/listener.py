"""The workload API over gRPC, and its listener: ``rpc.Marble``, and the channel of workloads.

Source: ``docs/reference/workload-api.md``.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from keyhouse.base.errors import InvalidError, Problem
from keyhouse.coordinator import Engine
from keyhouse.coordinator.activation import ActivationParameters, ActivationRequest
from keyhouse.server.grpc.service import GrpcService
from keyhouse.server.net.acceptor import Acceptor
from keyhouse.server.net.limits import WorkloadLimits
from keyhouse.server.net.tls import TlsContext
from keyhouse.server.services.renewals import Renewals
from keyhouse.server.workload_api.channel import WATCH, Channel

if TYPE_CHECKING:
    from keyhouse.coordinator import ReadGate
    from keyhouse.server.grpc.call import CallClient, Method
    from keyhouse.server.grpc.connection import GrpcConnection

ACTIVATE: Final = "/rpc.Marble/Activate"

_MODULES: Final = ("keyhouse.server.grpc.connection", "keyhouse.wire.marble_pb2")
"""Imported on the first connection: HTTP/2 and protobuf are a tenth of all imports of a start."""

Activate = Callable[[ActivationRequest, bytes | None, bytes], Awaitable[ActivationParameters]]
"""Decides on the request of a workload.

Parameters: the DER of the workload's certificate, and the DER of the marble root in the handshake.
"""


class WorkloadListener(Acceptor):
    """Serves ``activate`` to every client with any TLS client certificate.

    The server certificate is the marble root of the engine's present state. ``gate`` confirms
    that this state is the newest, because workloads refuse parameters of a different root. None:
    the store is not shared. ``simulated``: the headers of every answer state the simulation.
    ``limits``: None means the defaults. ``renewals`` serves workloads that run; None: no channel
    for them.
    """

    def __init__(
        self,
        engine: Engine,
        activate: Activate,
        *,
        simulated: bool,
        limits: WorkloadLimits | None = None,
        gate: "ReadGate | None" = None,
        renewals: Renewals | None = None,
    ) -> None:
        limits = self.limits = limits or WorkloadLimits()
        headers = (("keyhouse-platform", "simulation"),) if simulated else ()
        channel = self.channel = None if renewals is None else Channel(engine, renewals, gate)
        living = {} if channel is None else channel.methods()
        service = GrpcService({ACTIVATE: _method(activate), **living}, limits, headers, {WATCH})
        self.service: Final = service
        super().__init__(
            service,
            limits,
            lambda generation: _connection(service, generation),
            _MarbleRoot(engine).context,
            _MODULES,
            None if gate is None else gate.passed,
        )

    async def stop(self, grace: float) -> None:
        """End the streams of running workloads, then stop as ``Acceptor.stop``.

        ``grace``: the seconds until open connections are aborted.
        """
        if self.channel is not None:
            self.channel.watches.close()
        await super().stop(grace)


class _MarbleRoot:
    """The TLS context with the marble root. A state with another root has another context.

    Each new connection calls ``context``. A change is published before its answer. So a connection
    after the answer receives the certificate of the new state.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._made: tuple[bytes, TlsContext] | None = None

    def context(self) -> TlsContext:
        """Return the present context. The creation of a context takes less than a millisecond."""
        keys = self._engine.view.state.keys
        made, root = self._made, keys.marble_root_cert
        if made is None or made[0] != root:
            context = TlsContext(keys.intermediate_key, [root], alpn=b"h2", required=True)
            made = self._made = root, context
        return made[1]


def _connection(service: GrpcService, generation: int) -> "GrpcConnection":
    from keyhouse.server.grpc.connection import GrpcConnection

    return GrpcConnection(service, generation)


def _method(activate: Activate) -> "Method":
    async def call(message: bytes, caller: "CallClient") -> bytes:
        return _encoded(await activate(_decoded(message), caller.identity, caller.server_leaf))

    return call


def _decoded(message: bytes) -> ActivationRequest:
    from google.protobuf.message import DecodeError

    from keyhouse.wire.marble_pb2 import ActivationReq

    try:
        request = ActivationReq.FromString(message)
    # The text of this error may contain bytes of the request.
    except DecodeError:
        hint = "send an ActivationReq as the interface defines it"
        raise InvalidError("the request", [Problem("", "is not an ActivationReq", hint)]) from None
    return ActivationRequest(
        quote=request.Quote, csr=request.CSR, marble_type=request.MarbleType, uuid=request.UUID
    )


def _encoded(parameters: ActivationParameters) -> bytes:
    from keyhouse.wire import marble_pb2

    return marble_pb2.ActivationResp(
        Parameters=marble_pb2.Parameters(
            Files=parameters.files, Env=parameters.env, Argv=parameters.argv
        )
    ).SerializeToString()
