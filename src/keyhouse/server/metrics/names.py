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
    Described("coordinator_state", "phase, as keyhouse status prints it; 0: broken"),
    Described("coordinator_version_info", "always 0", ("version", "commit")),
    Described("keyhouse_simulation", "1: simulation, proves and protects nothing"),
    Described(f"{_HTTP}_request_total", "answers of the Client API", ("path", "code", "method")),
    Described(
        f"{_HTTP}_request_duration_histogram_seconds",
        "from a complete head to the answer",
        ("path", "method"),
        is_histogram=True,
    ),
    Described(
        f"{_HTTP}_request_size_histogram_bytes",
        "head and body of requests",
        ("path",),
        is_histogram=True,
    ),
    Described(
        f"{_HTTP}_response_size_histogram_bytes", "bodies of answers", ("path",), is_histogram=True
    ),
    Described(f"{_HTTP}_in_flight_requests", "requests admitted and not answered", ("path",)),
    Described("keyhouse_connections", "open connections of the Client API"),
    Described("keyhouse_connections_turned_away_total", "connections over the limit"),
    Described("keyhouse_handshake_failures_total", "connections that never came to HTTP"),
    Described("grpc_server_started_total", "calls of the workload API", _CALL),
    Described("grpc_server_handled_total", "calls that have ended", ("grpc_code", *_CALL)),
    Described("grpc_server_msg_received_total", "whole requests", _CALL),
    Described("grpc_server_msg_sent_total", "answers of success", _CALL),
    Described("keyhouse_workload_calls_in_flight", "calls that run or wait to be taken"),
    Described("keyhouse_workload_connections", "open connections of the workload API"),
    Described("keyhouse_workload_connections_turned_away_total", "those over the limit"),
    Described(
        "keyhouse_workload_handshake_failures_total",
        "connections that never came to gRPC: no certificate, no h2",
    ),
    Described(
        "coordinator_marble_activations_total",
        "requests of workloads to join; unknown: types that the manifest does not have",
        ("type",),
    ),
    Described("coordinator_marble_activations_success_total", "workloads that did", ("type",)),
    Described(
        "keyhouse_activations_refused_total",
        "workloads that did not, by the code of the error",
        ("code",),
    ),
    Described(
        "keyhouse_activations_without_quote_total",
        "workloads that joined without a quote, as they can in simulation only",
    ),
    Described("keyhouse_activations_unrecorded", "activations that wait for their record"),
    Described("keyhouse_changes_total", "changes that were submitted", ("outcome",)),
    Described("keyhouse_changes_waiting", "changes that wait for the next commit"),
    Described("keyhouse_commit_changes", "changes that one commit made durable", is_histogram=True),
    Described(
        "keyhouse_commit_duration_seconds", "time to make a batch durable", is_histogram=True
    ),
    Described("keyhouse_journal_epoch", "epoch of the journal"),
    Described("keyhouse_journal_sequence", "records since the journal began"),
    Described("keyhouse_journal_base_bytes", "records of the base of the epoch"),
    Described("keyhouse_journal_since_base_bytes", "records since that base"),
    Described("keyhouse_log_leaves", "leaves of the transparency log"),
    Described("keyhouse_log_witnessed_leaves", "those that a quorum of witnesses has cosigned"),
    Described("keyhouse_held", "1: nothing secret is served until witnesses have cosigned"),
    Described(
        "keyhouse_clock_followed",
        "0: the host's clock is more than a year ahead of what is known and is not followed",
    ),
    Described("keyhouse_clock_jumps_total", "times that the host's clock went that far"),
    Described("keyhouse_quotes_total", "requests for a fresh quote", ("outcome",)),
    Described(
        "keyhouse_collateral_expiry_seconds",
        "end of the collateral in use that ends first, AMD's lists too, seconds since 1970",
    ),
    Described("keyhouse_collateral_fetches_total", "fetches from a PCCS", ("outcome",)),
    Described(
        "keyhouse_secret_certificate_expiry_seconds",
        "end of a shared or uploaded certificate, seconds since 1970",
        ("secret",),
    ),
    Described(
        "keyhouse_user_certificate_expiry_seconds",
        "end of a user's certificate, seconds since 1970; it identifies the user also after that",
        ("user",),
    ),
)

METRICS: Final[Mapping[str, Described]] = MappingProxyType({metric.name: metric for metric in _ALL})
