"""A state as the base of an epoch: a run of events of bounded size that rebuilds it."""

from collections.abc import Iterable, Iterator
from itertools import islice

from immutables import Map

from keyhouse.authority import StoredSecret
from keyhouse.coordinator.events import BaseBegun, BaseEnded, BaseLog, BaseSecrets, Event
from keyhouse.coordinator.state import Running
from keyhouse.coordinator.update_log import LogView

__all__ = ["base_events"]

SECRET_BYTES = 64 * 1024
"""Secrets are gathered into a piece until it holds this much."""

LOG_LINES = 1000
"""Lines of the update log in a piece."""


def base_events(state: Running, log: LogView) -> Iterator[Event]:
    """Yield the events that rebuild ``state`` and ``log``, lazily: state first, then log."""
    yield BaseBegun(
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
    )
    for secrets in _pieces(state.secrets):
        yield BaseSecrets(secrets=secrets)
    for secrets in _pieces(state.previous):
        yield BaseSecrets(secrets=secrets, previous=True)
    for lines in _chunks(log.lines(), LOG_LINES):
        yield BaseLog(lines=lines)
    yield BaseEnded(secrets=len(state.secrets), previous=len(state.previous), log_lines=len(log))


def _pieces(secrets: Map[str, StoredSecret]) -> Iterator[dict[str, StoredSecret]]:
    piece: dict[str, StoredSecret] = {}
    size = 0
    for name in sorted(secrets):  # a map's own order differs from process to process
        value = piece[name] = secrets[name]
        size += len(name) + len(value.private) + len(value.public) + len(value.cert)
        if size >= SECRET_BYTES:
            yield piece
            piece, size = {}, 0
    if piece:
        yield piece


def _chunks(lines: Iterable[bytes], size: int) -> Iterator[tuple[bytes, ...]]:
    remaining = iter(lines)
    while chunk := tuple(islice(remaining, size)):
        yield chunk
