"""Two coordinators under Gramine on one PostgreSQL database, which they reach by TLS."""

import asyncio
from pathlib import Path

import pytest
from support.peers.peer import certify
from support.peers.postgres import PASSWORD, PostgresServer
from support.peers.replicas import code_of, update, with_replicas
from support.process.gramine import EnclaveServer
from support.process.server import Server
from support.samples.deployment import user

from keyhouse_simulation import add_machine

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]


def _upload(server: Server, value: bytes) -> None:
    with server.client(user("writer")) as client:
        assert client.upload({"note": value}).status == 200


def _note(server: Server) -> bytes | None:
    with server.client(user("writer")) as client:
        return client.secrets(["note"])["note"]


def _live_through(url: str, folder: Path, runtime: Path) -> None:
    """Found a deployment in one enclave; another one, on another machine, joins and stays."""
    first, second = (
        EnclaveServer(folder / name, runtime, store=url) for name in ("first", "second")
    )
    with first:
        with first.client() as client:
            assert client.set_manifest(with_replicas()).status == 200
        add_machine(second.data / "simulation", first.data / "simulation")
        _upload(first, b"first")
        with second:
            assert (code_of(second), _note(second)) == (3, b"first")
            update(second, with_replicas("second", holders=1))  # with a new data key
            _upload(second, b"second")
            assert (code_of(first), _note(first)) == (3, b"second")
            first.kill()
            _upload(second, b"third")
            first.start()
            assert (code_of(first), _note(first)) == (3, b"third")
            assert [first.stop(), second.stop()] == [0, 0]
    for server in (first, second):
        assert '"error"' not in server.logged()
        assert PASSWORD not in server.logged()


def test_enclaves_on_two_machines_share_a_state(
    tmp_path: Path, runtime: Path, postgres: PostgresServer
) -> None:
    authority = certify("database's authority")
    certificate = certify("database", authority, is_ca=False, address=postgres.address)
    measured = runtime / "measured"  # where the image of deploy/container/gramine has such files
    measured.mkdir(exist_ok=True)
    (measured / "database-ca.pem").write_bytes(authority.pem)

    async def run() -> None:
        name = await postgres.database()
        where = f"{postgres.address}/{name}?sslrootcert={measured / 'database-ca.pem'}"
        async with postgres.with_tls(certificate, authority):
            url = f"postgresql://keyhouse:{PASSWORD}@{where}"
            await asyncio.to_thread(_live_through, url, tmp_path, runtime)

    asyncio.run(run())
