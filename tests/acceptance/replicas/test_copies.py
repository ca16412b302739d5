"""A state moves from a directory to a database and back, and is backed up there."""

import asyncio
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.peers.postgres import Database, PostgresServer
from support.peers.replicas import NAMES, Replicas, manifest
from support.process.command import Ended, refused_start, run
from support.process.server import Server
from support.public_log import published_by
from support.samples.deployment import user

from keyhouse.manifest import fingerprint


@pytest.fixture
def database(postgres: PostgresServer, tmp_path: Path) -> Database:
    return Database(postgres, tmp_path)


@pytest.fixture
def replicas(database: Database, tmp_path: Path) -> Iterator[Replicas]:
    found = Replicas(tmp_path, database.secret)
    yield found
    found.end()


def state_of(server: Server) -> tuple[int, int]:
    """Return epoch and sequence of what is served."""
    with server.client() as client:
        epoch, sequence, _ = client.get("/api/v2/status").headers["keyhouse-state"].split(".")
    return int(epoch), int(sequence)


def write(server: Server, value: bytes) -> None:
    with server.client(user("writer")) as client:
        assert client.upload({NAMES[0]: value}).status == 200


def read(server: Server) -> bytes:
    with server.client(user("writer")) as client:
        found = client.secrets(NAMES[:1])[NAMES[0]]
    assert found is not None
    return found


def log_of(server: Server, before: Sequence[bytes] = ()) -> list[bytes]:
    """Return the leaves of the whole log, which continues ``before`` and has its manifest."""
    with server.client() as client:
        found = published_by(client).entries
        assert client.get(f"/api/v2/log/object/{fingerprint(manifest())}").body == manifest()
    assert found[: len(before)] == [*before]
    return found


def copied(*words: str) -> Ended:
    done = run("store", "copy", *words)
    assert done.code == 0, done.err
    return done


def test_a_state_goes_to_a_database_and_comes_back(
    replicas: Replicas, database: Database, postgres: PostgresServer, tmp_path: Path
) -> None:
    alone = Replicas(tmp_path, None).prepared()
    with alone:
        with alone.client() as client:
            assert client.set_manifest(manifest()).status == 200
        write(alone, b"alone")
        before, said = state_of(alone), log_of(alone)
    words = (str(alone.data), database.url, *database.password)
    archive = copied(*words).out.split("archived  ")[1].strip()
    assert refused_start(alone.data).error.endswith("a manifest was set before")
    first = Server(alone.data, arguments=database.serving).start()
    replicas.all.append(first)
    assert state_of(first) > before
    assert read(first) == b"alone"
    said = log_of(first, said)
    other = replicas.started()  # on the same machine
    write(other, b"shared")
    assert first.stop() == 0
    while not asyncio.run(postgres.ask("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")):
        pass  # until it is seen to serve
    served = run("store", "copy", database.url, str(alone.data), *database.password)
    assert (served.code, "a coordinator serves the database" in served.err) == (3, True)
    assert other.stop() == 0
    keyless = run("store", "copy", database.url, str(tmp_path), *database.password)
    assert (keyless.code, "has no sealed_key" in keyless.err) == (1, True)
    assert first.start() is first
    before = state_of(first)
    assert first.stop() == 0
    out = (database.url, str(alone.data), *database.password, "--platform", "simulation")
    assert f"state     {before[0]}.{before[1]}." in copied(*out).out
    verified = run("store", "verify", str(alone.data), "--platform", "simulation")
    assert verified.code == 0, verified.err
    with pytest.raises(AssertionError, match="a state of its own"):
        first.start()
    with pytest.raises(AssertionError, match="moved"):
        other.start()
    with Server(alone.data) as server:
        assert state_of(server) > before
        assert read(server) == b"shared"
        log_of(server, said)
        write(server, b"alone again")
    again = run("store", "copy", *out)
    assert (again.code, "has a state of its own" in again.err) == (1, True)
    assert run("store", "restore", str(alone.data), archive).code == 0
    taken = run("store", "copy", *words)
    assert (taken.code, "already has a store" in taken.err) == (1, True)


def test_a_backup_of_a_database_is_made_under_load_and_serves(
    replicas: Replicas, database: Database, tmp_path: Path
) -> None:
    servers = replicas.founded(2)
    write(servers[0], b"kept")
    key = servers[1].data / "sealed_key"
    words = ("backup", database.url, *database.password)
    made = run(*words[:2], str(tmp_path / "with"), *words[2:], "--sealed-key", str(key))
    assert made.code == 0, made.err
    write(servers[0], b"later")
    bare = run(*words[:2], str(tmp_path / "without"), *words[2:], "--json")
    assert bare.code == 0, bare.err
    assert json.loads(bare.out)["checked"]["ok"] is False  # there is no sealed_key in it
    for server in servers:
        assert server.stop() == 0
    for backup, found in (("with", b"kept"), ("without", None)):
        data = tmp_path / f"restored-{backup}"
        data.mkdir(mode=0o700)
        shutil.copytree(servers[0].data / "simulation", data / "simulation")
        restored = run("restore", str(tmp_path / backup), str(data))
        assert restored.code == 0, restored.err
        with Server(data) as server:
            if found is not None:
                assert read(server) == found
                assert log_of(server)
            else:  # the recovery keys open it
                with server.client() as client:
                    assert client.get("/api/v2/status").data["code"] == 1


def test_a_database_is_verified_while_it_is_served(
    replicas: Replicas, database: Database, postgres: PostgresServer
) -> None:
    servers = replicas.founded(2)
    write(servers[0], b"kept")

    def verified(*more: str) -> tuple[int, dict[str, str], str]:
        ended = run("store", "verify", database.url, *database.password, "--json", *more)
        told = json.loads(ended.out)
        assert told["decrypted"] is bool(more)
        problems = {each["file"].split("/")[0]: each["problem"] for each in told["files"]}
        return ended.code, problems, told["state"]

    key = ("--sealed-key", str(servers[1].data / "sealed_key"))
    whole = dict.fromkeys(("recovery_index", "journal.db", "log"), "")
    before = state_of(servers[0])
    code, problems, state = verified()
    assert (code, problems) == (0, whole)
    # A replica also appends by itself, for example the dates of collateral.
    epoch, sequence, _ = state.split(".")
    assert before <= (int(epoch), int(sequence)) <= state_of(servers[0])
    code, problems, _ = verified(*key, "--platform", "simulation")
    assert (code, problems) == (0, whole | {"sealed_key": "", "contents": "", "line": ""})
    for server in servers:
        assert server.stop() == 0  # which leaves a checkpoint
    damage = "overlay(raw placing 'X'::bytea from octet_length(raw))"
    asyncio.run(
        postgres.ask(
            f"UPDATE keyhouse.note SET raw = {damage} WHERE name = 'hashes/0/000'",  # noqa: S608
            database=database.name,
        )
    )
    code, problems, _ = verified()
    assert (code, bool(problems.pop("log"))) == (1, True)
    asyncio.run(postgres.ask("DELETE FROM keyhouse.record", database=database.name))
    ended = run("store", "verify", database.url, *database.password)
    assert (ended.code, "last record" in ended.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("postgresql://u@h/d", "--stopped"), "--stopped"),
        (("postgresql://u@h/d", "--platform", "simulation"), "--platform"),
        ((".", "--sealed-key", "sealed_key"), "--sealed-key"),
    ],
)
def test_words_that_do_not_fit_what_is_verified_are_refused(
    words: tuple[str, ...], told: str
) -> None:
    ended = run("store", "verify", *words)
    assert (ended.code, told in ended.err) == (1, True)
