"""A real TDX quote, its collateral and its content."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from keyhouse.attestation import INTEL_SGX_ROOT, Collateral, Verdict, Verifier, read_collateral
from keyhouse.attestation.kinds.dcap.td import TdMeasurements
from keyhouse.attestation.quote.report import Report

__all__ = ["QUOTE", "TDX", "VERIFIED_AT", "collateral", "td_of", "verdict"]

_VECTORS: Final = Path(__file__).parents[2] / "attestation" / "vectors"
QUOTE: Final = (_VECTORS / "tdx_quote").read_bytes()
VERIFIED_AT: Final = datetime.fromtimestamp(1751328000, UTC)


def collateral() -> Collateral:
    return read_collateral((_VECTORS / "tdx_quote_collateral.json").read_bytes())


@cache
def verdict() -> Verdict:
    return Verifier(INTEL_SGX_ROOT).verify(QUOTE, collateral(), VERIFIED_AT)


def td_of(report: Report) -> TdMeasurements:
    assert isinstance(report.measurements, TdMeasurements)
    return report.measurements


def _fields() -> dict[str, str]:
    td = td_of(verdict())
    assert td is not None
    found: dict[str, str] = msgspec.to_builtins(td.identity)
    return found


TDX: Final = _fields()
"""All fields of the machine in a manifest, by name."""
