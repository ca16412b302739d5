"""The objects that prove the line: lost by the host, and brought back from a mirror or a backup.

No leaf of the transparency log names the quotes of the line.
"""

import base64
import hashlib
import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from support.peers.postgres import Database, PostgresServer
from support.process.command import Ended, run
from support.process.server import Server
from support.samples.deployment import user
from support.samples.recovery import ciphertexts_of, hand_in, holder, recoverable
from support.samples.updates import Api

from keyhouse.transparency.mirrored_line import LINE_FILE, read_mirrored_line

pytestmark = pytest.mark.acceptance

GOOD = holder("good")
MANIFESTS = [recoverable([GOOD], secrets=count) for count in (3, 4)]
CLAIM = ("--claim-fingerprint", hashlib.sha256(MANIFESTS[0]).hexdigest())
VERIFY = ("--platform", "simulation", "--json")


class Mirrored(NamedTuple):
    """A deployment of two manifests, which is stopped, and a mirror of its log."""

    server: Server
    mirror: Path
    share: bytes

    @property
    def data(self) -> Path:
        return self.server.data

    def objects(self) -> Path:
        """Return the folder of the objects beside the log."""
        (found,) = self.data.glob("log/*/object")
        return found

    def proofs(self) -> set[str]:
        """Return the names of the objects that prove the line, as the mirror has it."""
        return set(read_mirrored_line((self.mirror / LINE_FILE).read_bytes()).proofs())

    def restored(self) -> Ended:
        return run("log", "restore", str(self.data), str(self.mirror), "--json")

    def recovery(self, data: Path | None = None, *arguments: str) -> tuple[int, str]:
        """Recover the state in ``data`` under the claim; return status and body of the answer."""
        place = self.data if data is None else data
        (place / "sealed_key").unlink(missing_ok=True)
        with Server(place, arguments=(*CLAIM, *arguments)) as server, server.client() as client:
            answer = hand_in(client, self.share, GOOD.sign(self.share))
        return answer.status, answer.body.decode()


def mirror(server: Server, folder: Path) -> Ended:
    simulation = server.data / "simulation"
    return run(
        *("log", "mirror", f"127.0.0.1:{server.port}", str(folder), "--memory", "none", "--json"),
        *("--attestation", str(simulation / "attestation.json")),
        *("--simulation-root", str(simulation / "root.pem")),
    )


@pytest.fixture(name="mirrored")
def _mirrored(tmp_path: Path) -> Mirrored:
    server, folder = Server(tmp_path / "data", arguments=CLAIM), tmp_path / "mirror"
    with server, server.client() as client, server.client(user("admin")) as admin:
        shares = ciphertexts_of(client.set_manifest(MANIFESTS[0]))
        assert mirror(server, folder).code == 0
        assert Api(2).update(admin, MANIFESTS[1]).status == 200
        ended = mirror(server, folder)
        assert ended.code == 0, ended.err
        assert json.loads(ended.out)["lineEntries"] == 2
        found = admin.get("/api/v2/recovery-secrets").data["recoverySecrets"]
        assert set(found) == set(shares)
    return Mirrored(server, folder, GOOD.share(base64.b64decode(found[GOOD.name])))


def test_a_mirror_brings_back_what_proves_the_line(mirrored: Mirrored) -> None:
    assert len(mirrored.proofs()) >= 3  # two quotes, and their collateral
    for name in mirrored.proofs():
        (mirrored.objects() / name).unlink()
    checked = run("store", "verify", str(mirrored.data), *VERIFY)
    (line,) = [each for each in json.loads(checked.out)["files"] if each["file"] == "line"]
    assert checked.code == 1
    assert all(name in line["problem"] for name in mirrored.proofs())
    key = (mirrored.data / "sealed_key").read_bytes()
    status, body = mirrored.recovery()
    assert (status, "the quote of the manifest" in body) == (400, True)
    (mirrored.data / "sealed_key").write_bytes(key)
    (mirrored.data / "sealed_key").chmod(0o600)

    ended = mirrored.restored()
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert (found["objects"], found["lineEntries"]) == (len(mirrored.proofs()), 2)
    assert found["missingObjects"] == []
    assert run("store", "verify", str(mirrored.data), *VERIFY).code == 0
    with mirrored.server:
        pass  # a start with its own seal, under the claim
    assert mirrored.recovery()[0] == 200


