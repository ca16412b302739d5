"""All metrics as families of the Prometheus client, from the counts of other rooms.

No metric is registered globally, and no work is done before a scrape. The text is written in
pieces, so that requests do not wait.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Final, NamedTuple

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample as MetricSample

from keyhouse.attestation.sources.selection import CollateralHealth
from keyhouse.base.histogram import Tally
from keyhouse.coordinator import Engine, Running, State, policy_of
from keyhouse.coordinator.core.lineages import GRACE, trusted_roots
from keyhouse.server.http.counts import RequestCounts
from keyhouse.server.http.listener import Listener
from keyhouse.server.metrics.names import METRICS
from keyhouse.server.services.activation_outcomes import ActivationCounts
from keyhouse.server.services.quotes import Quotes
from keyhouse.server.workload_api.listener import WorkloadListener

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, in the order of the labels, and the value of the sample."""

_HTTP: Final = "server_client_api_http"
_SECOND: Final = 1_000_000  # microseconds


class Sources(NamedTuple):
    """The objects of the coordinator with the counts for metrics.

    ``listener`` serves the Client API, and ``requests`` counts its answers. ``collateral`` is None
    if the platform has no collateral.
    """

    engine: Engine
    quotes: Quotes
    listener: Listener
    workloads: WorkloadListener
    activations: ActivationCounts
    requests: RequestCounts
    version: str
    simulated: bool
    collateral: CollateralHealth | None


def families(sources: Sources) -> Iterator[Metric]:
    """Yield the present value of every metric, except the metrics of certificates."""
    yield from _coordinator(sources)
    yield from _requests(sources.requests)
    yield from _connections(sources)
    yield from _calls(sources.workloads)
    yield from _activations(sources.activations, sources.engine)
    yield from _living(sources)
    yield from _changes(sources.engine)
    yield from _journal(sources.engine)
    yield from _public_log(sources.engine)
    yield _plain("keyhouse_clock_followed", sources.engine.current.clock.is_followed)
    yield _plain("keyhouse_clock_jumps_total", sources.engine.current.clock.jumps)
    yield labelled("keyhouse_quotes_total", _by_outcome(sources.quotes.counts))
    yield from _collateral(sources.collateral)


def _collateral(health: CollateralHealth | None) -> Iterator[Metric]:
    """Yield the metrics of collateral. Without collateral there are no samples."""
    end = health.expires() if health else None
    fetches = health.fetches() if health else {}
    name = "keyhouse_collateral_expiry_seconds"
    yield labelled(name, [((), end.timestamp())] if end else [])
    yield labelled("keyhouse_collateral_fetches_total", _by_outcome(fetches))


