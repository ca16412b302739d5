"""Chooses the sources of collateral by the settings of a coordinator."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import msgspec

from keyhouse.attestation import (
    AmdCollateral,
    Collateral,
    CollateralRefusedError,
    CollateralUnavailableError,
    Mark,
    PlatformKind,
)
from keyhouse.attestation.platforms.find import SIMULATED_AMD, SIMULATED_BUNDLES
from keyhouse.attestation.sources.files import AmdFiles, CollateralFiles
from keyhouse.base.errors import KeyhouseError, RefusedError, UnavailableError
from keyhouse.base.log import log

if TYPE_CHECKING:
    from keyhouse.attestation import CollateralFacts, Platform
    from keyhouse.attestation.collateral.pccs import Pccs

_LONGEST_CA: Final = 1 << 20  # bytes of a file, chosen: far above every bundle of CAs


CollateralNow = Callable[[bytes], Collateral]
"""Returns the collateral for a quote, without a network. Called on a thread.

Raises ``UnavailableError`` if there is none, or ``QuoteRefusedError``.
"""


class AmdChecks(msgspec.Struct, frozen=True):
    """The inputs for verifying reports of AMD: roots by line of processors, and collateral.

    ``collateral``: a function that returns the present collateral; None if the coordinator was
    started without collateral of AMD.
    """

    roots: Mapping[str, bytes] = {}
    collateral: Callable[[], AmdCollateral] | None = None

    def now(self) -> AmdCollateral:
        """Return AMD's collateral from its files. Raises ``CollateralUnavailableError``."""
        if self.collateral is None:
            raise CollateralUnavailableError(
                "this coordinator has no collateral of AMD, so reports of AMD cannot be verified",
                hint="ask the operator to start the coordinator with --amd-collateral PATH",
            )
        try:
            return self.collateral()
        except CollateralRefusedError as refused:  # the files are wrong, not the quote
            raise CollateralUnavailableError(refused.message, hint=refused.hint) from None


@runtime_checkable
class CollateralHealth(Protocol):
    """Reports the earliest end of the collateral and the number of fetches, for metrics."""

    def expires(self) -> datetime | None:
        """Return the earliest end (UTC) of all documents in use, or None without documents."""
        ...

    def fetches(self) -> Mapping[str, int]:
        """Return the number of fetches by outcome. Without a PCCS the mapping is empty."""
        ...


class CollateralPerPlatform(Protocol):
    """Stores or fetches the collateral of each kind of platform. Use on the event loop only."""

    def at_hand(self, kind: PlatformKind) -> Collateral | None:
        """Return the collateral for ``kind`` without a fetch; None if a fetch is necessary."""
        ...

    async def collateral_of(self, kind: PlatformKind) -> Collateral:
        """Return the collateral, not verified. Raises ``UnavailableError`` if there is none."""
        ...


def no_collateral(quote: bytes) -> Collateral:
    """Refuse, because this coordinator was started without collateral."""
    del quote
    raise UnavailableError(
        "this coordinator has no collateral, so quotes cannot be verified",
        hint="ask the operator to start the coordinator with --pccs URL or --collateral FILE",
    )


class CollateralSettings(msgspec.Struct, frozen=True):
    """The settings of a coordinator that select the sources of its collateral."""

    pccs: str  # URL, or empty
    pccs_ca: Path | None
    collateral: Path | None  # a file or a directory with bundles
    data_dir: Path  # has the simulated machine
    state_dir: Path  # has the cache of fetched collateral


class PccsCaUnreadableError(RefusedError):
    """The file with the CA of the PCCS cannot be read."""

    code = "pccs-ca-unreadable"


def pccs_of(pccs: str, ca: Path | None) -> "Pccs":
    """Return the PCCS at the URL ``pccs``.

    ``ca``: a PEM file with the CA of the PCCS; None: the CAs of the system. Raises ``RefusedError``
    for an invalid URL or an unusable file.
    """
    from keyhouse.attestation.collateral.pccs import Pccs

    return Pccs(pccs, _ca(ca) if ca else b"")


def bundles(
    settings: CollateralSettings, platform: "Platform", now: Callable[[], datetime]
) -> CollateralNow:
    """Return a source of collateral from files: those of the settings, or of a simulated machine.

    Without such files, the source refuses every quote.

    Raises ``RefusedError`` if a file is unusable.
    """
    if settings.collateral is not None:
        paths = [settings.collateral.absolute()]
    elif platform.kind == "simulation":
        machine = settings.data_dir.absolute() / "simulation"
        paths = [machine / name for name in SIMULATED_BUNDLES]
    else:
        return no_collateral
    return CollateralFiles(paths, platform.root_ca, now)


def beside(settings: CollateralSettings, platform: "Platform", quote: bytes) -> bytes:
    """Return the bundle to store beside ``quote``, a quote about a start; empty without a bundle.

    A first start with a PCCS has no bundle yet.
    """
    from keyhouse.attestation import write_collateral

    try:
        found = _at_hand(settings, platform, quote)
    except KeyhouseError as error:
        log.info("no collateral beside the quote about this start", reason=error.message)
        return b""
    return b"" if found is None else write_collateral(found)


def _at_hand(
    settings: CollateralSettings, platform: "Platform", quote: bytes
) -> "Collateral | None":
    if not settings.pccs:
        return bundles(settings, platform, lambda: datetime.now(UTC))(quote)
    from keyhouse.attestation import platform_kind
    from keyhouse.attestation.collateral.cache import CollateralCache

    cache = CollateralCache(settings.state_dir / "collateral", platform.root_ca)
    kept = cache.read(platform_kind(quote, platform.root_ca), datetime.now(UTC))
    return None if kept is None else kept.collateral


def amd_checks(path: Path | None, data_dir: Path, platform: "Platform") -> AmdChecks:
    """Return the inputs for verifying reports of AMD. Each report reads the files again.

    The files are at ``path``. None: a simulated machine has its own files in ``data_dir``, and
    hardware has none. Raises ``RefusedError`` if a file is unusable now.
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
    if not pem:  # without a CA, the CAs of the system would count
        raise PccsCaUnreadableError(
            f"the file {path} with the CA of the PCCS cannot be read, or is empty",
            hint="name a file with PEM certificates in --pccs-ca",
        )
    return pem


def _log_facts(facts: "CollateralFacts") -> None:
    from keyhouse.attestation.collateral.facts import shown_time

    log.info(
        "fetched collateral",
        platform=str(facts.kind),
        evaluation=facts.evaluation_number,
        expires=shown_time(facts.expires),
        first=facts.ends_first,
    )


@asynccontextmanager
async def collateral_source(
    settings: CollateralSettings,
    platform: "Platform",
    now: Callable[[], datetime],
    known: Callable[[], Mapping[str, Mark]],
) -> AsyncIterator[CollateralNow | CollateralPerPlatform]:
    """Yield the source of collateral. In the block, a PCCS source fetches in the background.

    ``known`` returns the marks of the newest collateral so far. Raises ``RefusedError`` if the file
    of collateral, the PCCS or its CA is unusable.
    """
    if not settings.pccs:
        yield bundles(settings, platform, now)
        return
    from keyhouse.attestation.sources.pccs_source import PccsSource

    source = PccsSource(
        pccs_of(settings.pccs, settings.pccs_ca),
        platform.root_ca,
        settings.state_dir / "collateral",
        now=now,
        warn=log.warning,
        on_facts=_log_facts,
        known=known,
    )
    async with source:
        looking = asyncio.create_task(source.refresh_until_cancelled())
        try:
            yield source
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
