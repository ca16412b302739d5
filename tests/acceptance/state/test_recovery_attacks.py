"""Recovery under attack and under kills, against real processes over HTTPS."""

import base64
import json
import os
import random
import shutil
import ssl
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from support.peers.abuse import Wire, in_parallel, open_wires
from support.process.command import Ended, run
from support.process.server import Client, Reply, Server
from support.samples.crafted import keys_of_a_root
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

from keyhouse.authority import read_recovery_index, recovery_index
from keyhouse.authority.recovery.index import IndexHolder
from keyhouse.base.secret import Secret
from keyhouse.journal.directory.index_file import IndexFile

pytestmark = pytest.mark.acceptance

KEYS = holders(3)


class Lost:
    """A deployment of three holders, two of them needed, whose sealed key is gone."""

    def __init__(self, folder: Path, keys: Sequence[Holder] = KEYS) -> None:
        self.folder = folder
        self.server = Server(folder / "data")
        with self.server, self.server.client() as client:
            reply = client.set_manifest(recoverable(list(keys), 2))
            chain = client.get("/api/v2/quote").data["cert"]
        ciphertexts = ciphertexts_of(reply)
        self.shares = {each.name: each.share(ciphertexts[each.name]) for each in keys}
        (folder / "root.pem").write_text(chain)
        (folder / "recovery.json").write_text(json.dumps(reply.data))
        for each in keys:
            (folder / f"{each.name}.key").write_bytes(each.private_pem)
        self.lose()

    def lose(self) -> None:
        """Let the sealed key be gone."""
        (self.server.data / "sealed_key").unlink()

    def give(self, client: Client, by: Holder) -> Reply:
        """Hand in the share of ``by``, plain."""
        share = self.shares[by.name]
        return hand_in(client, share, by.sign(share))

    def command(self, by: Holder, *words: str) -> Ended:
        """Run ``keyhouse recover`` as ``by``."""
        return run(
            *("recover", "recovery.json", f"127.0.0.1:{self.server.port}"),
            *("--key", f"{by.name}.key"),
            *("--attestation", "data/simulation/attestation.json"),
            *("--simulation-root", "data/simulation/root.pem"),
            *words,
            folder=self.folder,
        )

    def phase(self) -> int:
        """Ask the running coordinator for its phase."""
        with self.server.client() as client:
            return int(client.get("/api/v2/status").data["code"])


def _is_closed(client: Client) -> bool:
    """Tell whether the coordinator closed the connection, which it was not asked for."""
    try:
        return client.connection.sock.recv(1) == b""
    except ConnectionResetError:
        return True


def _served(port: int) -> bytes:
    pem = ssl.get_server_certificate(("127.0.0.1", port))
    return ssl.PEM_cert_to_DER_cert(pem)


def test_connections_under_the_temporary_root_end_and_new_ones_see_the_old_root(
    tmp_path: Path,
) -> None:
    lost = Lost(tmp_path)
    root = lost.folder.joinpath("root.pem").read_text().split("-----END CERTIFICATE-----\n")[1]
    kept = ssl.PEM_cert_to_DER_cert(root + "-----END CERTIFICATE-----\n")
    with lost.server, lost.server.client() as idle, lost.server.client() as last:
        assert idle.get("/api/v2/status").data["code"] == 1
        assert _served(lost.server.port) != kept
        assert lost.give(last, KEYS[0]).data["remaining"] == 1
        reply = lost.give(last, KEYS[1])
        assert reply.data["remaining"] == 0
        assert reply.headers["connection"] == "close"
        assert _is_closed(idle)
        assert _served(lost.server.port) == kept
        assert lost.phase() == 3
    log = lost.server.logged()
    for share in lost.shares.values():
        for shown in (share.hex(), base64.b64encode(share).decode()):
            assert shown not in log


