"""Processor time to verify a quote, on one core, with cached collateral.

The quotes come from real machines. The verification uses the time of the recording. Run from the
root of the repository::

    PYTHONPATH=tools .venv/bin/python -m benchmarks.quotes

``scripts/bench`` also runs this measurement. No time is an error.
"""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from keyhouse.attestation import INTEL_SGX_ROOT, Collateral, Verifier, read_collateral
from keyhouse.attestation.collateral.signatures import issued_pck_chain

__all__ = ["WANTED", "QuoteCost", "measure", "report"]

WANTED: Final = 1500.0
"""Target: at most so many microseconds for a quote."""

_VECTORS: Final = Path(__file__).parents[2] / "tests" / "attestation" / "vectors"
_RECORDED: Final = datetime.fromtimestamp(1751328000, UTC)
_QUOTES: Final = ("sgx_quote", "tdx_quote")
_AT_ONCE: Final = 20  # verifications in a reading, because the processor clock is coarse


class QuoteCost(msgspec.Struct, frozen=True):
    """Microseconds of processor time for a verification, one value for each reading."""

    quote: str
    known_us: list[float]  # the certificates of the machine are in the cache
    first_us: list[float]  # the certificates of the machine are not in the cache


def measure(rounds: int) -> list[QuoteCost]:
    """Verify each recorded quote, with parsed and checked collateral."""
    return [_cost(name, rounds) for name in _QUOTES]


def report(costs: list[QuoteCost]) -> str:
    """Return a line for each figure, with the target."""
    return "\n".join(
        f"verify {cost.quote}, {of}: {median(readings):,.0f} µs of one core"
        f" ({'met' if median(readings) <= WANTED else 'missed'}: at most {WANTED:,.0f} µs)"
        for cost in costs
        for of, readings in (
            ("machine known", cost.known_us),
            ("first quote of a machine", cost.first_us),
        )
    )


def _cost(name: str, rounds: int) -> QuoteCost:
    quote, collateral = _recorded(name)
    verifier = Verifier(INTEL_SGX_ROOT)

    def known() -> None:
        verifier.verify(quote, collateral, _RECORDED)

    def first() -> None:
        issued_pck_chain.cache_clear()
        verifier.verify(quote, collateral, _RECORDED)

    known()
    return QuoteCost(name, _readings(known, rounds), _readings(first, rounds))


def _readings(work: Callable[[], None], rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        before = time.process_time()
        for _ in range(_AT_ONCE):
            work()
        found.append(round((time.process_time() - before) / _AT_ONCE * 1e6, 1))
    return found


def _recorded(name: str) -> tuple[bytes, Collateral]:
    bundle = (_VECTORS / f"{name}_collateral.json").read_bytes()
    return (_VECTORS / name).read_bytes(), read_collateral(bundle)


if __name__ == "__main__":
    sys.stdout.write(report(measure(20)) + "\n")
