"""Record the files of a version for ``tests/compatibility/<version>``.

Run this program once for each release, from the commit of the release:

    PYTHONPATH=tests .venv/bin/python tests/compatibility/record.py 0.1.0

Real processes write all files: a coordinator in simulation, the commands, and a PostgreSQL server.
The program refuses to replace the files of a version. The tests beside this program read the files
of all versions.
"""

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from support.cosigner import Cosigner
from support.peers.postgres import PASSWORD, PostgresServer
from support.peers.sdk import trust_in_server
from support.peers.witness import Witness, policy
from support.process.command import run
from support.process.server import Server
from support.process.tool import tool
from support.samples.deployment import user
from support.samples.updates import holder_key, together
from support.witnessed import until_cosigned, until_served

from keyhouse.base.secret import Secret
from keyhouse.base.version import VERSION
from keyhouse.client import Coordinator, PemIdentity

__all__ = ["HOLDER", "NOTE", "main"]

HOLDER: Final = "hilda"
NOTE: Final = b"a note that every later version returns"
PEOPLE: Final = ("alice", "bob", "carol", "writer")


def main(version: str) -> None:
    """Write the folder of ``version``, which must be the version of this tree and absent."""
    target = Path(__file__).parent / version
    if version != VERSION:
        sys.exit(f"error: this tree has version {VERSION}, not {version}")
    if target.exists():
        sys.exit(f"error: {target} exists; the files of a version are permanent")
    with TemporaryDirectory() as name:
        folder = Path(name) / version
        folder.mkdir()
        _record(folder)
        shutil.copytree(folder, target)


def _record(folder: Path) -> None:
    server = Server(folder / "state")
    with ExitStack() as stack:
        witnesses = [
            stack.enter_context(Witness(Cosigner.ed25519("a.example/w"))),
            stack.enter_context(Witness(Cosigner.mldsa44("b.example/w"))),
        ]
        rules = policy(witnesses, 2)
        stack.enter_context(server)
        _begin(server, witnesses, rules)
        _change(server, rules)
        until_cosigned(server)
        _export(server, folder, rules)
        expected = _expected(server, folder)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    (folder / "state.log").unlink()
    _dump(folder)
    for lock in (folder / "state" / "lock", *folder.rglob("*.lock")):
        lock.unlink()


def _begin(server: Server, witnesses: list[Witness], rules: str) -> None:
    with server.client() as client:
        assert client.set_manifest(_manifest(rules, "first")).status == 200
        key = client.get("/api/v2/log/key").data["verifierKey"]
    for witness in witnesses:
        witness.trust(key)
    until_served(server)


def _change(server: Server, rules: str) -> None:
    """Upload a secret, put a second manifest in force, and leave a third one pending."""
    with server.client(user("writer")) as client:
        assert client.upload({"note": NOTE}).status == 200
    second, third = _manifest(rules, "second"), _manifest(rules, "third")
    _signed(server, "alice", Coordinator.update, second)
    _signed(server, "bob", Coordinator.acknowledge, second)
    _signed(server, "alice", Coordinator.update, third)


def _manifest(rules: str, word: str) -> bytes:
    return together(word=word, holders=[HOLDER], Transparency={"Witnesses": rules})


def _signed(
    server: Server, name: str, decide: Callable[[Coordinator, bytes], object], raw: bytes
) -> None:
    signer = PemIdentity(user(name).pem, Secret(user(name).key_pem))
    where = f"127.0.0.1:{server.port}"
    with Coordinator.connect(where, trust_in_server(server), signer) as session:
        decide(session, raw)


def _export(server: Server, folder: Path, rules: str) -> None:
    """Have the commands write their files beside the state."""
    address = f"127.0.0.1:{server.port}"
    auditor = folder / "auditor"
    auditor.mkdir()
    (auditor / "witnesses.policy").write_text(rules)
    for name in ("attestation.json", "root.pem", "collateral.json"):
        shutil.copy(server.data / "simulation" / name, auditor)
    people = folder / "people"
    people.mkdir()
    for name in PEOPLE:
        (people / f"{name}.pem").write_bytes(user(name).pem)
        (people / f"{name}.key").write_bytes(user(name).key_pem)
    (people / "holder.key").write_bytes(
        holder_key(HOLDER).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    trust = (
        *("--attestation", "auditor/attestation.json"),
        *("--simulation-root", "auditor/root.pem"),
    )
    remembered = (*trust, "--memory", "memory.json")
    _command(folder, "status", address, *remembered)
    _command(
        folder, "evidence", "export", address, "-o", "auditor/deployment.evidence.json", *remembered
    )
    _command(folder, "log", "mirror", address, "mirror", *remembered)
    alice = ("--cert", "people/alice.pem", "--key", "people/alice.key")
    shares = _command(folder, "recover", "secrets", address, *remembered, *alice, "--json")
    (folder / "recovery-secrets.json").write_text(shares)
    _command(folder, "backup", "state", "backup", "--platform", "simulation")
    first = hashlib.sha256(_manifest(rules, "first")).hexdigest()
    settings = (
        *("--address", "keyhouse.example:4433", "--pccs", "https://pccs.example:8081"),
        *("--accepted-tcb-statuses", "UpToDate,SWHardeningNeeded", "--first-manifest", first),
    )
    _command(folder, "context", "add", "prod", *settings)


def _command(folder: Path, *words: str) -> str:
    environment = {"XDG_CONFIG_HOME": str(folder / "config")}
    ended = run(*words, folder=folder, env=environment)
    assert ended.code == 0, (words, ended)
    return ended.out


def _expected(server: Server, folder: Path) -> dict[str, Any]:
    """Return the answers of the coordinator before its end."""
    with server.client() as anyone:
        status = anyone.get("/api/v2/status")
        pem = anyone.get("/api/v2/quote").data["cert"]
        return {
            "recorded_by": sys.version.split()[0],
            "state": status.headers["keyhouse-state"],
            "log": status.headers["keyhouse-log"],
            "root": pem,
            "root_fingerprint": _fingerprint(pem),
            "context": json.loads(_command(folder, "context", "show", "prod", "--json")),
            "manifest": anyone.get("/api/v2/manifest").data["manifest"],
            "update_log": anyone.get("/api/v2/update").data,
            "pending": anyone.get("/api/v2/update-manifest").data,
        }


def _fingerprint(pem: str) -> str:
    root = x509.load_pem_x509_certificates(pem.encode())[-1]
    return hashlib.sha256(root.public_bytes(Encoding.DER)).hexdigest()


def _dump(folder: Path) -> None:
    """Move a copy of the state into a database, and write the database as SQL."""
    with TemporaryDirectory() as name, PostgresServer.running() as postgres:
        copy = Path(name) / "state"
        shutil.copytree(folder / "state", copy)
        database = asyncio.run(postgres.database())
        url = postgres.url(database).reveal().decode()
        password = Path(name) / "password"
        password.write_text(PASSWORD)
        password.chmod(0o600)
        where = ("--password-file", str(password))
        _command(folder, "store", "copy", str(copy), url.replace(f":{PASSWORD}@", "@"), *where)
        words = (
            *(tool("pg_dump"), "--dbname", url, "--no-owner", "--no-privileges", "--inserts"),
            *("--file", str(folder / "database.sql")),
        )
        subprocess.run(words, check=True, timeout=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
