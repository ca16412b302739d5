"""All figures of the main benchmark, as in the JSON file."""

import msgspec
from benchmarks.figures import Comparison, Series
from benchmarks.quotes import QuoteCost
from benchmarks.surroundings import Surroundings

__all__ = ["Disturbance", "Footprint", "Result"]


class Disturbance(msgspec.Struct, frozen=True):
    """Shares of all processor time under load: other programs, and time taken by a hypervisor."""

    others_share: float
    stolen_share: float


class Footprint(msgspec.Struct, frozen=True):
    """Times in milliseconds and resident memory in KiB; the dictionaries are by coordinator."""

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
    """The figures with time, machine and settings of the measurement.

    ``seconds`` is the length of a run. ``earlier_writes`` and ``earlier_activations`` are the
    numbers of changes before the measurement. ``joins`` compares activations of workloads.
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
