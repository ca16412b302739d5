"""Platforms, quotes and a PCCS for tests of collateral."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from keyhouse.attestation import Collateral, platform_kind, read_collateral, report_data
from keyhouse_simulation import Machine, QuoteParameters, SimulatedPlatform, make_machine
from keyhouse_simulation.pccs import PccsServer, ServedCollateral

__all__ = ["NOW", "RECORDED_AT", "Site", "platform_of", "recorded"]

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RECORDED_AT = datetime.fromtimestamp(1751328000, UTC)

_VECTORS = Path(__file__).parents[2] / "attestation" / "vectors"


def recorded(name: str) -> tuple[bytes, Collateral]:
    """Return a quote of a real machine, and Intel's collateral for it at ``RECORDED_AT``."""
    bundle = (_VECTORS / f"{name}_collateral.json").read_bytes()
    return (_VECTORS / name).read_bytes(), read_collateral(bundle)


def platform_of(
    machine: Machine, parameters: QuoteParameters | None = None, at: datetime = NOW
) -> SimulatedPlatform:
    """Return ``machine`` with collateral made at ``at``."""
    return SimulatedPlatform(machine, parameters, now=lambda: at)


class Site:
    """A simulated machine, a clock that a test sets, and a PCCS (not started).

    ``warned`` collects the warnings of a source.
    """

    def __init__(self, parameters: QuoteParameters | None = None) -> None:
        self.now = NOW
        self.machine = make_machine(NOW - timedelta(days=30))
        self.platform = platform_of(self.machine, parameters)
        self.quote = self.platform.quote(report_data(bytes(32)))
        self.root_ca = self.platform.root_ca
        self.collateral = self.platform.collateral
        self.kind = platform_kind(self.quote, self.root_ca)
        self.pccs = PccsServer([ServedCollateral(self.collateral)])
        self.warned: list[str] = []

    def clock(self) -> datetime:
        """Return the site's time."""
        return self.now

    def publish(self, at: datetime, parameters: QuoteParameters | None = None) -> Collateral:
        """Let the PCCS serve collateral made at ``at``; return this collateral."""
        collateral = platform_of(self.machine, parameters, at).collateral
        self.pccs.served = [ServedCollateral(collateral)]
        return collateral
