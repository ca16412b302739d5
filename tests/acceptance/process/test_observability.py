"""A real coordinator that is watched: scrapes, events, and what never shows in them."""

import base64
import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.process.server import PATIENCE, Client, Server, free_port
from support.samples.deployment import user
from support.samples.expiry import manifest_with

from keyhouse.server.client_api import ROUTES
from keyhouse.server.metrics.names import METRICS

pytestmark = pytest.mark.acceptance

CANARY = b"canary-9f31c2"  # 13 bytes of every value that must never show
END = datetime(2035, 6, 7, 8, 9, 10, tzinfo=UTC)
TOTAL = "server_client_api_http_request_total"


class Reply(NamedTuple):
    """An answer of the metrics listener."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Samples:
    """One scrape, read by the parser of the Prometheus client."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds: dict[str, str] = {}
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            total = family.name + "_total" if family.type == "counter" else family.name
            self.kinds[total] = family.type
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.values, "a sample twice"
                self.values[key] = sample.value

    def get(self, name: str, **labels: str) -> float | None:
        """Return the value of one sample, None if there is none."""
        return self.values.get((name, frozenset(labels.items())))

    def labels(self, label: str) -> set[str]:
        """Return the values that ``label`` has anywhere."""
        return {value for _, found in self.values for name, value in found if name == label}


