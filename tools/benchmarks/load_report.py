"""The report of a load program at the end of a run.

The Python load program starts often, so this module imports little.
"""

import msgspec

__all__ = ["Latency", "LoadReport", "ServerCpu"]


class Latency(msgspec.Struct, frozen=True):
    """Latencies in microseconds."""

    p50: float
    p90: float
    p99: float
    max: float


class ServerCpu(msgspec.Struct, frozen=True):
    """Processor time of all threads of the server: share of one processor, and per request.

    ``resolution_us_per_request`` is the possible error of ``us_per_request``, because the kernel
    counts in ticks.
    """

    share: float
    us_per_request: float
    resolution_us_per_request: float


class LoadReport(msgspec.Struct, frozen=True):
    """The JSON object that a load program prints."""

    requests: int
    errors: int
    statuses: dict[str, int]
    failures: dict[str, int]
    seconds: float
    requests_per_second: float
    latency_us: Latency
    load_cpu_share: float
    server_cpu: ServerCpu | None
