"""`keyhouse run` against a real coordinator: each way to trust it, and each way not to."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.peers.mesh import MeshPeer, coordinator_keys, pem
from support.process.launcher import command, launch
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import Api, raise_version, together

from keyhouse_simulation import open_platform

pytestmark = pytest.mark.acceptance

_SAY = "/bin/sh", "-c", 'echo "$GREETING from $0 $1"; wc -c < conf/key'


def _manifest(data: Path) -> bytes:
    identity = json.loads((data / "simulation/attestation.json").read_text())
    web = {
        "Package": "app",
        "Parameters": {
            "Env": {"GREETING": "hello"},
            "Files": {"conf/key": "{{ hex .Secrets.own }}"},
        },
    }
    return json.dumps(
        {
            "Packages": {"app": {"UniqueID": identity["UniqueID"]}},
            "Marbles": {"web": web},
            "Secrets": {"own": {"Type": "symmetric-key", "Size": 128}},
        }
    ).encode()


def _set_manifest(server: Server) -> None:
    with server.client() as client:
        assert client.set_manifest(_manifest(server.data)).status == 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A coordinator with the manifest above."""
    with Server(tmp_path_factory.mktemp("launching") / "data") as running:
        _set_manifest(running)
        yield running


@pytest.fixture(scope="module")
def root(server: Server) -> Path:
    """The file with its intermediate and root certificate."""
    return _chain(server)


def _chain(server: Server) -> Path:
    path = server.data.parent / "chain.pem"
    with server.client() as client:
        path.write_text(client.get("/api/v2/quote").data["cert"])
    return path


def _proof(server: Server) -> list[str]:
    machine = server.data / "simulation"
    return [
        *("--attestation", str(machine / "attestation.json")),
        *("--simulation-root", str(machine / "root.pem")),
        *("--client-api", f"127.0.0.1:{server.port}"),
    ]


def _quote(server: Server) -> list[str]:
    return ["--platform", "simulation", "--simulated-machine", str(server.data)]