class Watched:
    """A coordinator with a metrics listener."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.server = Server(folder, arguments=("--metrics-addr", f"127.0.0.1:{self.port}"))

    def ask(self, method: str, path: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, headers, answer.read())
        finally:
            connection.close()

    def scrape(self) -> Samples:
        reply = self.ask("GET", "/metrics")
        assert reply.status == 200
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return Samples(reply.body.decode())


@pytest.fixture(scope="module")
def raw() -> bytes:
    """A manifest with a user whose certificate ends soon, and with certificates."""
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    return manifest_with(
        {"ann": END, "bob": soon},
        {"web": {"Type": "cert-ecdsa", "Size": 256, "Shared": True, "Cert": {}}},
    )


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> Iterator[Watched]:
    """A coordinator that runs, with a canary in each value that a user can upload."""
    found = Watched(tmp_path_factory.mktemp("watched") / "state")
    with found.server:
        with found.server.client() as nobody:
            assert nobody.set_manifest(raw).status == 200
        with found.server.client(user("writer")) as writer:
            assert writer.upload({"key0": CANARY + b"key", "note": CANARY}).status == 200
        yield found


def test_without_an_address_there_is_no_listener(tmp_path: Path) -> None:
    server = Server(tmp_path / "state", environment={"KEYHOUSE_METRICS_ADDR": ""})
    with server, server.client() as nobody:
        assert nobody.get("/api/v2/status").status == 200

    assert "serving metrics" not in server.logged()


@pytest.mark.parametrize("variable", ["KEYHOUSE_METRICS_ADDR", "EDG_COORDINATOR_PROMETHEUS_ADDR"])
def test_address_comes_from_the_environment_as_well(tmp_path: Path, variable: str) -> None:
    watched = Watched(tmp_path / "unused")
    watched.server = Server(tmp_path / "state", environment={variable: f"127.0.0.1:{watched.port}"})
    with watched.server:
        before = watched.scrape()

    assert before.get("coordinator_state") == 2
    assert before.get("keyhouse_journal_epoch") is None


def test_address_in_use_stops_the_start_in_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = Server(tmp_path / "state", arguments=("--metrics-addr", f"127.0.0.1:{port}"))
        with pytest.raises(AssertionError):
            server.start()

    assert f"127.0.0.1 port {port}: " in server.logged()
    assert server.process is not None
    assert server.process.wait(PATIENCE) == 1


def test_all_that_is_described_is_scraped_with_its_kind_and_labels(watched: Watched) -> None:
    with watched.server.client() as nobody:
        nobody.get("/api/v2/status")
    found = watched.scrape()

    ours = {name: kind for name, kind in found.kinds.items() if name in METRICS}
    others = {name.split("_")[0] for name in found.kinds.keys() - METRICS.keys()}
    assert ours == {name: described.kind for name, described in METRICS.items()}
    assert others == {"process", "python"}
    for name, labels in found.values:
        base = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        described = METRICS.get(name, METRICS.get(base))
        if described is not None:
            assert {label for label, _ in labels} - {"le"} == set(described.labels)


def test_each_path_has_its_requests_in_flight_also_while_there_are_none(watched: Watched) -> None:
    name = "server_client_api_http_in_flight_requests"
    found = watched.scrape()

    paths = {dict(labels)["path"] for of, labels in found.values if of == name}
    assert paths == {route.path for route in ROUTES}
    assert {found.get(name, path=path) for path in paths} == {0}


def test_coordinator_journal_and_changes_are_told(watched: Watched) -> None:
    found = watched.scrape()

    assert found.get("coordinator_state") == 3
    assert found.get("keyhouse_simulation") == 1
    assert found.get("coordinator_version_info", version="0.1.0", commit="unknown") == 0
    assert found.get("keyhouse_journal_epoch") == 1
    assert (found.get("keyhouse_journal_sequence") or 0) >= 2
    assert (found.get("keyhouse_journal_base_bytes") or 0) > 1000
    assert found.get("keyhouse_log_leaves") == 4
    assert found.get("keyhouse_held") is None
    assert found.get("keyhouse_changes_total", outcome="accepted") == 2
    assert found.get("keyhouse_commit_changes_sum") == 2
    assert (found.get("keyhouse_commit_duration_seconds_sum") or 0) > 0
    assert (found.get("process_resident_memory_bytes") or 0) > 1_000_000


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "label"),
    [
        ("GET", "/api/v2/status", None, 200, "/api/v2/status"),
        ("GET", "/api/v2/manifest?a=b", None, 200, "/api/v2/manifest"),
        ("GET", "/status", None, 200, "/status"),
        ("GET", "/api/v2/secrets?s=key0", None, 401, "/api/v2/secrets"),
        ("PUT", "/api/v2/status", None, 405, "/api/v2/status"),
        ("GET", "/api/v2/no-such", None, 405, "unknown"),
        ("GET", "/api/v2/status/", None, 405, "unknown"),
        ("GET", "/%F0%9F%94%91%22%7D", None, 405, "unknown"),
        ("BREW", "/coffee", None, 405, "unknown"),
        ("POST", "/api/v2/recover", bytes(20_481), 0, "/api/v2/recover"),
        ("POST", "/api/v2/manifest", b"{}", 409, "/api/v2/manifest"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_answer_moves_exactly_its_counter(
    watched: Watched, method: str, path: str, body: bytes | None, code: int, label: str
) -> None:
    before = watched.scrape()
    with watched.server.client() as nobody:
        answer = nobody.call(method, path, body)
    after = watched.scrape()

    assert code in {0, answer.status}
    known = method.lower() if method != "BREW" else "unknown"
    moved = {
        key: value - before.values.get(key, 0)
        for key, value in after.values.items()
        if key[0] == TOTAL and value != before.values.get(key, 0)
    }
    expected = {"path": label, "code": str(answer.status), "method": known}
    assert moved == {(TOTAL, frozenset(expected.items())): 1}
    duration = "server_client_api_http_request_duration_histogram_seconds_count"
    was = before.get(duration, path=label, method=known) or 0
    assert after.get(duration, path=label, method=known) == was + 1


def test_body_over_the_limit_is_counted_under_its_path(watched: Watched) -> None:
    with watched.server.client(user("writer")) as writer:
        head = f"POST /api/v2/secrets HTTP/1.1\r\nHost: a\r\nContent-Length: {10**9}\r\n\r\n"
        writer.connection.connect()
        writer.connection.sock.sendall(head.encode())
        assert writer.connection.sock.recv(12) == b"HTTP/1.1 413"

    assert watched.scrape().get(TOTAL, path="/api/v2/secrets", code="413", method="post") == 1


def test_anonymous_clients_make_no_labels(watched: Watched) -> None:
    before = watched.scrape()
    with watched.server.client() as nobody:
        for number in range(300):
            nobody.call("GET" if number % 2 else f"M{number}", f"/{CANARY.decode()}/{number}")
    after = watched.scrape()

    new = {labels for name, labels in after.values.keys() - before.values.keys() if name == TOTAL}
    assert len(new) <= 2
    assert after.labels("path") <= {"unknown", *before.labels("path")}
    assert CANARY.decode() not in after.text


def test_failed_handshake_and_fresh_quote_are_counted(watched: Watched) -> None:
    before = watched.scrape()
    with socket.create_connection(("127.0.0.1", watched.server.port), timeout=30) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while stranger.recv(4096):
            pass
    with watched.server.client() as nobody:
        assert nobody.get("/api/v2/quote?nonce=AAAA").status == 200
    after = watched.scrape()

    failures, quotes = "keyhouse_handshake_failures_total", "keyhouse_quotes_total"
    assert after.get(failures) == (before.get(failures) or 0) + 1
    made = before.get(quotes, outcome="made") or 0
    assert after.get(quotes, outcome="made") == made + 1


def test_ends_of_certificates_carry_the_names_of_the_manifest_and_no_others(
    watched: Watched, raw: bytes
) -> None:
    found = watched.scrape()

    assert found.labels("user") == set(json.loads(raw)["Users"])
    assert found.labels("secret") == {"web"}
    expiry = "keyhouse_user_certificate_expiry_seconds"
    assert found.get(expiry, user="ann") == END.timestamp()


def test_certificate_that_ends_soon_is_warned_of_in_the_log(watched: Watched) -> None:
    lines = [json.loads(line) for line in watched.server.logged().splitlines()]

    warned = [line for line in lines if line["event"].startswith("the certificate of a user")]
    assert [(line["level"], line["user"]) for line in warned] == [("warning", '"bob"')]


@pytest.mark.parametrize("form", [bytes, base64.b64encode, lambda value: value.hex().encode()])
def test_no_value_of_a_secret_is_shown(watched: Watched, form: type[bytes]) -> None:
    with watched.server.client(user("writer")) as writer:
        assert writer.secrets(["note"]) == {"note": CANARY}
        private = [writer.secrets(["key0"])["key0"] or b"", CANARY]
    shown = watched.ask("GET", "/metrics").body + watched.ask("GET", "/events").body

    assert all(form(value)[:12] not in shown for value in private)


def test_events_are_an_empty_array_before_any_activation(watched: Watched) -> None:
    reply = watched.ask("GET", "/events")

    assert reply.headers["content-type"] == "application/json"
    assert json.loads(reply.body) == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/metrics", 200),
        ("HEAD", "/events", 200),
        ("POST", "/metrics", 405),
        ("DELETE", "/events", 405),
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("POST", "/nothing", 404),
        ("GET", "/api/v2/status", 404),
    ],
)
def test_only_its_paths_can_be_read(watched: Watched, method: str, path: str, status: int) -> None:
    reply = watched.ask(method, path)

    assert reply.status == status
    if method == "HEAD":
        assert reply.body == b""
        assert int(reply.headers["content-length"]) > 0
    elif status != 200:
        assert json.loads(reply.body)["status"] == "error"
        assert (reply.headers.get("allow") == "GET, HEAD") == (status == 405)


def test_it_is_live_and_ready_in_each_phase(watched: Watched, tmp_path: Path) -> None:
    """Also one in recovery mode: it has no other beside it, and waits for keys."""
    assert [watched.ask("GET", path).status for path in ("/live", "/ready")] == [200, 200]
    fresh = Watched(tmp_path / "fresh")
    with fresh.server:
        assert [fresh.ask("GET", path).status for path in ("/live", "/ready")] == [200, 200]


def test_watching_is_not_counted_as_using_the_client_api(watched: Watched) -> None:
    before = watched.scrape()
    for _ in range(5):
        watched.ask("GET", "/nothing")
    after = watched.scrape()

    assert {key: value for key, value in after.values.items() if key[0] == TOTAL} == {
        key: value for key, value in before.values.items() if key[0] == TOTAL
    }


def test_many_scrapes_at_once_are_all_whole(watched: Watched) -> None:
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda _: watched.scrape(), range(64)))

    assert {one.get("coordinator_state") for one in found} == {3}
    # The last of all, which may well be 0.
    last = [one.get("python_gc_collections_total", generation="2") for one in found]
    assert None not in last


def test_stop_ends_both_listeners(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "state")
    with watched.server as server, socket.create_connection(("127.0.0.1", watched.port)) as idle:
        client = Client(server.port)
        assert client.get("/api/v2/status").status == 200
        assert server.stop() == 0
        assert idle.recv(1) == b""
        client.close()
