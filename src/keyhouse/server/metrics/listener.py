"""The listener for monitoring, over plain HTTP: metrics, events, and readiness.

There is no authentication, because all content is public. The listener runs as long as the process.
Metrics and events are available while the coordinator answers clients. Simultaneous scrapes share
one text.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import CollectorRegistry

from keyhouse.coordinator import Engine, Recovering
from keyhouse.server.client_api.answers import enveloped, error
from keyhouse.server.http.exchange import Admission, Answer, Head, ProtocolRefusal
from keyhouse.server.http.listener import Listener
from keyhouse.server.metrics.certificates import CertificateMetrics
from keyhouse.server.metrics.families import Sources, families, lineage_text, text_of
from keyhouse.server.net.limits import Limits
from keyhouse.server.net.plain_transport import PLAINTEXT
from keyhouse.server.services.events import Events

CONNECTIONS: Final = 64
"""Simultaneous connections to the metrics listener: few programs use it."""

_LIMITS: Final = Limits(connections=CONNECTIONS, body_memory=64 * 1024, linger_bytes=64 * 1024)
_METHODS: Final = ("GET", "HEAD")
_PATHS: Final = ("/metrics", "/events", "/live", "/ready")
_TEXT: Final = ((b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode("ascii")),)


class _Exports(NamedTuple):
    sources: Sources
    events: Events


class Observability:
    """The HTTP application of the metrics listener."""

    def __init__(self) -> None:
        self._exports: _Exports | None = None
        self._certificates = CertificateMetrics()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)
        self._writing: asyncio.Task[bytes] | None = None

    @contextmanager
    def exporting(self, sources: Sources, events: Events) -> Iterator[None]:
        """Serve ``sources`` and ``events`` until the context ends."""
        self._exports = _Exports(sources, events)
        try:
            yield
        finally:
            self._exports = None

    def admit(self, head: Head) -> Answer | Admission:
        """Return the answer; for ``/metrics`` an admission, because its text takes time."""
        if head.path not in _PATHS:
            return error(404, f"this path is not served (use {' or '.join(_PATHS)})")
        if head.method not in _METHODS:
            allow = (b"allow", ", ".join(_METHODS).encode())
            return error(405, f"this method is not served (use {' or '.join(_METHODS)})", (allow,))
        if head.path == "/live":
            return enveloped(b'"live"')
        if self._exports is None:
            return _unready("the process starts, waits for another coordinator, or stops")
        return self._admit(head.path, self._exports)

    def _admit(self, path: str, exports: _Exports) -> Answer | Admission:
        if path == "/ready":
            reason = _not_ready(exports.sources)
            return _unready(reason) if reason else enveloped(b'"ready"')
        if path == "/events":
            return Answer(200, exports.events.as_json())
        return Admission(0, self._metrics)

    def refuse(self, refusal: ProtocolRefusal) -> Answer:
        """Return the answer to a request that the HTTP server refuses."""
        hint = f" ({refusal.hint})" if refusal.hint else ""
        return error(refusal.status, refusal.message + hint)

    async def _metrics(self, body: bytes) -> Answer:
        """Return all metrics as text.

        Simultaneous requests receive the same text, which is created once.
        """
        del body
        if self._exports is None:
            return _unready("the process stops")
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._written(self._exports.sources))
        # Shielded: a client that disconnects must not cancel the text of the other clients.
        return Answer(200, await asyncio.shield(self._writing), _TEXT)

    async def _written(self, sources: Sources) -> bytes:
        own = await text_of(families(sources))
        certificates = await self._certificates.text(sources.engine.view.state)
        engine = sources.engine
        lineages = await lineage_text(engine.view.state, engine.current.now())
        # This reads /proc, and a directory there with an entry for each connection.
        process = await asyncio.to_thread(self._collect_process)
        return own + certificates + lineages + await text_of(process)

    def _collect_process(self) -> Iterable[Metric]:
        return list(self._process.collect())


def metrics_listener(observability: Observability) -> Listener:
    """Return the listener for monitoring. The caller starts it."""
    return Listener(observability, PLAINTEXT, _LIMITS)


def _not_ready(sources: Sources) -> str:
    """Return why clients should use another coordinator, or "" if this coordinator is ready.

    In recovery mode, a coordinator with its own store is ready, because it waits for recovery
    shares and there is no other coordinator.
    """
    engine: Engine = sources.engine
    if not sources.listener.is_listening:
        return "the process does not serve clients yet"
    if not engine.is_settled:
        return "the store does not answer, or the outcome of a change is not known"
    if engine.process.shares_store and isinstance(engine.view.state, Recovering):
        return "the coordinator is in recovery mode"
    if engine.process.shares_store and engine.lease.is_enforced and engine.lease.held:
        return "witnesses have not cosigned the state that the coordinator would serve"
    return ""


def _unready(reason: str) -> Answer:
    later = (b"retry-after", b"1")
    return error(503, f"this coordinator is not ready: {reason} (try again later)", (later,))
