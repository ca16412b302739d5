"""Calls that cost much and are open to all: quotes with a nonce, and first manifests."""

import base64
import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.peers.abuse import (
    MIB,
    PATIENCE,
    Wire,
    besieged,
    in_parallel,
    open_wires,
    processor_time,
)
from support.peers.answers import checked
from support.process.server import Reply, Server
from support.samples.deployment import manifest

pytestmark = pytest.mark.acceptance

_FLOOD = 1000  # quotes
_MOST_COST = 40  # of refusing 16 MiB of one string, which have to be decoded and read


def test_a_flood_of_nonces_keeps_nobody_out(tmp_path: Path) -> None:
    """100 connections ask for ten fresh quotes each, without a pause, and get every one."""

    def ask(wire: Wire) -> Counter[int]:
        statuses: Counter[int] = Counter()
        for _ in range(_FLOOD // 100):
            wire.send(b"GET /api/v2/quote?nonce=AAAA HTTP/1.1\r\nHost: a\r\n\r\n")
            found = wire.tls.recv(65536)
            while b"\r\n\r\n" not in found or not found.endswith(b"}\n"):
                found += wire.tls.recv(65536)
            statuses[int(found[9:12])] += 1
        return statuses

    with besieged(tmp_path, manifest(), growth=64) as server, open_wires(server, 100) as wires:
        counts = in_parallel(len(wires), 100, lambda number: ask(wires[number]))
    total = sum(counts, Counter[int]())
    assert total == {200: _FLOOD}


def test_a_hundred_quotes_to_sign_at_once_are_signed_in_turn(tmp_path: Path) -> None:
    def sign(number: int) -> int:
        with server.client() as client:
            quote = client.get(f"/api/v2/quote?nonce={number:04}").data["quote"]
            ready.wait(PATIENCE)
            return client.post("/api/v2/sign-quote", {"sgxQuote": quote}).status

    ready = threading.Barrier(100)
    with besieged(tmp_path, manifest(FeatureGates=["SignQuoteEndpoint"]), growth=64) as server:
        assert in_parallel(100, 100, sign) == [200] * 100


def with_secrets(**secrets: dict[str, Any]) -> bytes:
    content = json.loads(manifest())
    content["Secrets"].update(secrets)
    return json.dumps(content).encode()


def numbered(count: int, secret: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"s{number}": secret for number in range(count)}


KEY = {"Type": "symmetric-key", "Shared": True}
RSA = {"Type": "cert-rsa", "Shared": True, "Cert": {}}
HOSTILE = {
    "a gigabyte key": (with_secrets(s={**KEY, "Size": 8 * 10**9}), "Secrets.s.Size"),
    "a key beyond numbers": (with_secrets(s={**KEY, "Size": 10**30}), "Secrets.s.Size"),
    "a gigabyte of small keys": (
        with_secrets(**numbered(1000, {**KEY, "Size": 8 * MIB})),
        "Secrets",
    ),
    "ten RSA keys of 8192 bits": (with_secrets(**numbered(10, {**RSA, "Size": 8192})), "Secrets"),
    "an RSA key of 65536 bits": (with_secrets(s={**RSA, "Size": 65536}), "Secrets.s.Size"),
    "a thousand RSA keys": (with_secrets(**numbered(1000, {**RSA, "Size": 2048})), "Secrets"),
    "deep nesting": (b'{"Packages":' * 1_000_000, ""),
    "deep lists": (b"[" * 10_000_000, ""),
    "16 MiB of garbage": (bytes(range(256)) * (16 * MIB // 256), ""),
    "16 MiB of digits": (b"9" * 16 * MIB, ""),
    "16 MiB of one string": (b'"' + b"a" * (16 * MIB - 2) + b'"', ""),
}


@pytest.fixture(scope="module")
def accepting(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One coordinator that waits for its manifest, for all that it must refuse."""
    with besieged(tmp_path_factory.mktemp("manifests"), None, growth=450) as server:
        yield server


@pytest.fixture(scope="module")
def cheapest(accepting: Server) -> int:
    """The processor time of refusing a manifest that is as long as may be, and simple."""
    used = [cost(accepting, HOSTILE["16 MiB of one string"][0])[1] for _ in range(3)]
    return max(1, *used)


def cost(server: Server, raw: bytes) -> tuple[Reply, int]:
    """Return the answer to a manifest, and the processor time that it took."""
    before = processor_time(server)
    with server.client() as client:
        reply = checked(client.set_manifest(raw))
        assert client.get("/api/v2/status").data["status"] == 2
    return reply, processor_time(server) - before


def sent(server: Server, raw: bytes, cheapest: int) -> Reply:
    """Return the answer to a manifest, which took no more than many times the ``cheapest``."""
    reply, used = cost(server, raw)
    print(f"{used / cheapest:.1f} times the cheapest, {cheapest}")  # noqa: T201 - shown by -s
    assert used < _MOST_COST * cheapest
    return reply


@pytest.mark.parametrize("name", HOSTILE)
def test_a_manifest_that_asks_for_too_much_is_refused_by_name(
    accepting: Server, cheapest: int, name: str
) -> None:
    raw, place = HOSTILE[name]
    reply = sent(accepting, raw, cheapest)
    assert reply.status == 400
    places = [problem["at"] for problem in reply.envelope["data"]["problems"]]
    assert place in places


def test_a_million_secrets_are_refused(accepting: Server, cheapest: int) -> None:
    """In 16 MiB there is no room for a million; as many as fit are too many values."""
    entries = ",".join(f'"s{number}":{{}}' for number in range(1_000_000))
    raw = ('{"Secrets":{' + entries + "}}").encode()
    assert len(raw) < 16 * MIB
    assert sent(accepting, raw, cheapest).status == 400


def test_a_manifest_over_the_limit_is_refused_before_it_is_read(
    accepting: Server, cheapest: int
) -> None:
    assert sent(accepting, b" " * (16 * MIB + 1), cheapest).status == 413


def test_of_twenty_manifests_at_once_exactly_one_is_set(tmp_path: Path) -> None:
    bodies = [
        json.dumps(
            {"manifest": base64.b64encode(with_secrets(**{f"own{number}": KEY | {"Size": 128}}))
             .decode()}
        ).encode()
        for number in range(20)
    ]  # fmt: skip

    def send(number: int) -> int:
        with server.client() as client:
            return checked(client.call("POST", "/api/v2/manifest", bodies[number])).status

    with besieged(tmp_path, None, growth=100) as server:
        statuses = in_parallel(20, 20, send)
        with server.client() as client:
            stored = base64.b64decode(client.get("/api/v2/manifest").data["manifest"])
    assert statuses.count(200) == 1
    assert set(statuses) == {200, 409}
    winner = f"own{statuses.index(200)}"
    assert winner in json.loads(stored)["Secrets"]
