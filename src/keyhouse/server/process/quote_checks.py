"""What `keyhouse serve` verifies other quotes with: the platform's root, collateral, its clock."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from keyhouse.attestation.sources.chosen import (
    CollateralSettings,
    amd_checks,
    beside,
    collateral_source,
)
from keyhouse.server.process.settings import Settings
from keyhouse.server.services.collateral_memory import CollateralMemory
from keyhouse.server.services.quote_checks import QuoteChecks

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from keyhouse.attestation import Platform
    from keyhouse.coordinator import MakeQuote, StartQuote
    from keyhouse.server.services.line_quotes import LineQuotes


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _about(settings: Settings) -> CollateralSettings:
    names = CollateralSettings.__struct_fields__
    return CollateralSettings(*(getattr(settings, name) for name in names))


@asynccontextmanager
async def quote_checks(
    settings: Settings,
    platform: "Platform",
    memory: CollateralMemory,
    microseconds: Callable[[], int],
) -> AsyncIterator[QuoteChecks]:
    """Yield the checks under the running platform's own root, at the time ``microseconds``.

    That is the time of an engine, or of the host while none is open. Raises ``RefusedError`` if the
    file of collateral, or the PCCS or its CA, cannot be used.
    """
    amd = amd_checks(settings.amd_collateral, settings.data_dir, platform)

    def now() -> datetime:
        return _EPOCH + timedelta(microseconds=microseconds())

    async with collateral_source(_about(settings), platform, now, memory.known) as source:
        yield QuoteChecks(platform.root_ca, source, now, memory, amd=amd)


def start_quotes(settings: Settings, platform: "Platform") -> "MakeQuote":
    """Return what makes a quote by ``platform`` about a start of this process.

    Beside it is the collateral that is at hand without a network.
    """
    from keyhouse.coordinator import StartQuote

    def make(report_data: bytes) -> "StartQuote":
        quote = platform.quote(report_data)
        return StartQuote(quote, beside(_about(settings), platform, quote))

    return make


def line_quotes(settings: Settings, platform: "Platform") -> "LineQuotes":
    """Return what makes and judges quotes of the line, first by the host's clock."""
    from keyhouse.coordinator import HostClock
    from keyhouse.server.services.collateral_memory import ProcessMarks
    from keyhouse.server.services.line_quotes import LineQuotes

    def checks() -> "AbstractAsyncContextManager[QuoteChecks]":
        return quote_checks(settings, platform, ProcessMarks(), HostClock().now)

    return LineQuotes(platform, start_quotes(settings, platform), checks)
