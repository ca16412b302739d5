"""The coordinator under Gramine, from the template that is shipped: what deployments go through."""

import json
from pathlib import Path
from urllib.request import urlopen

import pytest
from support.peers.workloads import WORKLOAD, grpcio, request
from support.process.command import run
from support.process.gramine import EnclaveServer
from support.process.server import PATIENCE, Client, Server
from support.samples.deployment import user
from support.samples.recovery import Holder, ciphertexts_of, hand_in
from support.samples.updates import Api, holder_key, together

from keyhouse.attestation import quote_binding, report_data
from keyhouse.testing import snp_vm
from keyhouse_simulation import SimulatedPlatform, amd_vendor
from keyhouse_simulation.record import read_record

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

HOLDER = Holder("rk", holder_key("rk"))


def _manifest(word: str = "", seal_mode: str = "ProductKey") -> bytes:
    return together(
        updaters=("alice",), holders=("rk",), word=word, UpdateThreshold=1, SealMode=seal_mode
    )


def _set_up(server: Server) -> dict[str, bytes]:
    """Set a manifest and upload a note; return the encrypted shares."""
    with server.client() as client:
        ciphertexts = ciphertexts_of(client.set_manifest(_manifest()))
    _upload(server, b"first")
    return ciphertexts


def _upload(server: Server, value: bytes) -> None:
    with server.client(user("writer")) as client:
        assert client.upload({"note": value}).status == 200


def _note(server: Server) -> bytes | None:
    with server.client(user("writer")) as client:
        return client.secrets(["note"])["note"]


def _update(server: Server, raw: bytes) -> None:
    with server.client(user("alice")) as client:
        reply = Api(2).update(client, raw)
        assert reply.status == 200, reply.body


def _code(server: Server) -> object:
    with server.client() as client:
        return client.get("/api/v2/status").data["code"]


def _root(client: Client) -> str:
    chain = client.get("/api/v2/quote").data["cert"]
    assert isinstance(chain, str)
    return chain.partition("-----END CERTIFICATE-----\n")[2]


def test_a_deployment_lives_through_updates_seal_modes_and_ends(
    tmp_path: Path, runtime: Path
) -> None:
    server = EnclaveServer(tmp_path / "data", runtime)
    with server:
        assert _code(server) == 2
        _set_up(server)
        with server.client() as client:
            root = _root(client)
        with urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=30) as answer:
            assert b"\nkeyhouse_" in answer.read()
        _update(server, _manifest("changed"))
        _upload(server, b"second")
        server.kill()
    with server:
        assert (_code(server), _note(server)) == (3, b"second")
        _update(server, _manifest(seal_mode="UniqueKey"))
        assert server.stop() == 0
    with server:
        assert _note(server) == b"second"
        _update(server, _manifest(seal_mode="Disabled"))
        _upload(server, b"in memory")
        _update(server, _manifest(seal_mode="ProductKey"))
        server.kill()
    with server, server.client() as client:
        assert _note(server) == b"in memory"
        assert _root(client) == root
        assert server.stop() == 0
    names = {each.name for each in server.data.iterdir()}
    assert not {name for name in names if name.startswith(("incoming", "tombstone"))}
    logged = server.logged()
    assert '"error"' not in logged
    assert "less protected" not in logged  # neither debuggers nor swap reach into an enclave


def test_holders_bring_back_a_state_whose_key_is_lost(tmp_path: Path, runtime: Path) -> None:
    server = EnclaveServer(tmp_path / "data", runtime)
    with server:
        share = HOLDER.share(_set_up(server)["rk"])
    (server.data / "sealed_key").unlink()
    with server:
        assert _code(server) == 1
        with server.client() as client:
            assert hand_in(client, share, HOLDER.sign(share)).data["remaining"] == 0
        assert (_code(server), _note(server)) == (3, b"first")
    with server:
        assert (_code(server), _note(server)) == (3, b"first")
    (server.data / "sealed_key").unlink()
    with server:  # a new deployment instead: the old store moves to the archive
        with server.client() as client:
            assert client.set_manifest(_manifest("new")).status == 200
        assert _note(server) is None
    (name,) = (each.name for each in (server.data / "archive").iterdir())
    ended = run("store", "restore", str(server.data), name, "--stopped")
    assert ended.code == 0, ended.err
    with server:
        assert _code(server) == 1


def test_a_backup_of_a_running_enclave_starts_in_another_one(tmp_path: Path, runtime: Path) -> None:
    server, other = (EnclaveServer(tmp_path / name, runtime) for name in ("data", "other"))
    seen = ("--platform", "simulation")
    with server:
        _set_up(server)
        ended = run("backup", str(server.data), str(tmp_path / "backup"), *seen)
        assert ended.code == 0, ended.err
        _upload(server, b"later")
    (server.data / "simulation").rename(other.data / "simulation")  # the same machine
    ended = run("restore", str(tmp_path / "backup"), str(other.data), *seen)
    assert ended.code == 0, ended.err
    with other:
        assert (_code(other), _note(other)) == (3, b"first")


def test_of_two_enclaves_on_one_directory_the_first_one_answers_nothing_more(
    tmp_path: Path, runtime: Path
) -> None:
    """Neither sees the lock of the other; what the first one answered, the second one finds."""
    first, second = (EnclaveServer(tmp_path / "data", runtime) for _ in range(2))
    with first:
        _set_up(first)
        with second:
            assert _note(second) == b"first"
            with first.client(user("writer")) as client:
                assert client.upload({"note": b"lost"}).status == 500
            assert first.process is not None
            assert first.process.wait(PATIENCE) == 1
            assert "another process has taken the state directory" in first.logged()
            _upload(second, b"second")
            second.kill()
    with first:
        assert _note(first) == b"second"


def test_collateral_of_amd_counts_as_the_host_has_it(tmp_path: Path, runtime: Path) -> None:
    """The enclave sees no times of files, and the host may link them, as Kubernetes does."""
    amd = tmp_path / "amd"
    (amd / "..first").mkdir(parents=True)
    (amd / "..first" / "genoa.pem").write_text(amd_vendor.ASK + amd_vendor.LIST)
    (amd / "genoa.pem").symlink_to("..first/genoa.pem")
    vm = snp_vm("vm")
    manifest = {"Packages": {"vm": vm.package}, "Marbles": {"vm": {"Package": "vm"}}}
    bound = report_data(quote_binding(WORKLOAD.certificate))
    with EnclaveServer(tmp_path / "data", runtime, amd=amd) as server:
        with server.client() as client:
            assert client.set_manifest(json.dumps(manifest).encode()).status == 200
        record = (server.data / "simulation" / "machine.json").read_bytes()
        machine = SimulatedPlatform(read_record(record))

        def outcome() -> str:
            quote = machine.seen_by(vm.measurements).quote(bound)
            with grpcio(server.mesh_port) as channel:
                return channel.call(request(Quote=quote, MarbleType="vm")).message

        assert outcome() == ""
        (amd / "genoa.pem").unlink()
        assert "no revocation list of AMD" in outcome()
        (amd / "genoa.pem").symlink_to("..first/genoa.pem")
        assert outcome() == ""