def test_refused_manifest_and_bad_uploads_between_two_shares_spoil_nothing(tmp_path: Path) -> None:
    lost = Lost(tmp_path)
    share = lost.shares[KEYS[1].name]
    with lost.server, lost.server.client() as client:
        assert lost.give(client, KEYS[0]).data["remaining"] == 1
        assert client.set_manifest(b"{}").status == 400
        assert client.set_manifest(b"not JSON").status == 400
        refused = hand_in(client, share, KEYS[0].sign(share))
        assert (refused.status, refused.envelope["status"]) == (400, "error")
        assert '"rk1"' in refused.envelope["message"]
        repeated = lost.give(client, KEYS[0])
        assert (repeated.status, repeated.envelope["status"]) == (400, "error")
        public = ephemeral_key(client)
        undecryptable = hand_in(client, os.urandom(512), KEYS[1].sign(share))
        assert (undecryptable.status, undecryptable.envelope["status"]) == (400, "fail")
        for body in (b"", b"{", b"{}", b'{"recoverySecret": "AAA"}', b'{"recoverySecret": "AAAA"}'):
            reply = client.call("POST", "/api/v2/recover", body)
            assert (reply.status, reply.envelope["status"]) == (400, "fail"), body
        assert lost.phase() == 1
        last = hand_in(client, encrypted(public, share), KEYS[1].sign(share))
        assert last.data["remaining"] == 0
        assert lost.phase() == 3


def test_ciphertexts_can_be_fetched_again_by_who_may_update(tmp_path: Path) -> None:
    lost = Lost(tmp_path)
    with lost.server:
        with lost.server.client() as client:
            for by in KEYS[:2]:
                lost.give(client, by)
        with lost.server.client(user("admin")) as admin:
            found = admin.get("/api/v2/recovery-secrets").data["recoverySecrets"]
        with lost.server.client(user("writer")) as writer:
            assert writer.get("/api/v2/recovery-secrets").status == 403
        with lost.server.client() as nobody:
            assert nobody.get("/api/v2/recovery-secrets").status == 401
    assert found == json.loads((tmp_path / "recovery.json").read_text())["RecoverySecrets"]
    for each in KEYS:
        assert each.share(base64.b64decode(found[each.name])) == lost.shares[each.name]


def test_holder_sends_nothing_when_the_keys_of_the_index_are_replaced(tmp_path: Path) -> None:
    lost = Lost(tmp_path)
    path = lost.server.data / "recovery_index"
    true = path.read_bytes()
    file = IndexFile.decode(true, name="recovery_index")
    index, attacker = read_recovery_index(file.content).index, keys_of_a_root()
    mine = tuple(
        IndexHolder(each.name, other.public_key, each.share_hash)
        for each, other in zip(index.holders, index.holders[::-1], strict=True)
    )
    false = msgspec.structs.replace(index, holders=mine, root_cert=attacker.root_cert)
    content = recovery_index(false, keys=attacker, mac_key=Secret(bytes(32)))
    path.write_bytes(IndexFile(file.store_id, file.epoch, content).encode())
    with lost.server:
        ended = lost.command(KEYS[0], "--root", "root.pem")
        assert ended.code == 4, ended.err
        assert "not have the root certificate that you kept" in ended.err
    path.write_bytes(true)
    with lost.server:
        for by in KEYS[:2]:
            ended = lost.command(by, "--root", "root.pem")
            assert ended.code == 0, ended.err
        assert lost.phase() == 3


def test_holder_sends_nothing_to_a_deployment_that_the_attacker_set_up(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "theirs").mkdir()
    attackers = [holder("attacker"), holder("another attacker"), holder("third attacker")]
    lost, other = Lost(tmp_path / "mine"), Lost(tmp_path / "theirs", attackers)
    for name in ("journal.db", "recovery_index"):
        shutil.copy2(other.server.data / name, lost.server.data / name)
    with lost.server:
        for words, said in (
            (("--root", "root.pem"), "not have the root certificate that you kept"),
            (("--unverified-deployment",), "your key is not among the recovery keys"),
        ):
            ended = lost.command(KEYS[0], *words)
            assert ended.code == 4, ended.err
            assert said in ended.err
        with lost.server.client() as client:
            assert client.get("/api/v2/recover/public-key").data["received"] == []
            assert lost.give(client, KEYS[0]).status == 400


GARBAGE = 10_000
WIRES = 20


