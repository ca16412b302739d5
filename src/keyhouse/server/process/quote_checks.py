"""What `keyhouse serve` verifies other quotes with: the platform's root, collateral, its clock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keyhouse.attestation.platforms.find import SIMULATED_AMD, SIMULATED_BUNDLES
from keyhouse.attestation.sources.files import AmdFiles, CollateralFiles
from keyhouse.base.errors import KeyhouseError, RefusedError
from keyhouse.base.log import log
from keyhouse.server.process.settings import Settings
from keyhouse.server.services.collateral_memory import CollateralMemory
from keyhouse.server.services.quote_checks import (
    AmdChecks,
    CollateralNow,
    CollateralPerPlatform,
    QuoteChecks,
    no_collateral,
)

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from keyhouse.attestation import Collateral, CollateralFacts, Platform
    from keyhouse.attestation.collateral.pccs import Pccs
    from keyhouse.coordinator import MakeQuote, StartQuote
    from keyhouse.server.services.line_quotes import LineQuotes

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_CA: Final = 1 << 20  # bytes of a file


class PccsCaUnreadableError(RefusedError):
    """The file with the CA of the PCCS cannot be read."""

    code = "pccs-ca-unreadable"


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

    def checks(collateral: CollateralNow | CollateralPerPlatform) -> QuoteChecks:
        return QuoteChecks(platform.root_ca, collateral, now, memory, amd=amd)

    if not settings.pccs:
        yield checks(bundles(settings, platform, now))
        return
    from keyhouse.attestation.sources.pccs_source import PccsSource

    source = PccsSource(
        pccs_of(settings),
        platform.root_ca,
        settings.state_dir / "collateral",
        now=now,
        warn=log.warning,
        told=_tell,
        known=memory.known,
    )
    async with source:
        looking = asyncio.create_task(source.look_after())
        try:
            yield checks(source)
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking


def pccs_of(settings: Settings) -> "Pccs":
    """Return the PCCS that the settings name. Raises ``RefusedError`` if it cannot be used."""
    from keyhouse.attestation.collateral.pccs import Pccs

    return Pccs(settings.pccs, _ca(settings.pccs_ca) if settings.pccs_ca else b"")


def bundles(settings: Settings, platform: "Platform", now: Callable[[], datetime]) -> CollateralNow:
    """Return the collateral in files: those that are named, or of a simulated machine.

    Raises ``RefusedError`` if they cannot be used.
    """
    if settings.collateral is not None:
        paths = [settings.collateral.absolute()]
    elif platform.kind == "simulation":
        machine = settings.data_dir.absolute() / "simulation"
        paths = [machine / name for name in SIMULATED_BUNDLES]
    else:
        return no_collateral
    return CollateralFiles(paths, platform.root_ca, now)


def start_quotes(settings: Settings, platform: "Platform") -> "MakeQuote":
    """Return what makes a quote by ``platform`` about a start of this process.

    Beside it is the collateral that is at hand without a network.
    """
    from keyhouse.coordinator import StartQuote

    def make(report_data: bytes) -> "StartQuote":
        quote = platform.quote(report_data)
        return StartQuote(quote, _beside(settings, platform, quote))

    return make


def line_quotes(settings: Settings, platform: "Platform") -> "LineQuotes":
    """Return what makes and judges quotes of the line, first by the host's clock."""
    from keyhouse.coordinator import HostClock
    from keyhouse.server.services.collateral_memory import ProcessMarks
    from keyhouse.server.services.line_quotes import LineQuotes

    def checks() -> "AbstractAsyncContextManager[QuoteChecks]":
        return quote_checks(settings, platform, ProcessMarks(), HostClock().now)

    return LineQuotes(platform, start_quotes(settings, platform), checks)


def _beside(settings: Settings, platform: "Platform", quote: bytes) -> bytes:
    """Return the bundle for ``quote``; empty if there is none, as at a first start with a PCCS."""
    from keyhouse.attestation import write_collateral

    try:
        found = _at_hand(settings, platform, quote)
    except KeyhouseError as error:
        log.info("no collateral beside the quote about this start", reason=error.message)
        return b""
    return b"" if found is None else write_collateral(found)


def _at_hand(settings: Settings, platform: "Platform", quote: bytes) -> "Collateral | None":
    if not settings.pccs:
        return bundles(settings, platform, lambda: datetime.now(UTC))(quote)
    from keyhouse.attestation import platform_kind
    from keyhouse.attestation.collateral.cache import CollateralCache

    cache = CollateralCache(settings.state_dir / "collateral", platform.root_ca)
    kept = cache.read(platform_kind(quote, platform.root_ca), datetime.now(UTC))
    return None if kept is None else kept.collateral


def amd_checks(path: Path | None, data_dir: Path, platform: "Platform") -> AmdChecks:
    """Return what verifies reports of SEV-SNP: files that are read for each of them.

    Raises ``RefusedError`` if they cannot be used now.
    """
    if path is None and platform.kind == "simulation":
        path = data_dir / "simulation" / SIMULATED_AMD.collateral
    if path is None:
        return AmdChecks(platform.amd_roots, None)
    return AmdChecks(platform.amd_roots, AmdFiles(path.absolute(), platform.amd_roots))


def _ca(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            pem = file.read(_LONGEST_CA)
    except OSError:
        pem = b""
    if not pem:  # taken as "none given", everybody's CA would do
        raise PccsCaUnreadableError(
            f"the CA of the PCCS, {path}, cannot be read", hint="name a file with PEM certificates"
        )
    return pem


def _tell(facts: "CollateralFacts") -> None:
    from keyhouse.attestation.collateral.facts import shown_time

    log.info(
        "fetched collateral",
        platform=str(facts.kind),
        evaluation=facts.evaluation_number,
        expires=shown_time(facts.expires),
        first=facts.ends_first,
    )
