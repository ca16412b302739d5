"""The memory that requests of one connection take: some is its own, the rest all have together."""

from keyhouse.api.grpc_call import CallRefused
from keyhouse.api.grpc_service import GrpcService
from keyhouse.api.grpc_status import Status

__all__ = ["RequestMemory"]


class RequestMemory:
    """Counts the bytes of requests of one connection of ``service``."""

    def __init__(self, service: GrpcService) -> None:
        self._service = service
        self._held = 0

    def hold(self, count: int) -> None:
        """Take memory for ``count`` bytes, or raise ``CallRefused`` and take none."""
        limits, held = self._service.limits, self._held + count
        if held > limits.connection_bytes:
            raise CallRefused(
                Status.RESOURCE_EXHAUSTED,
                f"this connection has more than {limits.connection_bytes} bytes of requests"
                " in flight (send fewer at a time)",
            )
        if not self._service.reserve(self._shared(held) - self._shared(self._held)):
            raise CallRefused(
                Status.UNAVAILABLE, "too many requests are being sent (try again later)"
            )
        self._held = held

    def release(self, count: int) -> None:
        """Give ``count`` bytes back."""
        held = self._held - count
        self._service.bytes_held -= self._shared(self._held) - self._shared(held)
        self._held = held

    def _shared(self, held: int) -> int:
        return max(0, held - self._service.limits.free_bytes)