@pytest.mark.timeout(240)
def test_ten_thousand_garbage_uploads_do_not_lock_the_holders_out(tmp_path: Path) -> None:
    lost = Lost(tmp_path)
    share = lost.shares[KEYS[0].name]
    with lost.server, lost.server.client() as client:
        public = ephemeral_key(client)
        stranger = holder("attacker")
        kinds = [
            (os.urandom(512), os.urandom(256)),  # what looks like an encrypted share
            (encrypted(public, share), os.urandom(256)),
            (encrypted(public, os.urandom(33)), stranger.sign(share)),
            (os.urandom(33), KEYS[0].sign(share)),  # what looks like a plain one
            (os.urandom(32), b"x"),
            (b"x" * 5000, b"y" * 5000),
        ]
        requests = [_request(*kind) for kind in kinds]

        def flood(wires: list[Wire], counts: list[Counter[int]]) -> None:
            counts += in_parallel(WIRES, WIRES, lambda number: _send(wires[number], requests))

        with open_wires(lost.server, WIRES) as wires:
            counts: list[Counter[int]] = []
            attack = threading.Thread(target=flood, args=(wires, counts))
            attack.start()
            assert lost.give(client, KEYS[0]).data["remaining"] == 1
            assert attack.is_alive()  # the holder was served in the midst of it
            attack.join()
        assert sum(counts, Counter[int]()) == Counter({400: GARBAGE})
        with lost.server.client() as later:  # the attack may last longer than a connection idles
            assert later.get("/api/v2/recover/public-key").data["received"] == [KEYS[0].name]
            assert lost.give(later, KEYS[2]).data["remaining"] == 0
        assert lost.phase() == 3


def _send(wire: Wire, requests: Sequence[bytes]) -> Counter[int]:
    found: Counter[int] = Counter()
    for turn in range(GARBAGE // WIRES):
        found[_answered(wire, requests[turn % len(requests)])] += 1
    return found


def _request(secret: bytes, signature: bytes) -> bytes:
    names = ("recoverySecret", "recoverySecretSignature")
    values = (base64.b64encode(part).decode() for part in (secret, signature))
    body = json.dumps(dict(zip(names, values, strict=True))).encode()
    head = f"POST /api/v2/recover HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _answered(wire: Wire, request: bytes) -> int:
    wire.send(request)
    found = wire.tls.recv(65536)
    while b"\r\n\r\n" not in found or not found.endswith(b"}\n"):
        found += wire.tls.recv(65536)
    return int(found[9:12])


@pytest.mark.timeout(240)
def test_a_kill_at_any_moment_leaves_recovery_mode_or_the_recovered_state(tmp_path: Path) -> None:
    lost = Lost(tmp_path)
    manifest = recoverable(list(KEYS), 2)
    chance = random.Random(3)  # noqa: S311 moments, not keys
    seen: Counter[int] = Counter()
    for _ in range(12):
        answered: list[int] = []
        lost.server.start()
        if lost.phase() == 1:
            client = lost.server.client()
            assert lost.give(client, KEYS[0]).data["remaining"] == 1

            def recover(client: Client = client, answered: list[int] = answered) -> None:
                try:
                    answered.append(lost.give(client, KEYS[1]).status)
                except OSError:  # the connection died with the process
                    return

            uploading = threading.Thread(target=recover)
            uploading.start()
            uploading.join(chance.random() * 0.08)
            lost.server.kill()
            uploading.join()
            client.close()
        else:
            lost.server.kill()
        lost.server.start()
        phase = lost.phase()
        assert phase in {1, 3}
        assert phase == 3 or not answered  # what was answered has happened
        with lost.server.client() as client:
            if phase == 3:
                raw = base64.b64decode(client.get("/api/v2/manifest").data["manifest"])
                assert raw == manifest
            else:
                assert client.get("/api/v2/manifest").status == 404
        lost.server.kill()
        seen[phase] += 1
        if phase == 3:
            lost.lose()
    lost.server.start()
    with lost.server.client() as client:
        for by in KEYS[1:]:
            lost.give(client, by)
    assert lost.phase() == 3
    assert lost.server.stop() == 0
    print(f"after kills: {dict(seen)}")  # noqa: T201 - which moments were hit is the machine's
