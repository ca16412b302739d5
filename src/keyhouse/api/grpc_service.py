"""What all gRPC connections of a listener share: its methods, its limits, and what is in flight."""

from collections.abc import Mapping

from keyhouse.api.connections import Connections
from keyhouse.api.grpc_call import Method
from keyhouse.api.grpc_counts import GrpcCounts
from keyhouse.api.limits import WorkloadLimits

__all__ = ["GrpcService"]


class GrpcService(Connections):
    """The methods by path, such as ``/rpc.Marble/Activate``, and what their callers use.

    ``headers`` begin every answer, those that are given among them. ``streams`` are open, ``calls``
    run or wait for their client to take the answer, ``bytes_held`` are those of requests beyond
    what each connection may send. Used on the event loop's thread only.
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
        self.streams = 0
        self.calls = 0
        self.bytes_held = 0

    def reserve(self, count: int) -> bool:
        """Take ``count`` bytes of the memory for requests, or return False and take none."""
        if self.bytes_held + count > self.limits.message_memory:
            return False
        self.bytes_held += count
        return True
