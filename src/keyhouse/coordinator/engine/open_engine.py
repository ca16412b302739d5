"""Open a state directory or a database: return an engine that is ready to serve."""

import asyncio
from functools import partial

import msgspec

from keyhouse.authority import CoordinatorKeys, Curve, make_coordinator_keys
from keyhouse.base.errors import BrokenError
from keyhouse.base.log import log
from keyhouse.base.version import BUILD_TIME
from keyhouse.coordinator.core.context import Process, moment
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import AcceptingManifest, PendingUpdate, Recovering, Running
from keyhouse.coordinator.engine.clock import Clock, SecurityClock
from keyhouse.coordinator.engine.engine import Engine
from keyhouse.coordinator.engine.records import LogTail, rebuild
from keyhouse.coordinator.engine.shared import Shared
from keyhouse.coordinator.engine.start_proofs import MakeQuote
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.origin.checks import Origin
from keyhouse.journal import Fresh, Locked, Opened, Replay, StateStorage


class NewDeployment(msgspec.Struct, frozen=True):
    """The settings for the keys of a new deployment. No effect on an existing state."""

    curve: Curve
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]


async def open_engine(
    storage: StateStorage,
    *,
    clock: Clock,
    process: Process,
    new: NewDeployment,
    confirm_clock: bool = False,
    shared: Shared | None = None,
    make_quote: MakeQuote | None = None,
    origin: Origin | None,
) -> Engine:
    """Return the engine for the content of ``storage``.

    If ``storage`` has a readable state, the ``Started`` record of this process is durable.
    ``confirm_clock``: the operator has confirmed the clock. ``new``: the settings of a new
    deployment. ``shared``: exchanges data keys with replicas; None: the store is not shared.
    ``make_quote``: makes quotes about this process; None: the start has no quote. ``origin``:
    proves the origin of the root. None: nothing is proven, and no client may trust the coordinator,
    as in the tests of an application team.

    Raises:
        OriginRefusedError: nothing proves the origin of the state's root.
        BrokenError: the state is damaged, rolled back or from another platform, or the clock is
            wrong.
    """
    bounded = _bounded(clock, confirmed=confirm_clock)
    engine = partial(Engine, process=process, shared=shared, make_quote=make_quote, origin=origin)
    loaded = await storage.load()
    if isinstance(loaded, Opened):
        return await _running(storage, loaded, bounded, process, engine, origin)
    if isinstance(loaded, Fresh):
        _require_near_build(bounded)
    keys = await _new_keys(bounded, process, new)
    state: AcceptingManifest | Recovering = AcceptingManifest(keys)
    if isinstance(loaded, Fresh) and loaded.ended is not None:
        log.warning("the coordinator starts without the former state", reason=str(loaded.ended))
        state = AcceptingManifest(keys, note=str(loaded.ended))
    if isinstance(loaded, Locked):
        log.warning("the coordinator starts in recovery mode", reason=loaded.reason)
        state = Recovering(keys, loaded.reason, loaded.recovery_index)
    return engine(writer=JournalWriter(storage), clock=bounded, state=state)


def require_clock_of_fresh(clock: Clock, *, confirmed: bool) -> None:
    """Refuse a clock that is too far ahead for a new deployment, before anything is created.

    ``confirmed``: the operator has confirmed the clock. Raises ``BrokenError`` if the clock is more
    than a year ahead of the build of this code.
    """
    _require_near_build(_bounded(clock, confirmed=confirmed))


def _bounded(clock: Clock, *, confirmed: bool) -> SecurityClock:
    return SecurityClock(clock, clock.now() if confirmed else BUILD_TIME)


def _require_near_build(clock: SecurityClock) -> None:
    if clock.is_ahead():
        raise BrokenError(
            "the clock of this machine is more than a year ahead of this version of Keyhouse,"
            f" which was made on {moment(BUILD_TIME):%Y-%m-%d}",
            hint="set the clock; if the clock is right, start with --confirm-clock, or start a"
            " newer version",
        )


async def _running(
    storage: StateStorage,
    loaded: Opened,
    clock: SecurityClock,
    process: Process,
    make_engine: partial[Engine],
    origin: Origin | None,
) -> Engine:
    tail = LogTail()
    state, update_log = rebuild(loaded.replay.base + loaded.replay.events, tail)
    if state.platform != process.platform:
        raise BrokenError(
            f"the state was made on the platform {state.platform}; this coordinator runs on"
            f" {process.platform}",
            hint=f"start the coordinator on {state.platform}: a state cannot move to another kind"
            " of platform",
        )
    writer = JournalWriter(storage, loaded.journal)
    forgeable = None
    if origin is not None:
        await origin.require(state, partial(writer.read_object, state), loaded.vouched)
        forgeable = await asyncio.to_thread(forgeable_votes, loaded, state)
    if state.public_log is not None:
        writer.public_log = await writer.opened_log(state.public_log.verifier, tail)
    now = clock.after(state.time)
    engine = make_engine(writer=writer, clock=now, state=state, update_log=update_log)
    await writer.conclude_opening(state)
    await engine.announce(forgeable)
    # Another replica has handed the key over. From now on this machine has its own seal.
    if not loaded.policy:
        await storage.reseal(policy_of(state.manifest).seal_mode)
    return engine


def forgeable_votes(loaded: Opened, state: Running) -> PendingUpdate | None:
    """Return the pending update of ``state`` if its acknowledgements may be forged.

    They may be forged if the seal or the replica behind ``loaded`` does not vouch for all of them.
    None: no update is pending, or all acknowledgements are vouched for. None also for a state
    without a line: its root is adopted, so the operator vouches for the state.
    """
    if state.pending is None or not state.line:
        return None
    part = _vouched_part(loaded)
    known = None if part is None else rebuild(part.base + part.events)[0].pending
    return state.pending if state.pending != known else None


def _vouched_part(loaded: Opened) -> Replay | None:
    """Return the records of ``loaded`` up to the place for which a seal or a replica vouches.

    None: nothing vouches for a place in the present epoch. A holder of the data key can append
    acknowledgements of a pending update to an old copy, but only after that place.
    """
    vouched, position, replay = loaded.vouched, loaded.journal.position, loaded.replay
    if vouched is None or vouched.place.epoch != position.epoch:
        return None
    kept = len(replay.events) - (position.sequence - vouched.place.sequence)
    return Replay(replay.base, replay.events[:kept]) if kept >= 0 else None


async def _new_keys(clock: SecurityClock, process: Process, new: NewDeployment) -> CoordinatorKeys:
    now = moment(clock.now())
    return await asyncio.to_thread(
        make_coordinator_keys,
        dns_names=new.dns_names,
        ip_addresses=new.ip_addresses,
        curve=new.curve,
        now=now,
        simulated=process.platform == "simulation",
    )
