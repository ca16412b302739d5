"""What `keyhouse serve` verifies other quotes with: the platform's root, collateral, its clock."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from keyhouse.api import QuoteChecks
from keyhouse.api.quote_checks import CollateralNow, no_collateral
from keyhouse.cli.collateral_file import CollateralFile
from keyhouse.cli.settings import Settings

if TYPE_CHECKING:
    from keyhouse.attestation import Platform
    from keyhouse.coordinator import Engine

__all__ = ["quote_checks"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def quote_checks(settings: Settings, platform: "Platform", engine: "Engine") -> QuoteChecks:
    """Return the checks under the running platform's own root, at the engine's security time.

    Raises ``Refused`` if the file of collateral cannot be used.
    """
    return QuoteChecks(
        platform.root_ca,
        _collateral(settings, platform),
        lambda: _EPOCH + timedelta(microseconds=engine.now()),
    )


def _collateral(settings: Settings, platform: "Platform") -> CollateralNow:
    path = settings.collateral
    if path is None and platform.kind == "simulation":
        path = settings.data_dir.absolute() / "simulation" / "collateral.json"
    return no_collateral if path is None else CollateralFile(path.absolute())
