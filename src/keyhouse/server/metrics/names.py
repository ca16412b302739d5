"""Every metric of Keyhouse: its name, meaning and labels.

The names without ``keyhouse_`` belong to the interface (``docs/reference/metrics.md``). Anonymous
clients cannot increase the number of label values: labels are paths of the routes, methods of HTTP,
and names of the manifest.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple


class MetricDescription(NamedTuple):
    """A metric. The names of counters end with ``_total``, and no other names do."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    is_histogram: bool = False

    @property
    def kind(self) -> Literal["counter", "gauge", "histogram"]:
        """The type of the metric in the terms of Prometheus."""
        if self.is_histogram:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"


_HTTP: Final = "server_client_api_http"

_CALL: Final = ("grpc_method", "grpc_service", "grpc_type")

_ALL: Final = (
    MetricDescription(
        "coordinator_state", "1: recovery mode, 2: waits for a manifest, 3: running, 0: broken"
    ),
    MetricDescription(
        "coordinator_version_info",
        "always 0, as the interface demands; the labels are the information",
        ("version", "commit"),
    ),
    MetricDescription("keyhouse_simulation", "1: simulation, proves and protects nothing"),
    MetricDescription(
        f"{_HTTP}_request_total", "answers of the Client API", ("path", "code", "method")
    ),
    MetricDescription(
        f"{_HTTP}_request_duration_histogram_seconds",
        "seconds from a complete head to the answer",
        ("path", "method"),
        is_histogram=True,
    ),
    MetricDescription(
        f"{_HTTP}_request_size_histogram_bytes",
        "bytes of head and body of requests",
        ("path",),
        is_histogram=True,
    ),
    MetricDescription(
        f"{_HTTP}_response_size_histogram_bytes",
        "bytes of the bodies of answers",
        ("path",),
        is_histogram=True,
    ),
    MetricDescription(
        f"{_HTTP}_in_flight_requests", "admitted requests without an answer yet", ("path",)
    ),
    MetricDescription("keyhouse_connections", "open connections of the Client API"),
    MetricDescription(
        "keyhouse_connections_turned_away_total",
        "refused connections of the Client API, over the limit",
    ),
    MetricDescription(
        "keyhouse_handshake_failures_total",
        "connections of the Client API that ended in the handshake",
    ),
    MetricDescription("grpc_server_started_total", "calls of the workload API", _CALL),
    MetricDescription(
        "grpc_server_handled_total", "ended calls of the workload API", ("grpc_code", *_CALL)
    ),
    MetricDescription(
        "grpc_server_msg_received_total", "complete requests of the workload API", _CALL
    ),
    MetricDescription(
        "grpc_server_msg_sent_total", "successful answers of the workload API", _CALL
    ),
    MetricDescription(
        "keyhouse_workload_calls_in_flight",
        "workload calls that run, or whose answer is not yet received",
    ),
    MetricDescription("keyhouse_workload_connections", "open connections of the workload API"),
    MetricDescription(
        "keyhouse_workload_connections_turned_away_total",
        "refused connections of the workload API, over the limit",
    ),
    MetricDescription(
        "keyhouse_workload_handshake_failures_total",
        "connections of the workload API that ended in the handshake (no certificate, no h2)",
    ),
    MetricDescription(
        "coordinator_marble_activations_total",
        "activation requests; type=unknown counts types outside of the manifest",
        ("type",),
    ),
    MetricDescription(
        "coordinator_marble_activations_success_total", "successful activations", ("type",)
    ),
    MetricDescription(
        "keyhouse_activations_refused_total",
        "refused activations, by error code",
        ("code",),
    ),
    MetricDescription(
        "keyhouse_activations_without_quote_total",
        "successful activations without a quote, which exist in simulation only",
    ),
    MetricDescription(
        "keyhouse_activations_unrecorded",
        "answered activations whose journal record follows within a second",
    ),
    MetricDescription(
        "keyhouse_renewals_total", "renewed certificates of running workloads", ("type",)
    ),
    MetricDescription(
        "keyhouse_channel_refused_total",
        "refused calls of running workloads, by method and error code",
        ("method", "code"),
    ),
    MetricDescription(
        "keyhouse_lineages",
        "workloads that renew certificates, by state: current, ended, renew, restored or revoked",
        ("type", "state"),
    ),
    MetricDescription("keyhouse_watches", "open streams of Watch"),
    MetricDescription(
        "keyhouse_watch_messages_total", "messages of streams of Watch after their first message"
    ),
    MetricDescription(
        "keyhouse_watches_refused_total", "refused streams of Watch, over the limit of connections"
    ),
    MetricDescription("keyhouse_former_roots", "former marble roots that workloads still trust"),
    MetricDescription(
        "keyhouse_overlap_end_seconds",
        "end of the trust in all former marble roots, seconds since 1970",
    ),
    MetricDescription("keyhouse_revoked_platforms", "revoked platforms"),
    MetricDescription("keyhouse_changes_total", "submitted changes", ("outcome",)),
    MetricDescription("keyhouse_changes_waiting", "changes that wait for the next commit"),
    MetricDescription("keyhouse_commit_changes", "changes per commit", is_histogram=True),
    MetricDescription("keyhouse_commit_duration_seconds", "seconds of a commit", is_histogram=True),
    MetricDescription(
        "keyhouse_journal_epoch",
        "epoch of the journal: each compaction and each full update begins an epoch",
    ),
    MetricDescription("keyhouse_journal_sequence", "records since the beginning of the journal"),
    MetricDescription(
        "keyhouse_journal_base_bytes", "bytes of the base: the state at the beginning of the epoch"
    ),
    MetricDescription("keyhouse_journal_since_base_bytes", "bytes of the records after the base"),
    MetricDescription("keyhouse_log_leaves", "leaves of the transparency log"),
    MetricDescription(
        "keyhouse_log_witnessed_leaves", "leaves of the log that a quorum of witnesses has cosigned"
    ),
    MetricDescription(
        "keyhouse_held", "1: the coordinator serves no secret until witnesses have cosigned"
    ),
    MetricDescription(
        "keyhouse_clock_followed",
        "0: the host's clock is more than a year ahead of the journal, and is ignored",
    ),
    MetricDescription(
        "keyhouse_clock_jumps_total",
        "jumps of the host's clock to more than a year ahead of the journal",
    ),
    MetricDescription("keyhouse_quotes_total", "requests for a fresh quote", ("outcome",)),
    MetricDescription(
        "keyhouse_collateral_expiry_seconds",
        "earliest end of the collateral in use, with AMD's revocation lists, seconds since 1970",
    ),
    MetricDescription("keyhouse_collateral_fetches_total", "fetches from a PCCS", ("outcome",)),
    MetricDescription(
        "keyhouse_secret_certificate_expiry_seconds",
        "end of a shared or uploaded certificate, seconds since 1970",
        ("secret",),
    ),
    MetricDescription(
        "keyhouse_user_certificate_expiry_seconds",
        "end of a user's certificate, seconds since 1970; expired, it still identifies the user",
        ("user",),
    ),
)

METRICS: Final[Mapping[str, MetricDescription]] = MappingProxyType(
    {metric.name: metric for metric in _ALL}
)
