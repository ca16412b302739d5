"""Everything that a benchmark gives, as it is written to a file and shown."""

import msgspec
from benchmarks.figures import Comparison, Series
from benchmarks.quotes import QuoteCost
from benchmarks.surroundings import Surroundings

__all__ = ["Disturbance", "Footprint", "Result"]


class Disturbance(msgspec.Struct, frozen=True):
    """Shares of all processor time under load: of others' work, and withheld by a hypervisor."""

    others_share: float
    stolen_share: float


class Footprint(msgspec.Struct, frozen=True):
    """Times in milliseconds and resident memory in KiB, by coordinator where it matters."""

    first_start_ms: list[float]
    start_ms: dict[str, list[float]]
    empty_kib: int
    loaded_kib: dict[str, int]
    worked_kib: dict[str, int]
    bulk_upload_ms: list[float]
    large_manifest_bytes: int
    large_manifest_ms: list[float]
    large_start_ms: list[float]
    large_update_ms: list[float]
    recovered_records: int
    recovery_ms: list[float]


class Result(msgspec.Struct, frozen=True):
    """What was measured, when, on what, and how.

    ``seconds`` is the length of one run; ``earlier_writes`` and ``earlier_activations`` are what
    coordinators had behind them. ``joins`` are those of workloads.
    """

    time: str
    surroundings: Surroundings
    load_program: str
    seconds: float
    rounds: int
    earlier_writes: int
    earlier_activations: int
    disturbance: Disturbance
    comparisons: list[Comparison]
    joins: list[Comparison]
    footprint: Footprint
    quotes: list[QuoteCost]
    series: list[Series]
