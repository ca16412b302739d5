"""Commands about the transparency log: its key, mirrors of it, and what a mirror restores."""

import json
import shutil
from pathlib import Path

import pytest
from support.cosigner import Cosigner
from support.peers.tessera import fsck
from support.process.command import Ended, run
from support.process.server import Server
from support.public_log import read_log
from support.samples.deployment import manifest, user

from keyhouse.manifest import fingerprint
from keyhouse.transparency.keys import VerifierKey

pytestmark = pytest.mark.acceptance


class Watched:
    """A coordinator, and someone who mirrors its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server(folder / "data")
        self.mirror = folder / "mirror"

    def type(self, *words: str) -> Ended:
        simulation = self.server.data / "simulation"
        return run(
            *("log", *words, "--memory", "none"),
            *("--attestation", str(simulation / "attestation.json")),
            *("--simulation-root", str(simulation / "root.pem")),
        )

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def mirrored(self) -> dict[str, object]:
        ended = self.type("mirror", self.host, str(self.mirror), "--json")
        assert ended.code == 0, ended.err
        found: dict[str, object] = json.loads(ended.out)
        return found

    def upload(self, times: int) -> None:
        with self.server.client(user("writer")) as client:
            for number in range(times):
                assert client.upload({"note": b"%d" % number}).status == 200

    def log_folder(self) -> Path:
        (found,) = (self.server.data / "log").iterdir()
        return found


@pytest.fixture(name="watched")
def _watched(tmp_path: Path) -> Watched:
    watched = Watched(tmp_path)
    with watched.server, watched.server.client() as client:
        assert client.set_manifest(manifest()).status == 200
    return watched


def test_a_mirror_is_a_whole_log_and_restores_what_the_host_lost(watched: Watched) -> None:
    folder = watched.folder
    with watched.server:
        ended = watched.type("key", watched.host, "--json")
        key = VerifierKey.read(json.loads(ended.out)["key"])
        ended = watched.type("key", watched.host, "--omniwitness")
        assert f"    PublicKey: {key}\n" in ended.out
        policy = folder / "policy"  # whose witness has yet to be given the key
        policy.write_text(f"witness A {Cosigner.ed25519('w.example').verifier}\nquorum A\n")
        demanding = (watched.host, "--witness-policy", str(policy))
        assert str(key) in watched.type("key", *demanding).out
        refused = watched.type("mirror", demanding[0], str(folder / "m"), *demanding[1:])
        assert (refused.code, "keyhouse log key HOST" in refused.err) == (4, True)
        first = watched.mirrored()
        assert (first["new"], first["missingObjects"], first["unreadLeaves"]) == (4, [], 0)
        shutil.copytree(watched.server.data / "simulation", folder / "simulation")
        watched.upload(300)
        assert watched.mirrored() == {**first, "size": 304, "new": 300}
        assert watched.mirrored()["new"] == 0
        with watched.server.client() as client:
            told = client.get("/api/v2/log/key").data
            root = client.get("/api/v2/quote").data["cert"]
    found = read_mirror(watched.mirror, root, told)
    assert len(found) == 304
    assert (watched.mirror / "object" / fingerprint(manifest())).read_bytes() == manifest()
    assert (watched.mirror / "tile/entries/000").stat().st_mode & 0o777 == 0o644

    shutil.rmtree(watched.log_folder())
    ended = run("log", "restore", str(watched.server.data), str(watched.mirror), "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["size"] == 304
    with watched.server:
        watched.upload(1)
        assert watched.mirrored() == {**first, "size": 306, "new": 2}
    for level in ("entries", "hashes"):
        assert list((watched.log_folder() / level).rglob("000"))


def test_a_check_of_the_store_looks_at_the_log(watched: Watched) -> None:
    with watched.server:
        watched.upload(300)
    data = str(watched.server.data)

    def log() -> tuple[int, dict[str, str]]:
        ended = run("store", "verify", data, "--json")
        files = json.loads(ended.out)["files"]
        (found,) = [each for each in files if each["file"].startswith("log/")]
        return ended.code, found

    code, found = log()
    objects = list((watched.log_folder() / "object").iterdir())  # starts have quotes there
    assert (code, found["found"]) == (0, f"304 leaves, {len(objects)} objects")
    for path in ("hashes/0/000", "entries/000", "checkpoint"):
        file = watched.log_folder() / path
        whole = file.read_bytes()
        file.write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
        code, found = log()
        assert (code, bool(found["problem"])) == (1, True), path
        assert "keyhouse log restore" in found["hint"]
        file.write_bytes(whole)
    (watched.log_folder() / "checkpoint").unlink()  # as after a crash before any clean stop
    code, found = log()
    assert (code, "no checkpoint yet" in found["found"]) == (0, True)
    folder = watched.server.data / "log"
    folder.chmod(0o755)
    code, found = log()
    assert (code, found["problem"]) == (1, "log has mode 0755: other users can access it")
    folder.chmod(0o700)


def test_fsck_of_others_finds_nothing_in_a_mirror(watched: Watched) -> None:
    with watched.server:
        for leaves in (10, 250, 300):  # within a bundle, to its end, and beyond another
            watched.upload(leaves)
            watched.mirrored()
            assert fsck(watched.mirror) == ""
    tile = watched.mirror / "tile/1/000.p/2"
    tile.write_bytes(bytes([tile.read_bytes()[0] ^ 1]) + tile.read_bytes()[1:])
    assert "fsck failed: failed: tile/1/000.p/2" in fsck(watched.mirror)


def test_a_mirror_notices_another_history_and_damage(watched: Watched) -> None:
    older = watched.folder / "older"
    shutil.copytree(watched.server.data, older)
    with watched.server:
        watched.upload(3)
        watched.mirrored()
    shutil.rmtree(watched.server.data)
    shutil.copytree(older, watched.server.data)
    kept = (watched.mirror / "checkpoint").read_bytes()
    with watched.server:
        ended = watched.type("mirror", watched.host, str(watched.mirror))
        assert (ended.code, ended.out) == (4, "")
        assert "leaves; it had" in ended.err
        watched.upload(9)
        ended = watched.type("mirror", watched.host, str(watched.mirror))
        assert (ended.code, ended.out) == (4, "")
        assert "the log does not continue the mirror" in ended.err
        assert (watched.mirror / "checkpoint").read_bytes() == kept
        tile = watched.mirror / "tile/0/000.p" / kept.split(b"\n")[1].decode()
        raw = tile.read_bytes()
        tile.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        ended = watched.type("mirror", watched.host, str(watched.mirror))
        assert ended.code == 1
        assert "is damaged" in ended.err
        other = watched.folder / "other"
        other.mkdir()
        (other / "a-file").write_bytes(b"")
        ended = watched.type("mirror", watched.host, str(other))
        assert "not a mirror" in ended.err


def test_only_what_verifies_is_restored(watched: Watched) -> None:
    with watched.server:
        watched.upload(5)
        watched.mirrored()
    data = str(watched.server.data)
    bundle = next((watched.mirror / "tile/entries").rglob("*.p/*"))
    whole = bundle.read_bytes()
    kept = shutil.copytree(watched.log_folder(), watched.folder / "kept")
    shutil.rmtree(watched.log_folder())
    bundle.write_bytes(whole[:-3] + b"...")
    ended = run("log", "restore", data, str(watched.mirror))
    assert ended.code == 1
    assert "stated root" in ended.err
    assert not (watched.server.data / "log" / kept.name / "entries").exists()
    bundle.write_bytes(whole)
    (watched.mirror / "key").unlink()
    ended = run("log", "restore", data, str(watched.mirror))
    assert "key of its log" in ended.err
    ended = run("log", "restore", data, f"http://{watched.host}/nothing")
    assert ended.code == 3


def read_mirror(folder: Path, root_pem: str, told: dict[str, str]) -> list[bytes]:
    """Return the entries of a mirror, which is a whole and verified log."""
    import base64
    import ssl

    der = ssl.PEM_cert_to_DER_cert("-----BEGIN CERT" + root_pem.rpartition("-----BEGIN CERT")[2])
    found = read_log(
        lambda path: (folder / path).read_bytes(),
        der,
        told["verifierKey"],
        base64.b64decode(told["signature"]),
    )
    return found.entries
