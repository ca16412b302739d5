"""Every metric of Keyhouse's own: what it is called, counts, and is split by.

The names without ``keyhouse_`` are those of the interface (wire reference, "Observability").
Labels take few values, whatever anonymous clients send: paths of the table of routes, methods of
HTTP, names of the manifest.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple


class Described(NamedTuple):
    """One metric. The name of a counter ends with ``_total``."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


_HTTP: Final = "server_client_api_http"

_CALL: Final = ("grpc_method", "grpc_service", "grpc_type")

_ALL: Final = (
    Described("coordinator_state", "gauge", (), "phase as in GET /api/v2/status; 0: broken"),
    Described("coordinator_version_info", "gauge", ("version", "commit"), "always 0"),
    Described("keyhouse_simulation", "gauge", (), "1: simulation, proves and protects nothing"),
    Described(
        f"{_HTTP}_request_total", "counter", ("path", "code", "method"), "answers of the Client API"
    ),
    Described(
        f"{_HTTP}_request_duration_histogram_seconds",
        "histogram",
        ("path", "method"),
        "from a complete head to the answer",
    ),
    Described(
        f"{_HTTP}_request_size_histogram_bytes", "histogram", ("path",), "head and body of requests"
    ),
    Described(
        f"{_HTTP}_response_size_histogram_bytes", "histogram", ("path",), "bodies of answers"
    ),
    Described(
        f"{_HTTP}_in_flight_requests", "gauge", ("path",), "requests admitted and not answered"
    ),
    Described("keyhouse_connections", "gauge", (), "open connections of the Client API"),
    Described(
        "keyhouse_connections_turned_away_total", "counter", (), "connections over the limit"
    ),
    Described(
        "keyhouse_handshake_failures_total", "counter", (), "connections that never came to HTTP"
    ),
    Described("grpc_server_started_total", "counter", _CALL, "calls of the workload API"),
    Described(
        "grpc_server_handled_total", "counter", ("grpc_code", *_CALL), "calls that have ended"
    ),
    Described("grpc_server_msg_received_total", "counter", _CALL, "whole requests"),
    Described("grpc_server_msg_sent_total", "counter", _CALL, "answers of success"),
    Described(
        "keyhouse_workload_calls_in_flight", "gauge", (), "calls that run or wait to be taken"
    ),
    Described("keyhouse_workload_connections", "gauge", (), "open connections of the workload API"),
    Described(
        "keyhouse_workload_connections_turned_away_total", "counter", (), "those over the limit"
    ),
    Described(
        "keyhouse_workload_handshake_failures_total",
        "counter",
        (),
        "connections that never came to gRPC: no certificate, no h2",
    ),
    Described(
        "coordinator_marble_activations_total",
        "counter",
        ("type",),
        "requests of workloads to join; unknown: types that the manifest does not have",
    ),
    Described(
        "coordinator_marble_activations_success_total", "counter", ("type",), "workloads that did"
    ),
    Described(
        "keyhouse_activations_refused_total",
        "counter",
        ("code",),
        "workloads that did not, by the code of the error",
    ),
    Described(
        "keyhouse_activations_without_quote_total",
        "counter",
        (),
        "workloads that joined without a quote, as they can in simulation only",
    ),
    Described(
        "keyhouse_activations_unrecorded", "gauge", (), "activations that wait for their record"
    ),
    Described("keyhouse_changes_total", "counter", ("outcome",), "changes that were submitted"),
    Described("keyhouse_changes_waiting", "gauge", (), "changes that wait for the next commit"),
    Described("keyhouse_commit_changes", "histogram", (), "changes that one commit made durable"),
    Described("keyhouse_commit_duration_seconds", "histogram", (), "time to make a batch durable"),
    Described("keyhouse_journal_epoch", "gauge", (), "epoch of the journal"),
    Described("keyhouse_journal_sequence", "gauge", (), "records since the journal began"),
    Described("keyhouse_journal_base_bytes", "gauge", (), "records of the base of the epoch"),
    Described("keyhouse_journal_since_base_bytes", "gauge", (), "records since that base"),
    Described(
        "keyhouse_clock_followed",
        "gauge",
        (),
        "0: the host's clock is more than a year ahead of what is known and is not followed",
    ),
    Described(
        "keyhouse_clock_jumps_total", "counter", (), "times that the host's clock went that far"
    ),
    Described("keyhouse_quotes_total", "counter", ("outcome",), "requests for a fresh quote"),
    Described(
        "keyhouse_collateral_expiry_seconds",
        "gauge",
        (),
        "end of the collateral in use that ends first, AMD's lists too, seconds since 1970",
    ),
    Described("keyhouse_collateral_fetches_total", "counter", ("outcome",), "fetches from a PCCS"),
    Described(
        "keyhouse_secret_certificate_expiry_seconds",
        "gauge",
        ("secret",),
        "end of a shared or uploaded certificate, seconds since 1970",
    ),
    Described(
        "keyhouse_user_certificate_expiry_seconds",
        "gauge",
        ("user",),
        "end of a user's certificate, seconds since 1970; it identifies the user also after that",
    ),
)

METRICS: Final[Mapping[str, Described]] = MappingProxyType({metric.name: metric for metric in _ALL})
