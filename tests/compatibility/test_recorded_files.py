"""The files of each released version: every later version opens, serves and verifies them.

``<version>`` holds the files of one deployment (``record.py``). The deployment has two witnesses, a
second manifest in force, and a third manifest that one of two users has agreed to. Git stores no
modes of files, so each test works on a private copy with the modes of a state directory.
"""

import asyncio
import base64
import json
import shutil
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from compatibility.record import HOLDER, NOTE, PEOPLE
from support.peers.postgres import PASSWORD, PostgresServer
from support.process.command import run
from support.process.server import Server
from support.samples.deployment import User

from keyhouse_simulation import add_machine

pytestmark = pytest.mark.acceptance

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.iterdir() if (path / "expected.json").exists())
SIMULATION = ("--platform", "simulation")
# The files get older than a year, and a coordinator refuses such a clock without this option.
LATER = ("--confirm-clock",)


@pytest.fixture(params=VERSIONS)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a private copy of the files of a version."""
    copy = tmp_path / "recorded"
    shutil.copytree(HERE / request.param, copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    return copy


@pytest.fixture
def expected(recorded: Path) -> dict[str, Any]:
    """Return the answers of the coordinator that wrote the files."""
    found = json.loads((recorded / "expected.json").read_text())
    assert isinstance(found, dict)
    return found


def person(recorded: Path, name: str) -> User:
    pem, key = (recorded / "people" / f"{name}.{kind}" for kind in ("pem", "key"))
    return User(b"", pem.read_bytes(), key.read_bytes())


def trust(recorded: Path) -> tuple[str, ...]:
    """Return the options that name the expected code and the simulated vendor."""
    auditor = recorded / "auditor"
    return (
        *("--attestation", str(auditor / "attestation.json")),
        *("--simulation-root", str(auditor / "root.pem")),
    )


def succeed(*words: str | Path, folder: Path | None = None, **variables: str) -> Any:
    """Return the JSON of a command that succeeds."""
    ended = run(*map(str, words), "--json", folder=folder, env=variables)
    assert ended.code == 0, ended
    return json.loads(ended.out)


def require_state(server: Server, recorded: Path, expected: dict[str, Any]) -> None:
    """Check the answers about the state, without the pending update."""
    with server.client() as anyone, server.client(person(recorded, "writer")) as writer:
        assert anyone.get("/api/v2/manifest").data["manifest"] == expected["manifest"]
        log = expected["update_log"]["updateLog"]  # a recovery adds lines
        assert anyone.get("/api/v2/update").data["updateLog"][: len(log)] == log
        assert anyone.get("/api/v2/quote").data["cert"] == expected["root"]
        note = writer.get("/api/v2/secrets?s=note").data["secrets"]["note"]
        assert base64.b64decode(note["private"]) == NOTE


def require_answers(server: Server, recorded: Path, expected: dict[str, Any]) -> None:
    """Check the answers about the state, then put the pending manifest in force."""
    require_state(server, recorded, expected)
    with server.client() as anyone, server.client(person(recorded, "carol")) as carol:
        found = anyone.get("/api/v2/update-manifest").data
        assert {name: found[name] for name in expected["pending"]} == expected["pending"]
        pending = {"manifest": expected["pending"]["manifest"]}
        assert carol.post("/api/v2/update-manifest", pending).status == 200
        assert anyone.get("/api/v2/manifest").data["manifest"] == pending["manifest"]


def test_all_people_of_the_recording_are_there(recorded: Path) -> None:
    names = {path.stem for path in (recorded / "people").iterdir()}
    assert names == {*PEOPLE, "holder"}


def test_the_state_directory_is_served_and_continues(
    recorded: Path, expected: dict[str, Any]
) -> None:
    found = succeed("store", "verify", recorded / "state", *SIMULATION)
    assert (found["ok"], found["decrypted"], found["state"]) == (True, True, expected["state"])

    with Server(recorded / "state", arguments=LATER) as server:
        require_answers(server, recorded, expected)


def test_a_client_with_the_recorded_memory_accepts_the_deployment(recorded: Path) -> None:
    memory = json.loads((recorded / "memory.json").read_text())
    ((address, root),) = memory["roots"].items()
    with Server(recorded / "state", arguments=LATER) as server:
        here = f"127.0.0.1:{server.port}"
        text = json.dumps({**memory, "roots": {here: root}})
        (recorded / "memory.json").write_text(text)
        options = (*trust(recorded), "--memory", str(recorded / "memory.json"))
        succeed("status", here, *options)
        (recorded / "memory.json").write_text(text.replace(root, "00" * 32))
        assert run("status", here, *options).code == 4
    assert address != here


def test_the_backup_is_restored_and_served(recorded: Path, expected: dict[str, Any]) -> None:
    data = recorded / "restored"
    data.mkdir(mode=0o700)
    shutil.copytree(recorded / "state" / "simulation", data / "simulation")
    found = succeed("restore", recorded / "backup", data, *SIMULATION)["checked"]
    assert found["decrypted"] is True

    with Server(data, arguments=LATER) as server:
        require_answers(server, recorded, expected)


def test_the_backup_is_recovered_on_another_machine(
    recorded: Path, expected: dict[str, Any]
) -> None:
    data, root = recorded / "elsewhere", recorded / "deployment-root.pem"
    data.mkdir(mode=0o700)
    add_machine(data / "simulation", recorded / "state" / "simulation")
    assert run("restore", str(recorded / "backup"), str(data)).code == 0
    pem = expected["root"]
    root.write_text(pem[pem.rindex("-----BEGIN") :])
    shares = json.loads((recorded / "recovery-secrets.json").read_text())
    assert set(shares["RecoverySecrets"]) == {HOLDER}

    with Server(data, arguments=LATER) as server:
        here = f"127.0.0.1:{server.port}"
        words = ("recover", "upload", recorded / "recovery-secrets.json", here, "--root", root)
        key = ("--key", recorded / "people" / "holder.key")
        succeed(*words, *key, *trust(recorded), "--memory", "none")
        require_state(server, recorded, expected)  # a recovery cancels a pending update


def test_the_evidence_file_is_proven(recorded: Path, expected: dict[str, Any]) -> None:
    auditor = recorded / "auditor"
    words = ("evidence", "verify", "deployment.evidence.json", "--attestation", "attestation.json")
    pins = ("--root-fingerprint", expected["root_fingerprint"], "--policy", "witnesses.policy")
    root = ("--simulation-root", "root.pem")
    found = succeed(*words, *pins, *root, folder=auditor)

    assert (found["verified"], found["gaps"]) == (True, [])


def test_the_mirror_restores_and_continues_the_log(recorded: Path) -> None:
    data, mirror = recorded / "state", recorded / "mirror"
    objects = sorted(data.glob("log/*/object/*"))
    lost = objects[0]
    lost.unlink()
    succeed("log", "restore", data, mirror)
    assert lost.exists()

    size = (mirror / "checkpoint").read_bytes().splitlines()[1]
    with Server(data, arguments=LATER) as server:
        here = f"127.0.0.1:{server.port}"
        succeed("log", "mirror", here, mirror, *trust(recorded), "--memory", "none")
    assert int((mirror / "checkpoint").read_bytes().splitlines()[1]) >= int(size)


def test_the_context_has_its_settings(recorded: Path, expected: dict[str, Any]) -> None:
    found = succeed("context", "show", "prod", XDG_CONFIG_HOME=str(recorded / "config"))
    assert found == expected["context"]


def test_the_database_is_served(
    recorded: Path, expected: dict[str, Any], postgres: PostgresServer
) -> None:
    name = asyncio.run(restored_database(recorded, postgres))
    url = postgres.url(name).reveal().decode()
    password = recorded / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    where = (url.replace(f":{PASSWORD}@", "@"), "--password-file", password)
    assert succeed("store", "verify", *where)["ok"] is True

    # The state directory of the recording was moved to the database, and keeps sealed_key.
    data = recorded / "replica"
    data.mkdir(mode=0o700)
    shutil.copytree(recorded / "state" / "simulation", data / "simulation")
    shutil.copy(recorded / "state" / "sealed_key", data / "sealed_key")
    with Server(data, arguments=LATER, environment={"KEYHOUSE_STORE": url}) as server:
        require_answers(server, recorded, expected)


async def restored_database(recorded: Path, postgres: PostgresServer) -> str:
    """Return a new database with the tables and rows of the dump."""
    lines = (recorded / "database.sql").read_text().splitlines(keepends=True)
    sql = "".join(line for line in lines if not line.startswith("\\"))  # commands of psql
    name = await postgres.database(empty=True)
    connection = await asyncpg.connect(postgres.url(name).reveal().decode())
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
    return name
