"""Metrics as Prometheus text, written a little at a time so that requests are not kept waiting."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Final

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

SLICE: Final = 100
"""Samples that are written at once: each takes some 10 us."""


class _Piece(Collector):
    """Some samples of one metric, in the form that the client library writes."""

    def __init__(self, family: Metric, samples: Iterable[Sample]) -> None:
        self._metric = Metric(family.name, family.documentation, family.type)
        self._metric.samples = list(samples)

    def collect(self) -> Iterator[Metric]:
        """Yield it."""
        yield self._metric


async def text_of(families: Iterable[Metric]) -> bytes:
    """Return all of ``families``; other work of the event loop continues meanwhile."""
    return b"".join([piece async for piece in _pieces(families)])


def lines_of(family: Metric) -> tuple[bytes, bytes]:
    """Return the head of a metric's text, and the lines of its samples."""
    lines = generate_latest(_Piece(family, family.samples)).split(b"\n", 2)
    return b"\n".join(lines[:2]) + b"\n", lines[2]


async def _pieces(families: Iterable[Metric]) -> AsyncIterator[bytes]:
    for family in families:
        samples = iter(family.samples)
        first = list(islice(samples, SLICE))
        yield generate_latest(_Piece(family, first))
        await asyncio.sleep(0)
        while more := list(islice(samples, SLICE)):
            yield generate_latest(_Piece(family, more)).split(b"\n", 2)[2]
            await asyncio.sleep(0)
