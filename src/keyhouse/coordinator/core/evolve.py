"""Applies an event to the state. Decodes nothing, generates nothing, and checks no rule.

The decision has checked the rules before the event was written. So ``evolve`` accepts every event
that Keyhouse writes, and a replay of the journal gives the served state.
"""

from collections.abc import Iterable
from typing import Final, assert_never

from immutables import Map
from msgspec.structs import replace

from keyhouse.authority import StoredSecret
from keyhouse.base.errors import BrokenError
from keyhouse.coordinator.core import events
from keyhouse.coordinator.core.lineages import (
    cleaned,
    with_activated,
    with_renewed,
    with_restored,
    with_revoked,
)
from keyhouse.coordinator.core.state import Counters, PendingUpdate, PublicLog, Running, State
from keyhouse.transparency.tree import LARGEST, leaf_hash

_RESTORE: Final = "restore a backup"

MOST_MEMBERS: Final = 64
"""Maximum number of processes that receive a new data key. Older ones have to request the key."""


def evolve(state: State | None, event: events.Event) -> State:  # noqa: C901, PLR0911, PLR0912 a case each
    """Return the state after ``event``.

    ``state`` is None only before the first event of a journal. Raises ``BrokenError`` for an event
    before any base. The records were verified, so such a journal is a defect of Keyhouse, not
    damage of the disk.
    """
    match event:
        case events.ManifestSet():
            return _manifest_set(event)
        case events.BaseBegun():
            return _base_begun(event)
    running = _running(state, event)
    match event:
        case events.Started():
            return _started(running, event)
        case events.SecretsUploaded():
            return _secrets_uploaded(running, event)
        case events.CollateralSeen():
            marks = running.collateral_marks.update(event.marks)
            return replace(running, time=_later(running, event.time), collateral_marks=marks)
        case events.PackagesUpdated():
            return _packages_updated(_deciding(running), event)
        case events.UpdateInitiated():
            return _with_pending(_deciding(running), event.time, event.pending)
        case events.UpdateAcknowledged():
            return _with_pending(running, event.time, event.pending)
        case events.UpdateCancelled():
            return _with_pending(_deciding(running), event.time, None)
        case events.ManifestUpdated():
            return _manifest_updated(_deciding(running), event)
        case events.MarblesActivated():
            return _marbles_activated(running, event)
        case events.MarblesRenewed():
            return _marbles_renewed(running, event)
        case events.WorkloadsRevoked():
            time = _later(running, event.time)
            return with_revoked(replace(running, time=time), event)
        case events.CounterSet():
            counters = _with_counters(running.counters, (event,))
            return replace(running, time=_later(running, event.time), counters=counters)
        case events.LogBegun():
            return _log_begun(running, event)
        case events.Published():
            return with_leaves(running, event.leaves)
        case events.WitnessesAgreed():
            log = running.public_log and replace(running.public_log, former=())
            return replace(running, time=_later(running, event.time), public_log=log)
        case events.LineExtended():
            return replace(running, line=(*running.line, *event.items))
        case events.FlushShared():
            return replace(running, shares_flush=True)
        case _:
            return _with_piece(running, event)


def _with_piece(running: Running, event: events.BasePiece) -> Running:  # noqa: PLR0911 as above
    """Return the state ``running`` with the content of ``event``, the next piece of its base."""
    match event:
        case events.BaseMembers():
            return replace(running, members=event.members)
        case events.BaseLineages():
            named = {each.id: each.lineage for each in event.lineages}
            return replace(running, lineages=running.lineages.update(named))
        case events.BaseRevocations():
            return replace(
                running, revoked_platforms=event.platforms, former_roots=event.former_roots
            )
        case events.BaseLine():
            return replace(running, line=(*running.line, *event.items))
        case events.BaseSecrets():
            return _base_secrets(running, event)
        case events.BaseActivations():
            return replace(running, activations=running.activations.update(event.counts))
        case events.BaseCounters():
            return replace(running, counters=_with_counters(running.counters, event.counters))
        case events.BaseLog() | events.BaseAudit():
            return running
        case events.BaseEnded():
            _require_complete(running, event)
            return running
        case _ as never:
            assert_never(never)


def evolve_all(state: State | None, following: Iterable[events.Event]) -> State:
    """Return the state after all of ``following``, in order.

    Raises ``BrokenError`` if the journal has no record.
    """
    for event in following:
        state = evolve(state, event)
    if state is None:
        raise BrokenError("the journal has no record", hint=_RESTORE)
    return state


def _running(state: State | None, event: events.Event) -> Running:
    if not isinstance(state, Running):
        raise BrokenError(
            f"the journal has a {type(event).__name__} record before any manifest",
            hint=_RESTORE,
        )
    return state


def _later(running: Running, time: int) -> int:
    return max(running.time, time)  # the time of a state never runs backwards


def _started(running: Running, event: events.Started) -> Running:
    members = running.members
    if event.member is not None:
        others = (each for each in members if each.instance != event.instance)
        members = (*others, event.member)[-MOST_MEMBERS:]
    time = _later(running, event.time)
    return replace(running, time=time, instance=event.instance, members=members)


def _with_pending(running: Running, time: int, pending: PendingUpdate | None) -> Running:
    return replace(running, time=_later(running, time), pending=pending)


def _secrets_uploaded(running: Running, event: events.SecretsUploaded) -> Running:
    grown = running.secrets.mutate()
    for upload in event.uploads:
        grown[upload.name] = upload.value
    running = with_leaves(running, event.leaves) if event.leaves else running
    return replace(running, time=_later(running, event.time), secrets=grown.finish())