def test_launcher_waits_for_the_manifest(tmp_path: Path) -> None:
    """Trusted by quote and root, with a quote of its own."""
    with Server(tmp_path / "data") as server:
        words = [*_proof(server), *_quote(server), "--root-certificate", str(_chain(server))]
        with subprocess.Popen(
            command(server.mesh_port, *words, "--", *_SAY, "x", "y"),
            cwd=tmp_path,
            env={},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            while "trying again" not in (line := process.stderr.readline()):
                assert line
            assert "FAILED_PRECONDITION" in line
            _set_manifest(server)
            out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert out == "hello from x y\n32\n"


def test_root_alone_is_enough(server: Server, root: Path, tmp_path: Path) -> None:
    alone = tmp_path / "root.pem"
    alone.write_bytes(
        x509.load_pem_x509_certificates(root.read_bytes())[1].public_bytes(Encoding.PEM)
    )

    ended = launch(
        server.mesh_port, "--root-certificate", str(alone), "--", *_SAY, "x", "y", folder=tmp_path
    )

    assert (ended.code, ended.out.splitlines()[0]) == (0, "hello from x y")
    assert "the quote is empty" in ended.err


def test_type_that_the_manifest_lacks_is_refused(
    server: Server, root: Path, tmp_path: Path
) -> None:
    ended = launch(
        server.mesh_port,
        *("--type", "db", "--root-certificate", str(root), "--", "/bin/true"),
        folder=tmp_path,
    )

    assert ended.code == 1
    assert "PERMISSION_DENIED" in ended.err
    assert '"db"' in ended.err


def test_quote_of_another_machine_is_refused(server: Server, root: Path, tmp_path: Path) -> None:
    open_platform(tmp_path / "simulation")
    ended = launch(
        server.mesh_port,
        *("--platform", "simulation", "--simulated-machine", str(tmp_path)),
        *("--root-certificate", str(root), "--", "/bin/true"),
        folder=tmp_path,
    )

    assert ended.code == 1
    assert "PERMISSION_DENIED" in ended.err


@pytest.mark.parametrize(
    ("identity", "told"),
    [
        ('{"UniqueID": "%s"}' % ("ab" * 32), 'package "app" does not admit'),
        ('{"SecurityVersion": 3}', "write UniqueID"),
    ],
    ids=["another package", "nobody's"],
)
def test_simulated_machine_measures_the_workload_that_a_file_names(
    identity: str, told: str, server: Server, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "web.json").write_text(identity)
    ended = launch(
        server.mesh_port,
        *(*_quote(server), "--simulated-identity", "web.json"),
        *("--root-certificate", str(root), "--", "/bin/true"),
        folder=tmp_path,
    )

    assert ended.code == 1
    assert told in ended.err
    kept = json.loads((server.data / "simulation/attestation.json").read_text())
    assert kept["UniqueID"] != "ab" * 32  # who clients expect stays the coordinator


def test_proof_of_the_real_coordinator_does_not_vouch_for_another_one(
    server: Server, tmp_path: Path
) -> None:
    with MeshPeer(keys=coordinator_keys(1)) as peer:
        ended = launch(peer.port, *_proof(server), "--", "/bin/true", folder=tmp_path)

    assert ended.code == 4
    assert "key and subject" in ended.err
    assert peer.asked == []


def test_real_coordinator_is_not_the_deployment_of_another_root(
    server: Server, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(pem(coordinator_keys(1).root_cert))
    ended = launch(
        server.mesh_port,
        *_proof(server),
        *("--root-certificate", str(other), "--", "/bin/true"),
        folder=tmp_path,
    )

    assert ended.code == 4
    assert "its deployment is not that of" in ended.err


def test_coordinator_of_another_identity_is_not_trusted(server: Server, tmp_path: Path) -> None:
    wanted = json.loads((server.data / "simulation/attestation.json").read_text())
    wanted["UniqueID"] = "11" * 32
    other = tmp_path / "attestation.json"
    other.write_text(json.dumps(wanted))

    ended = launch(
        server.mesh_port,
        *_proof(server),
        *("--attestation", str(other), "--", "/bin/true"),
        folder=tmp_path,
    )

    assert ended.code == 4


def test_client_api_is_no_workload_api(server: Server, root: Path, tmp_path: Path) -> None:
    ended = launch(
        server.port,
        *("--timeout", "1", "--root-certificate", str(root), "--", "/bin/true"),
        folder=tmp_path,
    )

    assert ended.code in {3, 4}


def test_root_holds_through_updates_and_recovery_and_the_intermediate_does_not(
    tmp_path: Path,
) -> None:
    """What a file with one or two certificates is good for, in each phase."""
    alone, both = tmp_path / "root.pem", tmp_path / "both.pem"
    server = Server(tmp_path / "data")

    def ended(pinned: Path, *more: str) -> int:
        words = ["--type", "app", "--root-certificate", str(pinned), *more]
        return launch(server.mesh_port, *words, "--", "/bin/true", folder=tmp_path).code

    with server:
        with server.client(user("releaser")) as client:
            assert client.set_manifest(together(word="app")).status == 200
            both.write_text(client.get("/api/v2/quote").data["cert"])
            alone.write_bytes(
                x509.load_pem_x509_certificates(both.read_bytes())[1].public_bytes(Encoding.PEM)
            )
            assert (ended(alone), ended(both)) == (0, 0)
            assert Api(2).update(client, raise_version(4)).status == 200
        assert (ended(alone), ended(both)) == (0, 4)
    (server.data / "sealed_key").unlink()
    with server:
        # Recovery mode, with a temporary root: one waits, the other knows that it is another one.
        assert (ended(alone, "--timeout", "1"), ended(both)) == (3, 4)


@pytest.mark.parametrize("is_right", [True, False], ids=["the first one", "another one"])
def test_the_launcher_compares_the_manifest_that_began_the_deployment(
    server: Server,
    tmp_path: Path,
    is_right: bool,  # noqa: FBT001 - a case of the test
) -> None:
    with server.client() as client:
        first = client.get("/api/v2/manifest").data["manifestFingerprint"]
    expected = first if is_right else "ab" * 32

    ended = launch(
        server.mesh_port,
        *(*_proof(server), "--first-manifest", expected, "--", *_SAY, "x", "y"),
        folder=tmp_path,
    )

    assert ended.code == (0 if is_right else 4), ended.err
    assert is_right or all(each in ended.err for each in (first, expected))


def test_the_launcher_compares_no_manifest_without_a_quote(
    server: Server, root: Path, tmp_path: Path
) -> None:
    ended = launch(
        server.mesh_port,
        *("--root-certificate", str(root), "--first-manifest", "ab" * 32, "--", "/bin/true"),
        folder=tmp_path,
    )

    assert ended.code == 1
    assert "error: --first-manifest" in ended.err
