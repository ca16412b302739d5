"""The checks of foreign quotes in `keyhouse serve`: the platform's root, collateral and a clock."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from keyhouse.attestation.sources.selection import CollateralSettings, amd_checks, collateral_source
from keyhouse.server.process.settings import Settings
from keyhouse.server.services.quote_checks import CollateralMemory, QuoteChecks

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from keyhouse.attestation import Platform
    from keyhouse.coordinator import MakeQuote
    from keyhouse.server.services.line_quotes import LineQuotes


def _about(settings: Settings) -> CollateralSettings:
    names = CollateralSettings.__struct_fields__
    return CollateralSettings(*(getattr(settings, name) for name in names))


@asynccontextmanager
async def quote_checks(
    settings: Settings,
    platform: "Platform",
    memory: CollateralMemory,
    now: Callable[[], datetime],
) -> AsyncIterator[QuoteChecks]:
    """Yield checks under the running platform's own root.

    ``memory``: the marks of the newest collateral. ``now`` returns the time of a check: security
    time from the engine, or the host's time while no engine is open. Raises ``RefusedError`` if the
    file of collateral, the PCCS or its CA is unusable.
    """
    amd = amd_checks(settings.amd_collateral, settings.data_dir, platform)
    async with collateral_source(_about(settings), platform, now, memory.known) as source:
        yield QuoteChecks(platform.root_ca, source, now, memory, amd=amd)


def start_quotes(settings: Settings, platform: "Platform") -> "MakeQuote":
    """Return a function that makes the quote of a start, which proves the code to auditors."""
    from keyhouse.server.services.line_quotes import own_quotes

    return own_quotes(platform, _about(settings))


def line_quotes(settings: Settings, platform: "Platform") -> "LineQuotes":
    """Return an object that makes and judges the quotes for entries of the line.

    It uses the host's clock until ``LineQuotes.verify_by``, which provides the checks of the
    engine.
    """
    from keyhouse.coordinator import HostClock
    from keyhouse.server.services.line_quotes import LineQuotes
    from keyhouse.server.services.quote_checks import ProcessMarks

    def checks() -> "AbstractAsyncContextManager[QuoteChecks]":
        return quote_checks(settings, platform, ProcessMarks(), HostClock().moment)

    return LineQuotes(platform, checks)