def test_the_whole_log_is_lost_and_a_recovery_under_a_claim_succeeds(mirrored: Mirrored) -> None:
    shutil.rmtree(mirrored.data / "log")
    assert mirrored.restored().code == 0
    assert mirrored.recovery()[0] == 200


def test_a_mirror_without_the_line_restores_the_rest_and_says_what_is_missing(
    mirrored: Mirrored,
) -> None:
    """Older versions made such mirrors."""
    for name in (*mirrored.proofs(), LINE_FILE):
        (
            mirrored.mirror / name if name == LINE_FILE else mirrored.mirror / "object" / name
        ).unlink()
    shutil.rmtree(mirrored.data / "log")
    ended = run("log", "restore", str(mirrored.data), str(mirrored.mirror))
    assert ended.code == 0, ended.err
    assert "the mirror has no line of the root" in ended.out
    assert "a recovery needs them" in " ".join(ended.out.split())
    with mirrored.server:  # its own seal vouches for the line
        again = mirror(mirrored.server, mirrored.mirror)
    assert again.code == 0, again.err
    lost = json.loads(again.out)["missingObjects"]
    assert set(lost) >= mirrored.proofs() - {name.name for name in mirrored.objects().iterdir()}


def test_a_mirror_that_lies_about_the_line_restores_nothing_false(mirrored: Mirrored) -> None:
    name = min(mirrored.proofs())
    (mirrored.objects() / name).unlink()
    whole = (mirrored.mirror / "object" / name).read_bytes()
    (mirrored.mirror / "object" / name).write_bytes(whole + b".")
    ended = mirrored.restored()
    assert (ended.code, f"{name} in the mirror" in ended.err) == (1, True)
    assert not (mirrored.objects() / name).exists()
    (mirrored.mirror / "object" / name).write_bytes(whole)
    line = (mirrored.mirror / LINE_FILE).read_bytes()
    (mirrored.mirror / LINE_FILE).write_bytes(line.split(b"\n", 1)[1])
    ended = mirrored.restored()
    assert (ended.code, "previous entry" in ended.err) == (1, True)


def test_a_mirror_notices_another_line(mirrored: Mirrored, tmp_path: Path) -> None:
    other = Server(tmp_path / "other")
    with other, other.client() as client:
        assert client.set_manifest(MANIFESTS[0]).status == 200
        assert mirror(other, tmp_path / "other-mirror").code == 0
    shutil.copy(tmp_path / "other-mirror" / LINE_FILE, mirrored.mirror / LINE_FILE)
    with mirrored.server:
        ended = mirror(mirrored.server, mirrored.mirror)
    assert (ended.code, ended.out) == (4, "")
    assert "line in the mirror" in ended.err


def test_a_backup_has_what_proves_the_line(mirrored: Mirrored, tmp_path: Path) -> None:
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    with mirrored.server:
        ended = run("backup", str(mirrored.data), str(backup))
    assert ended.code == 0, ended.err
    shutil.copytree(mirrored.data / "simulation", backup / "simulation")
    assert run("store", "verify", str(backup), *VERIFY).code == 0
    assert run("restore", str(backup), str(restored)).code == 0
    shutil.copytree(mirrored.data / "simulation", restored / "simulation")
    assert mirrored.recovery(restored)[0] == 200


def test_copies_to_a_database_and_back_have_what_proves_the_line(
    mirrored: Mirrored, postgres: PostgresServer, tmp_path: Path
) -> None:
    database = Database(postgres, tmp_path)
    copied = run("store", "copy", str(mirrored.data), database.url, *database.password)
    assert copied.code == 0, copied.err
    shutil.rmtree(mirrored.data / "log")
    assert mirrored.recovery(None, *database.serving)[0] == 200
    copied = run("store", "copy", database.url, str(mirrored.data), *database.password)
    assert copied.code == 0, copied.err
    assert run("store", "verify", str(mirrored.data), *VERIFY).code == 0
    assert mirrored.recovery()[0] == 200
