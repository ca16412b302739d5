"""The listener for those who watch: ``/metrics`` and ``/events``, plain HTTP, nobody is asked who.

Everything on it is public. Several scrapes at a time share one writing of the metrics.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import CollectorRegistry

from keyhouse.server.client_api import envelope
from keyhouse.server.http.exchange import Admission, Answer, Head, Refusal
from keyhouse.server.http.listener import Listener
from keyhouse.server.metrics.certificates import CertificateMetrics
from keyhouse.server.metrics.families import Sources, families
from keyhouse.server.metrics.text import text_of
from keyhouse.server.net.limits import Limits
from keyhouse.server.net.plain_transport import PLAINTEXT
from keyhouse.server.services.events import Events

CONNECTIONS: Final = 64
"""Connections to the metrics listener at a time: it answers machines, and few of them."""

_LIMITS: Final = Limits(connections=CONNECTIONS, body_memory=64 * 1024, linger_bytes=64 * 1024)
_METHODS: Final = ("GET", "HEAD")
_PATHS: Final = ("/metrics", "/events")
_TEXT: Final = ((b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode("ascii")),)


class Observability:
    """Implements ``Application`` over what is counted."""

    def __init__(self, sources: Sources, events: Events) -> None:
        self._sources = sources
        self._events = events
        self._certificates = CertificateMetrics()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)
        self._writing: asyncio.Task[bytes] | None = None

    def admit(self, head: Head) -> Answer | Admission:
        """Answer ``/events`` at once; let ``/metrics`` be written."""
        if head.path not in _PATHS:
            return envelope.error(404, "there is nothing here; try /metrics or /events")
        if head.method not in _METHODS:
            allow = (b"allow", ", ".join(_METHODS).encode())
            return envelope.error(405, "this can only be read", (allow,))
        if head.path == "/events":
            return Answer(200, self._events.as_json())
        return Admission(0, self._metrics)

    def refuse(self, refusal: Refusal) -> Answer:
        """Word what the protocol refuses."""
        hint = f" ({refusal.hint})" if refusal.hint else ""
        return envelope.error(refusal.status, refusal.message + hint)

    async def _metrics(self, body: bytes) -> Answer:
        """Answer all metrics. Who comes while they are written gets what is being written."""
        del body
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._written())
        # Shielded: one watcher who leaves does not take the text from the others.
        return Answer(200, await asyncio.shield(self._writing), _TEXT)

    async def _written(self) -> bytes:
        own = await text_of(families(self._sources))
        certificates = await self._certificates.text(self._sources.engine.view.state)
        # It reads /proc, and a directory there with an entry for each connection.
        process = await asyncio.to_thread(self._collect_process)
        return own + certificates + await text_of(process)

    def _collect_process(self) -> Iterable[Metric]:
        return list(self._process.collect())


def metrics_listener(sources: Sources, events: Events) -> Listener:
    """Return the listener, not started yet."""
    return Listener(Observability(sources, events), PLAINTEXT, _LIMITS)
