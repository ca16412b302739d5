"""What a load program prints at the end of a run. It starts often, so this imports little."""

import msgspec

__all__ = ["Latency", "LoadReport", "ServerCpu"]


class Latency(msgspec.Struct, frozen=True):
    """Latencies in microseconds."""

    p50: float
    p90: float
    p99: float
    max: float


class ServerCpu(msgspec.Struct, frozen=True):
    """Processor time of the server with all its threads: share of one processor, and per request.

    ``resolution_us_per_request`` is what the latter may be wrong by: the kernel counts in ticks.
    """

    share: float
    us_per_request: float
    resolution_us_per_request: float


class LoadReport(msgspec.Struct, frozen=True):
    """What a load program prints."""

    requests: int
    errors: int
    statuses: dict[str, int]
    failures: dict[str, int]
    seconds: float
    requests_per_second: float
    latency_us: Latency
    load_cpu_share: float
    server_cpu: ServerCpu | None