def labelled(name: str, samples: Iterable[Sample]) -> Metric:
    """Return the gauge or counter ``name`` of ``METRICS`` with ``samples``."""
    described = METRICS[name]
    kind = GaugeMetricFamily if described.kind == "gauge" else CounterMetricFamily
    family = kind(name, described.help, labels=described.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _plain(name: str, value: float) -> Metric:
    return labelled(name, [((), value)])


def _histogram(name: str, tallies: Iterable[tuple[tuple[str, ...], Tally]]) -> Metric:
    described = METRICS[name]
    family = HistogramMetricFamily(name, described.help, labels=described.labels)
    for labels, tally in tallies:
        buckets = [(_bound(bound), float(count)) for bound, count in tally.cumulative()]
        family.add_metric(labels, buckets, tally.total)
    return family


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else f"{bound:g}"


def _by_outcome(counts: Mapping[str, int]) -> list[Sample]:
    return [((outcome,), count) for outcome, count in counts.items()]


def _coordinator(sources: Sources) -> Iterator[Metric]:
    engine = sources.engine
    yield _plain("coordinator_state", 0 if engine.queue.broken else engine.view.phase)
    # A built distribution does not contain the commit, but the interface has the label.
    yield labelled("coordinator_version_info", [((sources.version, "unknown"), 0)])
    yield _plain("keyhouse_simulation", sources.simulated)


def _requests(counts: RequestCounts) -> Iterator[Metric]:
    """Yield the metrics of requests one by one: each is costly if many labels are in use."""
    yield labelled(f"{_HTTP}_request_total", counts.answers().items())
    durations = counts.durations()
    yield _histogram(f"{_HTTP}_request_duration_histogram_seconds", durations.items())
    sizes = counts.request_sizes()
    yield _histogram(f"{_HTTP}_request_size_histogram_bytes", sizes.items())
    sizes = counts.response_sizes()
    yield _histogram(f"{_HTTP}_response_size_histogram_bytes", sizes.items())


def _connections(sources: Sources) -> Iterator[Metric]:
    listener, label = sources.listener, sources.requests.label
    # If a gauge disappeared at 0, users could not distinguish 0 from a stopped coordinator.
    in_flight = dict.fromkeys(sorted(sources.requests.paths), 0)
    for path, count in listener.in_flight().items():
        in_flight[label(path)] = in_flight.get(label(path), 0) + count
    yield labelled(
        f"{_HTTP}_in_flight_requests", [((path,), count) for path, count in in_flight.items()]
    )
    yield _plain("keyhouse_connections", len(listener.connections))
    yield _plain("keyhouse_connections_turned_away_total", listener.turned_away)
    yield _plain("keyhouse_handshake_failures_total", listener.connections.failed_handshakes)


def _calls(workloads: WorkloadListener) -> Iterator[Metric]:
    counts = workloads.service.counts
    yield labelled("grpc_server_started_total", counts.started.items())
    handled = (((status.label, *call), count) for (status, *call), count in counts.handled.items())
    yield labelled("grpc_server_handled_total", handled)
    yield labelled("grpc_server_msg_received_total", counts.received.items())
    yield labelled("grpc_server_msg_sent_total", counts.sent.items())
    yield _plain("keyhouse_workload_calls_in_flight", workloads.service.calls.held)
    yield _plain("keyhouse_workload_connections", len(workloads.connections))
    yield _plain("keyhouse_workload_connections_turned_away_total", workloads.turned_away)
    yield _plain(
        "keyhouse_workload_handshake_failures_total", workloads.connections.failed_handshakes
    )


def _activations(counts: ActivationCounts, engine: Engine) -> Iterator[Metric]:
    """Yield the metrics of activations, without the label ``uuid``: it would grow forever."""
    yield labelled("coordinator_marble_activations_total", _by_outcome(counts.attempts))
    yield labelled("coordinator_marble_activations_success_total", _by_outcome(counts.successes))
    yield labelled("keyhouse_activations_refused_total", _by_outcome(counts.refusals))
    yield _plain("keyhouse_activations_without_quote_total", counts.without_quote)
    yield _plain("keyhouse_activations_unrecorded", len(engine.queue.unrecorded))


def _living(sources: Sources) -> Iterator[Metric]:
    """Yield the metrics of running workloads, except the metrics of their lineages."""
    channel, connections = sources.workloads.channel, sources.workloads.connections
    renewed = {} if channel is None else channel.renewed
    yield labelled("keyhouse_renewals_total", _by_outcome(renewed))
    refused = {} if channel is None else channel.refused
    yield labelled("keyhouse_channel_refused_total", refused.items())
    watches = None if channel is None else channel.watches
    yield _plain("keyhouse_watches", 0 if watches is None else len(watches))
    messages = 0 if watches is None else watches.messages
    yield _plain("keyhouse_watch_messages_total", messages)
    yield _plain("keyhouse_watches_refused_total", connections.unprotected)
    state = sources.engine.view.state
    running = state if isinstance(state, Running) else None
    roots = () if running is None else trusted_roots(running, sources.engine.current.now())
    yield _plain("keyhouse_former_roots", len(roots))
    last = [max(root.until for root in roots) / _SECOND] if roots else []
    yield labelled("keyhouse_overlap_end_seconds", [((), end) for end in last])
    platforms = () if running is None else running.revoked_platforms
    yield _plain("keyhouse_revoked_platforms", len(platforms))


def _changes(engine: Engine) -> Iterator[Metric]:
    counts = engine.queue.counts
    yield labelled("keyhouse_changes_total", _by_outcome(counts.changes))
    yield _plain("keyhouse_changes_waiting", len(engine.queue.waiting))
    yield _histogram("keyhouse_commit_changes", [((), counts.batch)])
    yield _histogram("keyhouse_commit_duration_seconds", [((), counts.commit)])


def _public_log(engine: Engine) -> Iterator[Metric]:
    """Yield the metrics of the log. Without a log, or without witnesses, there are no samples."""
    state, lease = engine.view.state, engine.lease
    log = state.public_log if isinstance(state, Running) else None
    numbers = {
        "keyhouse_log_leaves": log.frontier.size if log is not None else None,
        "keyhouse_log_witnessed_leaves": lease.witnessed if lease.policies else None,
        "keyhouse_held": bool(lease.is_enforced and lease.held) if lease.policies else None,
    }
    for name, number in numbers.items():
        yield labelled(name, [] if number is None else [((), number)])


def _journal(engine: Engine) -> Iterator[Metric]:
    """Yield the metrics of the journal. Without a journal there are no samples."""
    position, journal = engine.view.position, engine.writer.journal
    weight = None if journal is None else journal.weight
    numbers = {
        "keyhouse_journal_epoch": position.epoch if position else None,
        "keyhouse_journal_sequence": position.sequence if position else None,
        "keyhouse_journal_base_bytes": weight.base if weight else None,
        "keyhouse_journal_since_base_bytes": weight.since if weight else None,
    }
    for name, number in numbers.items():
        yield labelled(name, [] if number is None else [((), number)])


SLICE: Final = 100
"""Samples that are written without a pause: each needs about 10 us."""


class _Piece(Collector):
    """Some ``samples`` of the metric ``family``, as a collector of the library prometheus_client.

    A metric with many samples is written in such pieces, so that requests do not wait.
    """

    def __init__(self, family: Metric, samples: Iterable[MetricSample]) -> None:
        self._metric = Metric(family.name, family.documentation, family.type)
        self._metric.samples = list(samples)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric with the samples of this piece."""
        yield self._metric


async def text_of(families: Iterable[Metric]) -> bytes:
    """Return the text of all ``families``. Other work of the event loop continues in between."""
    return b"".join([piece async for piece in _pieces(families)])


def lines_of(family: Metric) -> tuple[bytes, bytes]:
    """Return the text of a metric in two parts: the lines with help and type, and the samples."""
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


LINEAGES: Final = 2000
"""Lineages that are counted without a pause: about a millisecond."""

_STATES: Final = ("current", "ended", "renew", "restored", "revoked")


async def lineage_text(state: State, now: int) -> bytes:
    """Return the number of lineages by marble type and state. ``now``: microseconds since 1970.

    Counting takes up to 50 ms for 100,000 lineages, so other work has turns in between. A lineage
    is *ended* if its certificate has ended, but may still be renewed. The workload of such a
    lineage has stopped, or cannot renew.
    """
    counts: Counter[tuple[str, str]] = Counter()
    if isinstance(state, Running):
        marbles = policy_of(state.manifest).manifest.marbles
        renewable = sorted(name for name, marble in marbles.items() if marble.renewal is not None)
        counts.update(dict.fromkeys(product(renewable, _STATES), 0))
        for number, lineage in enumerate(state.lineages.values(), 1):
            if now <= lineage.end + GRACE:
                found = lineage.standing or ("ended" if now > lineage.end else "current")
                counts[lineage.marble_type, found] += 1
            if number % LINEAGES == 0:
                await asyncio.sleep(0)
    return await text_of([labelled("keyhouse_lineages", counts.items())])
