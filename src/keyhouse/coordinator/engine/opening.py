"""Opening a state directory: an engine over its content, ready to serve."""

import asyncio
from functools import partial

import msgspec

from keyhouse.authority import CoordinatorKeys, Curve, make_coordinator_keys
from keyhouse.base.errors import BrokenError
from keyhouse.base.log import log
from keyhouse.coordinator.core.context import Process
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import AcceptingManifest, Recovering
from keyhouse.coordinator.core.timestamps import moment
from keyhouse.coordinator.engine.clock import BUILD_TIME, Clock, SecurityClock
from keyhouse.coordinator.engine.engine import Engine
from keyhouse.coordinator.engine.records import LogTail, rebuild
from keyhouse.coordinator.engine.shared import Shared
from keyhouse.coordinator.engine.start_quotes import MakeQuote
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.journal import Fresh, Home, Locked, Opened


class NewDeployment(msgspec.Struct, frozen=True):
    """The settings for the keys of a new deployment. No effect on an existing state."""

    curve: Curve
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]


async def open_engine(
    home: Home,
    *,
    clock: Clock,
    process: Process,
    new: NewDeployment,
    confirm_clock: bool = False,
    shared: Shared | None = None,
    make_quote: MakeQuote | None = None,
) -> Engine:
    """Return the engine over the content of ``home``; its ``Started`` record is durable.

    ``shared``: of a process that shares its store. ``make_quote``: makes quotes about its starts.

    Raises:
        BrokenError: the state is damaged, rolled back or of another platform, or the clock is
            wrong.
    """
    bounded = _bounded(clock, confirmed=confirm_clock)
    engine = partial(Engine, process=process, shared=shared, make_quote=make_quote)
    loaded = await home.load()
    if isinstance(loaded, Opened):
        return await _running(home, loaded, bounded, process, engine)
    if isinstance(loaded, Fresh):
        _require_near_build(bounded)
    keys = await _new_keys(bounded, process, new)
    state: AcceptingManifest | Recovering = AcceptingManifest(keys)
    if isinstance(loaded, Fresh) and loaded.ended is not None:
        log.warning("nothing is kept of what was here before", reason=str(loaded.ended))
        state = AcceptingManifest(keys, note=str(loaded.ended))
    if isinstance(loaded, Locked):
        log.warning("the coordinator starts in recovery mode", reason=loaded.reason)
        state = Recovering(keys, loaded.reason, loaded.recovery_index)
    return engine(writer=JournalWriter(home), clock=bounded, state=state)


def require_clock_of_fresh(clock: Clock, *, confirmed: bool) -> None:
    """Refuse a clock that no deployment may begin with, before anything is created.

    Raises:
        BrokenError: it is more than a year ahead of the build of this code.
    """
    _require_near_build(_bounded(clock, confirmed=confirmed))


def _bounded(clock: Clock, *, confirmed: bool) -> SecurityClock:
    return SecurityClock(clock, clock.now() if confirmed else BUILD_TIME)


def _require_near_build(clock: SecurityClock) -> None:
    if clock.is_ahead():
        raise BrokenError(
            "the clock of this machine is more than a year ahead of this version of Keyhouse,"
            f" which was made on {moment(BUILD_TIME):%Y-%m-%d}",
            hint="set the clock; if it is right, start with --confirm-clock, or start a newer"
            " version",
        )


async def _running(
    home: Home,
    loaded: Opened,
    clock: SecurityClock,
    process: Process,
    make_engine: partial[Engine],
) -> Engine:
    tail = LogTail()
    state, update_log = rebuild(loaded.replay.base + loaded.replay.events, tail)
    if state.platform != process.platform:
        raise BrokenError(
            f"the state was made on the platform {state.platform}, this is {process.platform}",
            hint="start with the platform it was made on; no state moves between kinds",
        )
    writer = JournalWriter(home, loaded.journal)
    if state.public_log is not None:
        writer.public_log = await writer.opened_log(state.public_log.verifier, tail)
    now = clock.after(state.time)
    engine = make_engine(writer=writer, clock=now, state=state, update_log=update_log)
    await engine.announce()
    if not loaded.policy:  # another replica has handed the key over: from now on it is sealed here
        await home.reseal(policy_of(state.manifest).seal_mode)
    return engine


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