def _log_begun(running: Running, event: events.LogBegun) -> Running:
    begun = PublicLog(key=event.key, verifier=event.verifier, signature=event.signature)
    # A log that replaces another log follows the loss of the newest state.
    time, lineages = _later(running, event.time), running.lineages
    if running.public_log is not None:
        lineages = with_restored(lineages, time)
    return replace(running, time=time, public_log=begun.deciding, lineages=lineages)


def with_leaves(running: Running, leaves: Iterable[bytes]) -> Running:
    """Return the state ``running`` after ``leaves`` were appended to its transparency log."""
    if running.public_log is None:
        raise BrokenError("the journal has leaves before the beginning of their log", hint=_RESTORE)
    return replace(running, public_log=extended(running.public_log, leaves))


def extended(log: PublicLog, leaves: Iterable[bytes]) -> PublicLog:
    """Return ``log`` with ``leaves`` at its end.

    The leaves include the leaf of an open decision (``PublicLog.deciding``), if there is one.
    """
    frontier = log.frontier.extended(map(leaf_hash, leaves))
    decided = frontier.size if log.decided == LARGEST else log.decided
    return replace(log, frontier=frontier, decided=decided)


def _deciding(running: Running) -> Running:
    log = running.public_log
    return running if log is None else replace(running, public_log=log.deciding)


def _packages_updated(running: Running, event: events.PackagesUpdated) -> Running:
    return replace(
        running,
        time=_later(running, event.time),
        keys=event.keys,
        security_versions=running.security_versions.update(event.versions),
        secrets=running.secrets.update(event.secrets),
        former_roots=(),
    )


def _manifest_set(event: events.ManifestSet) -> Running:
    return Running(
        keys=event.keys,
        platform=event.platform,
        manifest=event.manifest,
        signature=event.signature,
        security_versions=Map(),
        secrets=Map(event.secrets),
        previous=Map(event.secrets),
        recovery=event.recovery,
        time=event.time,
        previous_root_secret=event.keys.root_secret,
        previous_sizes=Map(),
        pending=None,
        instance=b"",
    )


def _manifest_updated(running: Running, event: events.ManifestUpdated) -> Running:
    log = running.public_log
    if log is not None and event.former_witnesses:
        log = replace(log, former=(*log.former, event.former_witnesses))
    return replace(
        running,
        public_log=log,
        time=_later(running, event.time),
        keys=event.keys,
        manifest=event.manifest,
        signature=event.signature,
        security_versions=Map(),
        secrets=_kept(running.secrets, event.kept).update(event.secrets),
        previous=_kept(running.previous, event.kept).update(event.previous),
        previous_root_secret=event.previous_root_secret,
        previous_sizes=Map(event.previous_sizes),
        recovery=event.recovery,
        pending=None,
        lineages=cleaned(running.lineages, event.time) if running.lineages else running.lineages,
        former_roots=event.former_roots,
    )


def _marbles_activated(running: Running, event: events.MarblesActivated) -> Running:
    times = (activated.time for activated in event.activations)
    time = max(times, default=running.time)
    counts, lineages = running.activations.mutate(), running.lineages
    for activated in event.activations:
        if activated.counted:
            counts[activated.marble_type] = counts.get(activated.marble_type, 0) + 1
        if activated.lineage is not None:
            lineages = with_activated(lineages, activated, activated.lineage)
    time = _later(running, time)
    return replace(running, time=time, activations=counts.finish(), lineages=lineages)


def _marbles_renewed(running: Running, event: events.MarblesRenewed) -> Running:
    time, lineages = running.time, running.lineages
    for renewed in event.renewals:
        time, lineages = max(time, renewed.time), with_renewed(lineages, renewed)
    return replace(running, time=time, lineages=lineages)


def _with_counters(
    counters: Counters, values: Iterable[events.Counter | events.CounterSet]
) -> Counters:
    grown = counters.mutate()
    for value in values:
        marble = (value.marble_type, value.uuid)
        values_of_marble: Map[str, int] = grown.get(marble, Map())
        grown[marble] = values_of_marble.set(value.name, value.value)
    return grown.finish()


def _require_complete(running: Running, event: events.BaseEnded) -> None:
    actual = (
        len(running.secrets),
        len(running.previous),
        len(running.activations),
        sum(map(len, running.counters.values())),
    )
    if actual != (event.secrets, event.previous, event.activations, event.counters):
        raise BrokenError("the journal's base is incomplete", hint=_RESTORE)


def _kept(values: Map[str, StoredSecret], names: tuple[str, ...]) -> Map[str, StoredSecret]:
    return Map({name: values[name] for name in names if name in values})


def _base_begun(event: events.BaseBegun) -> Running:
    return Running(
        keys=event.keys,
        platform=event.platform,
        manifest=event.manifest,
        signature=event.signature,
        security_versions=Map(event.security_versions),
        secrets=Map(),
        previous=Map(),
        recovery=event.recovery,
        time=event.time,
        previous_root_secret=event.previous_root_secret,
        previous_sizes=Map(event.previous_sizes),
        pending=event.pending,
        instance=event.instance,
        collateral_marks=Map(event.collateral_marks),
        public_log=event.public_log,
    )


def _base_secrets(running: Running, event: events.BaseSecrets) -> Running:
    field = "previous" if event.previous else "secrets"
    grown = getattr(running, field).update(event.secrets)
    return replace(running, **{field: grown})
