"""Every metric of Keyhouse: its name, meaning and labels.

The names without ``keyhouse_`` belong to the interface (wire reference, "Observability"). Anonymous
clients cannot increase the number of label values: labels are paths of the routes, methods of HTTP,
and names of the manifest.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple


class Described(NamedTuple):
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
    Described(
        "coordinator_state", "1: recovery mode, 2: waits for a manifest, 3: running, 0: broken"
    ),
    Described(
        "coordinator_version_info",
        "always 0, as the interface demands; the labels are the information",
        ("version", "commit"),
    ),
    Described("keyhouse_simulation", "1: simulation, proves and protects nothing"),
    Described(f"{_HTTP}_request_total", "answers of the Client API", ("path", "code", "method")),
    Described(
        f"{_HTTP}_request_duration_histogram_seconds",
        "seconds from a complete head to the answer",
        ("path", "method"),
        is_histogram=True,
    ),
    Described(
        f"{_HTTP}_request_size_histogram_bytes",
        "bytes of head and body of requests",
        ("path",),
        is_histogram=True,
    ),
    Described(
        f"{_HTTP}_response_size_histogram_bytes",
        "bytes of the bodies of answers",
        ("path",),
        is_histogram=True,
    ),
    Described(f"{_HTTP}_in_flight_requests", "admitted requests without an answer yet", ("path",)),
    Described("keyhouse_connections", "open connections of the Client API"),
    Described(
        "keyhouse_connections_turned_away_total",
        "refused connections of the Client API, over the limit",
    ),
    Described(
        "keyhouse_handshake_failures_total",
        "connections of the Client API that ended in the handshake",
    ),
    Described("grpc_server_started_total", "calls of the workload API", _CALL),
    Described(
        "grpc_server_handled_total", "ended calls of the workload API", ("grpc_code", *_CALL)
    ),
    Described("grpc_server_msg_received_total", "complete requests of the workload API", _CALL),
    Described("grpc_server_msg_sent_total", "successful answers of the workload API", _CALL),
    Described(
        "keyhouse_workload_calls_in_flight",
        "workload calls that run, or whose answer is not yet received",
    ),
    Described("keyhouse_workload_connections", "open connections of the workload API"),
    Described(
        "keyhouse_workload_connections_turned_away_total",
        "refused connections of the workload API, over the limit",
    ),
    Described(
        "keyhouse_workload_handshake_failures_total",
        "connections of the workload API that ended in the handshake (no certificate, no h2)",
    ),
    Described(
        "coordinator_marble_activations_total",
        "activation requests; the type unknown stands for types outside of the manifest",
        ("type",),
    ),
    Described("coordinator_marble_activations_success_total", "successful activations", ("type",)),
    Described(
        "keyhouse_activations_refused_total",
        "refused activations, by error code",
        ("code",),
    ),
    Described(
        "keyhouse_activations_without_quote_total",
        "successful activations without a quote, which exist in simulation only",
    ),
    Described(
        "keyhouse_activations_unrecorded",
        "answered activations whose journal record follows within a second",
    ),
    Described("keyhouse_changes_total", "submitted changes", ("outcome",)),
    Described("keyhouse_changes_waiting", "changes that wait for the next commit"),
    Described("keyhouse_commit_changes", "changes per commit", is_histogram=True),
    Described("keyhouse_commit_duration_seconds", "seconds of a commit", is_histogram=True),
    Described(
        "keyhouse_journal_epoch",
        "epoch of the journal: each compaction and each full update begins an epoch",
    ),
    Described("keyhouse_journal_sequence", "records since the beginning of the journal"),
    Described(
        "keyhouse_journal_base_bytes", "bytes of the base: the state at the beginning of the epoch"
    ),
    Described("keyhouse_journal_since_base_bytes", "bytes of the records after the base"),
    Described("keyhouse_log_leaves", "leaves of the transparency log"),
    Described(
        "keyhouse_log_witnessed_leaves", "leaves of the log that a quorum of witnesses has cosigned"
    ),
    Described("keyhouse_held", "1: the coordinator serves no secret until witnesses have cosigned"),
    Described(
        "keyhouse_clock_followed",
        "0: the host's clock is more than a year ahead of the journal, and is ignored",
    ),
    Described(
        "keyhouse_clock_jumps_total",
        "jumps of the host's clock to more than a year ahead of the journal",
    ),
    Described("keyhouse_quotes_total", "requests for a fresh quote", ("outcome",)),
    Described(
        "keyhouse_collateral_expiry_seconds",
        "earliest end of the collateral in use, including AMD's lists, seconds since 1970",
    ),
    Described("keyhouse_collateral_fetches_total", "fetches from a PCCS", ("outcome",)),
    Described(
        "keyhouse_secret_certificate_expiry_seconds",
        "end of a shared or uploaded certificate, seconds since 1970",
        ("secret",),
    ),
    Described(
        "keyhouse_user_certificate_expiry_seconds",
        "end of a user's certificate, seconds since 1970; an expired one still identifies the user",
        ("user",),
    ),
)

METRICS: Final[Mapping[str, Described]] = MappingProxyType({metric.name: metric for metric in _ALL})
