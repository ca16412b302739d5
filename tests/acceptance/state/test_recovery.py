"""A lost machine, and the holders of the recovery keys who bring its state back: over HTTPS."""

import base64
import hashlib
import ssl
from pathlib import Path

import pytest
from support.process.machine import lose_the_machine
from support.process.server import Client, Server
from support.samples.deployment import user
from support.samples.recovery import (
    Holder,
    ciphertexts_of,
    encrypted,
    ephemeral_key,
    hand_in,
    holder,
    holders,
    recoverable,
)

pytestmark = pytest.mark.acceptance


def _set_up(server: Server, keys: list[Holder], threshold: int = 0) -> dict[str, bytes]:
    """Run a deployment until it has a secret; return its plain shares. It is stopped then."""
    with server:
        with server.client() as client:
            ciphertexts = ciphertexts_of(client.set_manifest(recoverable(keys, threshold)))
        with server.client(user("writer")) as client:
            assert client.upload({"key0": b"what must come b"}).status == 200
    return {each.name: each.share(ciphertexts[each.name]) for each in keys}


def _position(client: Client) -> tuple[int, int]:
    """Return epoch and sequence of the journal."""
    epoch, sequence, _ = client.get("/api/v2/status").headers["keyhouse-state"].split(".")
    return int(epoch), int(sequence)


def _proves(evidence: dict[str, str]) -> None:
    """Hold the quote to the root certificate beside it."""
    root = evidence["cert"].partition("-----END CERTIFICATE-----\n")[2]
    bound = hashlib.sha256(ssl.PEM_cert_to_DER_cert(root)).digest()
    assert bound + bytes(32) in base64.b64decode(evidence["quote"])


def _lose_the_sealed_key(data: Path) -> None:
    (data / "sealed_key").unlink()


@pytest.mark.parametrize(("count", "threshold"), [(1, 0), (3, 0), (3, 2)], ids=["1", "xor", "2of3"])
def test_enough_holders_bring_everything_back_again_and_again(
    tmp_path: Path, count: int, threshold: int
) -> None:
    keys = holders(count)
    server = Server(tmp_path / "data")
    shares = _set_up(server, keys, threshold)
    needed = threshold or count
    with server, server.client() as client:
        before = client.get("/api/v2/manifest").data, client.get("/api/v2/quote").data["cert"]
        position = _position(client)
    for turn, lose in enumerate((_lose_the_sealed_key, lose_the_machine)):
        lose(tmp_path / "data")
        uploading = keys[turn : turn + needed] if threshold else keys[::-1]
        with server:
            with server.client() as client:
                assert client.get("/api/v2/status").data["code"] == 1
                for number, each in enumerate(uploading):
                    share = shares[each.name]
                    sent = share
                    if number % 2 == turn:
                        sent = encrypted(ephemeral_key(client), share)
                    with server.client() as another:
                        reply = hand_in(another, sent, each.sign(share))
                    assert reply.data["remaining"] == needed - number - 1
            with server.client() as client:
                assert client.get("/api/v2/status").data["code"] == 3
                after = (
                    client.get("/api/v2/manifest").data,
                    client.get("/api/v2/quote").data["cert"],
                )
                assert after == before
                _proves(client.get("/api/v2/quote").data)
                assert _position(client) > position  # the journal went on
                position = _position(client)
                assert client.get("/api/v2/recover/public-key").status == 409
            with server.client(user("writer")) as client:
                assert client.secrets(["key0"]) == {"key0": b"what must come b"}
                assert client.upload({"key1": bytes([turn]) * 16}).status == 200
        with server, server.client(user("writer")) as client:
            assert client.secrets(["key0", "key1"])["key1"] == bytes([turn]) * 16


def test_old_shares_open_nothing_after_a_change_of_the_recovery_keys(tmp_path: Path) -> None:
    old, new = holders(3), [holder("rk0"), holder("rk1"), holder("the new one")]
    server = Server(tmp_path / "data")
    shares = _set_up(server, old, 2)
    with server:
        with server.client(user("admin")) as admin:
            raw = base64.b64encode(recoverable(new, 2)).decode()
            renewed = admin.post("/api/v2/update", {"manifest": raw}).data["recoverySecrets"]
        with server.client(user("writer")) as client:
            assert client.secrets(["key0"]) == {"key0": b"what must come b"}
    fresh = {each.name: each.share(base64.b64decode(renewed[each.name])) for each in new}
    _lose_the_sealed_key(tmp_path / "data")
    with server:
        with server.client() as client:
            for each in old:
                share = shares[each.name]
                assert hand_in(client, share, each.sign(share)).status == 400
            mixed = hand_in(client, fresh["rk0"], old[0].sign(fresh["rk0"]))
            assert mixed.data["remaining"] == 1
            again = shares["rk1"]
            assert hand_in(client, again, old[1].sign(again)).status == 400
            last = fresh["the new one"]
            assert hand_in(client, last, new[2].sign(last)).data["remaining"] == 0
        with server.client(user("writer")) as client:
            assert client.secrets(["key0"]) == {"key0": b"what must come b"}
