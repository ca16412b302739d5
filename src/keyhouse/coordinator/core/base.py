"""Encodes a state as the base of an epoch: events of bounded size that rebuild the state.

A journal is a series of epochs. Each epoch begins with a base, so a start reads one epoch only. The
constants of this file bound the records of a base, so a large state needs no large record.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import msgspec
from immutables import Map
from msgspec.structs import replace

from keyhouse.authority import StoredSecret
from keyhouse.coordinator.core import events
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Counters, Running
from keyhouse.coordinator.core.update_log import AuditView, UpdateLogView
from keyhouse.transparency.tree import Frontier

T = TypeVar("T")

SECRET_BYTES = 64 * 1024
"""A piece of secrets ends at this size in bytes."""

LOG_LINES = 1000
"""Lines of the update log in one piece."""

AUDIT_LINES = 200
"""Lines of the audit trail in one piece. A line has at most about 20 KiB; most have 300 bytes."""

LEAVES = 64
"""Leaves of the transparency log in one piece. A leaf has at most 8 KiB; most have 300 bytes."""

LINE_ITEMS = 100
"""Entries of the line of the root in one piece. An entry has at most 8 KiB; most have 600 bytes."""

COUNTS = 500
"""Counters, lineages, or marble types with a count, in one piece."""


class Filed(msgspec.Struct, frozen=True):
    """The transparency log in two parts: the leaves in its files, then the later ``leaves``.

    ``frontier`` is the frontier of the tree over the leaves in the files.
    """

    frontier: Frontier
    leaves: Sequence[bytes]


def base_events(
    state: Running, log: UpdateLogView, filed: Filed | None = None
) -> Iterator[events.Event]:
    """Yield the events that rebuild ``state``, then the update log ``log`` with its audit trail.

    The events are made lazily. ``filed``: None if the files hold the whole transparency log.
    """
    yield _base_begun(state, filed)
    if state.members:
        yield events.BaseMembers(members=state.members)
    if state.shares_flush:
        yield events.FlushShared()
    for items in _chunks(state.line, LINE_ITEMS):
        yield events.BaseLine(items=items)
    yield from _workloads(state)
    for leaves in _chunks(filed.leaves if filed else (), LEAVES):
        yield events.Published(leaves)
    for secrets in _pieces(state.secrets):
        yield events.BaseSecrets(secrets=secrets)
    for secrets in _pieces(state.previous):
        yield events.BaseSecrets(secrets=secrets, previous=True)
    for counts in _chunks(sorted(state.activations.items()), COUNTS):
        yield events.BaseActivations(counts=dict(counts))
    for counters in _chunks(_counters(state.counters), COUNTS):
        yield events.BaseCounters(counters=counters)
    for lines in _chunks(log.lines(), LOG_LINES):
        yield events.BaseLog(lines=lines)
    yield from _audit(log.audit)
    yield events.BaseEnded(
        secrets=len(state.secrets),
        previous=len(state.previous),
        log_lines=len(log),
        activations=len(state.activations),
        counters=sum(map(len, state.counters.values())),
        audit_lines=len(log.audit),
    )


def _base_begun(state: Running, filed: Filed | None) -> events.BaseBegun:
    public_log = state.public_log
    if public_log is not None and filed is not None:
        public_log = replace(public_log, frontier=filed.frontier)
    return events.BaseBegun(
        time=state.time,
        platform=state.platform,
        keys=state.keys,
        manifest=state.manifest,
        signature=state.signature,
        recovery=state.recovery,
        instance=state.instance,
        security_versions=dict(state.security_versions.items()),
        previous_root_secret=state.previous_root_secret,
        previous_sizes=dict(state.previous_sizes.items()),
        pending=state.pending,
        collateral_marks=dict(state.collateral_marks.items()),
        public_log=public_log,
    )


def _workloads(state: Running) -> Iterator[events.Event]:
    named = (events.NamedLineage(name, state.lineages[name]) for name in sorted(state.lineages))
    for lineages in _chunks(named, COUNTS):
        yield events.BaseLineages(lineages)
    # Under a living manifest the piece is never omitted: it stops readers of a lower level, which
    # would ignore the lineage of an activation.
    living = policy_of(state.manifest).manifest.is_living
    if living or state.revoked_platforms or state.former_roots:
        yield events.BaseRevocations(state.revoked_platforms, state.former_roots)


def _counters(counters: Counters) -> Iterator[events.Counter]:
    for marble_type, uuid in sorted(counters):
        own = counters[marble_type, uuid]
        for name in sorted(own):
            yield events.Counter(marble_type=marble_type, uuid=uuid, name=name, value=own[name])


def _audit(audit: AuditView) -> Iterator[events.BaseAudit]:
    for first in range(audit.first, audit.end, AUDIT_LINES):
        yield events.BaseAudit(first=first, lines=tuple(audit.lines(first, AUDIT_LINES)))


def _pieces(secrets: Map[str, StoredSecret]) -> Iterator[dict[str, StoredSecret]]:
    piece: dict[str, StoredSecret] = {}
    size = 0
    for name in sorted(secrets):  # the order of a map differs between processes
        value = piece[name] = secrets[name]
        size += len(name) + len(value.private) + len(value.public) + len(value.cert)
        if size >= SECRET_BYTES:
            yield piece
            piece, size = {}, 0
    if piece:
        yield piece


def _chunks(values: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    remaining = iter(values)
    while chunk := tuple(islice(remaining, size)):
        yield chunk
