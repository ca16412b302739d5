"""Several engines over a simulated store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import asdict, replace

from keyhouse.attestation import Collateral
from keyhouse.authority import make_coordinator_keys
from keyhouse.authority.instance_keys import InstanceKeys
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Engine
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.state import AcceptingManifest, Member, Running
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.clock import SecurityClock
from keyhouse.coordinator.engine.records import encode_events, rebuild
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.hand_off.key_switch import SwitchNotes
from keyhouse.coordinator.hand_off.membership import Members
from keyhouse.coordinator.prepare import prepare_manifest
from keyhouse.journal import Journal
from keyhouse.journal.store.protocol import Store
from keyhouse.server.services.hand_off import OwnQuotes
from keyhouse_simulation import SimulatedPlatform
from support.samples.deployment import NOW, FixedClock, manifest, moment, new_process, open_storage
from support.samples.machines import SETTINGS, checks, platform
from support.samples.simulated_store import SimulatedStore

__all__ = ["DEK", "STORE_ID", "begin", "engine_on", "opened_engine"]

STORE_ID, DEK = b"i" * 16, Secret(b"d" * 32)


def _first_state(raw: bytes) -> tuple[Running, UpdateLog]:
    accepting = AcceptingManifest(
        make_coordinator_keys(
            dns_names=["localhost"],
            ip_addresses=[],
            curve="P-256",
            now=moment(NOW),
            simulated=True,
        )
    )
    command = prepare_manifest(accepting, raw, now=NOW)
    context = Context(now=NOW, **asdict(new_process()))
    events = decide(accepting, command, context)
    state = evolve_all(accepting, events)
    assert isinstance(state, Running)
    return state, UpdateLog(events)


async def begin(store: Store, raw: bytes | None = None, *, shares_flush: bool = False) -> None:
    """Begin a deployment with the manifest ``raw`` in the empty ``store``."""
    state, log = _first_state(raw or manifest(50))
    state = replace(state, shares_flush=shares_flush)
    base = encode_events(base_events(state, log.view()))
    await Journal.create(store, store_id=STORE_ID, dek=DEK, base=base)


async def opened_engine(
    store: Store,
    path: Path,
    dek: Secret = DEK,
    on: SimulatedPlatform | None = None,
    used: Collateral | None = None,
    *,
    shares_store: bool = False,
    clock: FixedClock | None = None,
) -> Engine:
    """Return an engine over ``store``, with a recorded start.

    ``on``: the machine for the engine's quotes to other replicas. ``used``: the collateral for
    checks of quotes of other replicas.
    """
    process, shared = replace(new_process(), shares_store=shares_store), None
    if isinstance(store, SimulatedStore):
        keys = InstanceKeys()
        member = Member(process.instance, keys.signing, keys.kem, b"", b"")
        quotes = OwnQuotes(on or platform(), checks(used=used), SETTINGS)
        shared = SwitchNotes(member, keys, store, Members(member, store, quotes, SETTINGS))
        process = replace(process, member=member)
    journal, replay = await Journal.open(store, store_id=STORE_ID, dek=dek)
    state, update_log = rebuild(replay.base + replay.events)
    engine = Engine(
        writer=JournalWriter(await open_storage(path), journal, in_memory=True),
        clock=SecurityClock(clock or FixedClock()),
        process=process,
        state=state,
        update_log=update_log,
        shared=shared,
    )
    await engine.announce()
    return engine


@asynccontextmanager
async def engine_on(
    store: Store,
    path: Path,
    on: SimulatedPlatform | None = None,
    used: Collateral | None = None,
    *,
    shares_store: bool = False,
    clock: FixedClock | None = None,
) -> AsyncIterator[Engine]:
    """Run an engine over ``store``; ``path`` is its state directory, which stays empty."""
    engine = await opened_engine(
        store, path, on=on, used=used, shares_store=shares_store, clock=clock
    )
    writing = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        engine.queue.stop()
        await asyncio.gather(writing, return_exceptions=True)
        await engine.close()
