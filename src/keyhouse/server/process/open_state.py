"""Opens the parts of a coordinator, for `keyhouse serve` and for tests.

The parts are the state with its writer, the submissions to witnesses, and the checks of foreign
quotes: the platform's root, collateral and a clock.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keyhouse.attestation import (
    Measurements,
    NoSealingKeyError,
    Platform,
    PlatformUnusableError,
    SealPolicy,
)
from keyhouse.attestation.sources.selection import CollateralSettings, amd_checks, collateral_source
from keyhouse.authority import parse_names
from keyhouse.base.errors import InvalidError
from keyhouse.base.log import log
from keyhouse.base.process.flags import SettingRefusedError
from keyhouse.base.secret import Secret
from keyhouse.base.version import VERSION
from keyhouse.coordinator import (
    AcceptingManifest,
    Engine,
    HostClock,
    NewDeployment,
    Process,
    Running,
    State,
    policy_of,
    require_clock_of_fresh,
)
from keyhouse.coordinator.witnessing.task import Witnessing
from keyhouse.journal import DirectoryStorage, StateStorage
from keyhouse.journal.directory.disk import JOURNAL
from keyhouse.manifest import SealMode
from keyhouse.server.process.settings import Settings
from keyhouse.server.services.quote_checks import CollateralMemory, QuoteChecks

if TYPE_CHECKING:
    from keyhouse.journal.shared.storage import DatabaseStorage
    from keyhouse.witnesses.client import WitnessClient

_GRAMINE: Final = (
    "the sealing key belongs to the present security versions of processor and enclave: without"
    " recovery keys in the manifest, an update of microcode or version loses the state"
)


def new_deployment(settings: Settings) -> NewDeployment:
    """Return the curve and the names for the keys of a new deployment.

    Raises:
        SettingRefusedError: ``--dns-names`` is empty, or an entry is neither a name nor an address.
    """
    try:
        dns_names, ip_addresses = parse_names(settings.dns_names)
    except InvalidError as error:
        first = error.problems[0]
        raise SettingRefusedError(
            f"entry {first.at} of --dns-names {first.problem}", hint=first.hint
        ) from None
    if not dns_names and not ip_addresses:
        raise SettingRefusedError(
            "--dns-names has no name in it",
            hint="pass a name or an IP address, or leave --dns-names out for localhost",
        )
    return NewDeployment(settings.curve, dns_names, ip_addresses)


def require_clock(folder: Path, *, confirmed: bool) -> None:
    """Refuse a clock far ahead of the date of this version, if ``folder`` has no journal.

    ``confirmed``: the operator has confirmed the clock. An existing journal has its own times, so
    the caller compares the clock with them later. Raises ``BrokenError``.
    """
    if not os.path.lexists(folder / JOURNAL):
        require_clock_of_fresh(HostClock(), confirmed=confirmed)


def process_on(platform: Platform) -> Process:
    """Return the identity of this process on ``platform``, for the record of its start.

    ``instance`` is random, so each start has a different identity.
    """
    own = _measured(platform)
    return Process(
        platform=platform.kind,
        instance=os.urandom(16),
        version=VERSION,
        measurement=own.unique_id,
        signer=own.signer_id,
        product=own.product_id,
        security_version=own.security_version,
    )


@asynccontextmanager
async def opened(
    folder: Path, platform: Platform, store: Secret | None = None
) -> AsyncIterator[StateStorage]:
    """Open the state that ``platform`` seals, and close the state at the end of the context.

    The state is in ``folder``, or in the database at the URL ``store``.
    """
    storage: StateStorage
    if store is not None:
        storage = await _database_storage().open(
            store,
            folder,
            platform_kind=platform.kind,
            sealing_key=platform.sealing_key if _seals(platform) else None,
        )
    else:
        storage = await DirectoryStorage.open(
            folder,
            platform_kind=platform.kind,
            sealing_key=platform.sealing_key,
            shares_locks=not platform.is_library_os,
        )
    try:
        yield storage
    finally:
        await storage.close()


def _seals(platform: Platform) -> bool:
    try:
        platform.sealing_key(SealPolicy.PRODUCT_KEY)
    except NoSealingKeyError as none:
        log.warning("this platform cannot seal: each start needs the data key", reason=none.message)
        return False
    return True


def _measured(platform: Platform) -> Measurements:
    """Return the measurements of this process. They are empty in a confidential VM."""
    try:
        return platform.measurements
    except PlatformUnusableError:
        return Measurements(b"", b"", 0, 0)


def _database_storage() -> "type[DatabaseStorage]":
    try:
        from keyhouse.journal.shared.storage import DatabaseStorage
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        raise SettingRefusedError(
            "--store needs the library asyncpg, which is not installed",
            hint="run pip install '.[postgres]' in a clone of Keyhouse",
        ) from None
    return DatabaseStorage


async def reach_database(settings: Settings) -> None:
    """Verify that the database of ``settings`` answers and has the schema of Keyhouse.

    Raises ``KeyhouseError``.
    """
    _database_storage()
    from keyhouse.journal.store.postgres_database import PostgresDatabase

    assert settings.database is not None  # noqa: S101 the caller has checked
    database = PostgresDatabase(settings.database)
    try:
        await database.current()
    finally:
        await database.close()


@asynccontextmanager
async def writing(engine: Engine) -> AsyncIterator[asyncio.Task[None]]:
    """Run the engine's writer during the context, then stop the writer and close the engine.

    The context yields the writer's task.

    Raises:
        BrokenError: the engine does not know which records are durable. A restart reads the durable
            records.
    """
    task = asyncio.create_task(engine.run())
    try:
        yield task
    finally:
        engine.queue.stop()
        try:
            await task
        finally:
            await engine.close()


@asynccontextmanager
async def witnessed(engine: Engine) -> AsyncIterator[None]:
    """Submit checkpoints to the witnesses of the manifest, until the context ends."""
    witnessing = Witnessing(engine, _witness_client)
    task = asyncio.create_task(witnessing.run())
    task.add_done_callback(_log_end)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        await witnessing.finish()


def _log_end(task: asyncio.Task[None]) -> None:
    """Log that submissions to witnesses have ended.

    If the manifest requires cosignatures (``Witnessed``), the lease expires then.
    """
    if not task.cancelled() and (error := task.exception()):
        log.error("submissions to witnesses have ended", error=type(error).__qualname__)


def _witness_client() -> "WitnessClient":
    from keyhouse.witnesses.client import WitnessClient  # imports httpx

    return WitnessClient()


def sealing_note(platform: str, state: State) -> str:
    """Return the warning about sealing for ``state``, or "". ``platform``: the kind of platform.

    The result is "" on any platform except Gramine. It is also "" in recovery mode, and if the
    manifest names recovery keys or disables sealing.
    """
    if platform != "gramine":
        return ""
    match state:
        case AcceptingManifest():
            return _GRAMINE
        case Running(recovery=recovery, manifest=manifest) if not recovery.holders:
            kept = policy_of(manifest).seal_mode is not SealMode.DISABLED
            return _GRAMINE if kept else ""
        case _:
            return ""


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
    """Yield checks of quotes, under the root of the running platform.

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
