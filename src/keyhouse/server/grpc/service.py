"""What all gRPC connections of a listener share: its methods, its limits, and what is in flight."""

from collections.abc import Mapping

from keyhouse.server.grpc.call import Method
from keyhouse.server.grpc.counts import GrpcCounts
from keyhouse.server.net.connections import Connections
from keyhouse.server.net.fair_share import Pool
from keyhouse.server.net.limits import WorkloadLimits


class GrpcService(Connections):
    """The methods by path, such as ``/rpc.Marble/Activate``, and what their callers use.

    ``headers`` begin every answer, those that are given among them. ``streams`` are open, ``calls``
    run or wait for their client to take the answer, ``memory`` has the bytes of requests,
    ``answers`` those of answers that their clients have not taken. Used on
    the event loop's thread only.
    """

    def __init__(
        self,
        methods: Mapping[str, Method],
        limits: WorkloadLimits,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(limits)
        self.methods = dict(methods)
        self.limits = limits
        self.headers = ((":status", "200"), ("content-type", "application/grpc"), *headers)
        self.counts = GrpcCounts(methods)
        self.streams = Pool(limits.all_streams)
        self.calls = Pool(limits.calls)
        self.memory = Pool(limits.message_memory)
        self.answers = Pool(limits.answer_memory)
