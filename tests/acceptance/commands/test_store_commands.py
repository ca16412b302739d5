"""`keyhouse store` on the directories of real coordinators."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from support.process.command import Ended, run
from support.process.server import Server
from support.samples.deployment import manifest, user
from support.samples.state import contents

pytestmark = pytest.mark.acceptance

_SIMULATION = ("--platform", "simulation")


def verify(path: Path, *words: str) -> tuple[int, dict[str, object]]:
    """Return the exit code and what was found."""
    ended = run("store", "verify", str(path), "--json", *words)
    assert ended.err == ""
    return ended.code, json.loads(ended.out)


def problems(found: dict[str, object]) -> dict[str, str]:
    listed = found["files"]
    assert isinstance(listed, list)
    assert all(bool(each["problem"]) == bool(each["hint"]) for each in listed)
    return {each["file"]: each["problem"] for each in listed if each["problem"]}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a coordinator that took some uploads and was stopped; not to be changed."""
    server = Server(tmp_path_factory.mktemp("used") / "data")
    with server, server.client() as client, server.client(user("writer")) as writer:
        assert client.set_manifest(manifest()).status == 200
        for number in range(5):
            assert writer.upload({"key0": bytes([number]) * 16}).status == 200
        state = client.get("/api/v2/status").headers["keyhouse-state"]
    (server.data.parent / "state").write_text(state)
    return server.data


@pytest.fixture
def data(used: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(used, tmp_path / "data")
    return tmp_path / "data"


def test_a_sound_store_is_verified_to_the_state_that_clients_saw(used: Path) -> None:
    before = contents(used)

    code, found = verify(used, *_SIMULATION)

    assert (code, found["ok"], found["decrypted"]) == (0, True, True)
    assert found["state"] == (used.parent / "state").read_text()
    assert str(found["chain"]).startswith(str(found["state"]).rpartition(".")[2])
    assert (found["logLines"], found["events"]) == (6, 5)
    assert problems(found) == {}
    assert contents(used) == before


def test_without_the_key_the_same_place_is_found_and_nothing_decrypted(used: Path) -> None:
    code, found = verify(used)

    assert (code, found["ok"], found["decrypted"]) == (0, True, False)
    assert found["state"] == (used.parent / "state").read_text()
    assert (found["logLines"], found["newest"], found["manifest"]) == (0, "", "")


def test_a_store_in_use_is_not_verified_and_its_process_is_named(data: Path) -> None:
    server = Server(data)
    with server:
        assert server.process is not None
        for command in (("verify", str(data)), ("restore", str(data), "any")):
            ended = run("store", *command)
            assert ended.code == 3
            assert f"in use by process {server.process.pid}" in ended.err
        assert run("store", "list", str(data)).code == 0
        assert run("serve", "--check-config", *_SIMULATION, "--data-dir", str(data)).code == 0
        server.kill()
    code, found = verify(data, *_SIMULATION)
    assert (code, found["logLines"]) == (0, 6)


def test_a_killed_coordinators_store_is_verified_with_its_last_record(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as client, server.client(user("writer")) as writer:
        assert client.set_manifest(manifest()).status == 200
        assert writer.upload({"key0": b"1" * 16}).status == 200
        state = client.get("/api/v2/status").headers["keyhouse-state"]
        server.kill()
    before = contents(server.data)

    code, found = verify(server.data, *_SIMULATION)

    assert (code, found["state"]) == (0, state)
    assert contents(server.data) == before


def _flip(path: Path, offset: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[offset] ^= 1
    path.write_bytes(raw)


def _sql(path: Path, statement: str) -> None:
    database = sqlite3.connect(path / "journal.db")
    with database:
        database.execute(statement)
    database.close()


def _delete(path: Path) -> None:
    path.unlink()


_CHANGE = "UPDATE record SET ciphertext = zeroblob(length(ciphertext)) WHERE sequence = 7"

_DAMAGES: list[tuple[str, Callable[[Path], None], bool]] = [
    # where it is told, what is done, whether it shows without the key
    ("sealed_key", lambda data: _flip(data / "sealed_key", 70), True),
    ("sealed_key", lambda data: _delete(data / "sealed_key"), True),
    ("recovery_index", lambda data: _flip(data / "recovery_index", 40), True),
    ("journal.db", lambda data: _delete(data / "journal.db"), True),
    ("journal.db", lambda data: _sql(data, "DELETE FROM record WHERE sequence = 8"), True),
    ("journal.db", lambda data: _sql(data, "CREATE VIEW v AS SELECT 1"), True),
    ("contents", lambda data: _sql(data, "DELETE FROM record WHERE sequence > 8"), False),
    ("contents", lambda data: _sql(data, _CHANGE), False),
]


@pytest.mark.parametrize(("wrong", "spoil", "shows"), _DAMAGES)
def test_each_damage_is_told_by_file(
    data: Path, wrong: str, spoil: Callable[[Path], None], *, shows: bool
) -> None:
    spoil(data)

    code, found = verify(data, *_SIMULATION)

    assert (code, found["ok"], found["decrypted"]) == (1, False, False)
    assert wrong in problems(found)
    assert verify(data)[0] == (1 if shows else 0)


def test_a_store_of_another_machine_cannot_be_decrypted_and_no_machine_is_made(
    data: Path,
) -> None:
    shutil.rmtree(data / "simulation")
    ended = run("store", "verify", str(data), *_SIMULATION)
    assert (ended.code, ended.out) == (1, "")
    assert "folder simulation" in ended.err
    assert not (data / "simulation").exists()
    with Server(data.with_name("other")):
        pass
    shutil.copytree(data.with_name("other") / "simulation", data / "simulation")

    code, found = verify(data, *_SIMULATION)

    assert code == 1
    assert "cannot be decrypted here" in problems(found)["contents"]


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with Server(tmp_path / "data"):
        pass
    for path, words in (
        (tmp_path / "data", "there is no store"),
        (tmp_path / "x", "is not a directory"),
    ):
        ended = run("store", "verify", str(path))
        assert (ended.code, ended.out) == (1, "")
        assert words in ended.err
    assert run("store", "list", str(tmp_path / "data")).out == ""


def _replace_deployment(data: Path) -> Path:
    """Leave another deployment in ``data``, on another machine; return the machine of the first."""
    machine = data.with_name("machine")
    (data / "simulation").rename(machine)
    server = Server(data)
    with server, server.client() as client:
        assert client.get("/api/v2/status").data["code"] == 1
        assert client.set_manifest(manifest(1)).status == 200
    return machine


def _listed(data: Path) -> list[dict[str, object]]:
    ended = run("store", "list", str(data), "--json")
    assert (ended.code, ended.err) == (0, "")
    stores = json.loads(ended.out)["stores"]
    assert isinstance(stores, list)
    return stores


def _code(server: Server) -> object:
    with server, server.client() as client:
        return client.get("/api/v2/status").data["code"]


def test_an_archived_store_is_listed_verified_restored_and_served(data: Path) -> None:
    _, first = verify(data)
    machine = _replace_deployment(data)
    present, archived = _listed(data)
    assert (archived["storeId"], archived["platformKind"]) == (first["storeId"], "simulation")
    assert present["storeId"] != first["storeId"]
    name = str(archived["name"])
    code, found = verify(data / "archive" / name)
    assert (code, found["state"]) == (0, first["state"])
    everything = contents(data)

    ended = run("store", "restore", str(data), name, "--json")

    assert ended.code == 0
    aside = json.loads(ended.out)["archived"]
    assert [store["name"] for store in _listed(data)] == ["", aside]
    assert sorted(contents(data).values()) == sorted(everything.values())
    server = Server(data)
    assert _code(server) == 1  # this machine cannot open it
    shutil.rmtree(data / "simulation")
    machine.rename(data / "simulation")
    assert verify(data, *_SIMULATION)[0] == 0
    with server, server.client() as client, server.client(user("writer")) as writer:
        assert client.get("/api/v2/status").data["code"] == 3
        assert writer.secrets(["key0"]) == {"key0": bytes([4]) * 16}


def test_the_list_is_a_table_for_people(data: Path) -> None:
    _replace_deployment(data)
    ended: Ended = run("store", "list", str(data))
    head, present, archived = ended.out.splitlines()
    assert head.split() == ["STORE", "ID", "EPOCH", "BYTES", "SEALED", "FOR"]
    assert present.startswith("(present)")
    assert archived.endswith("simulation ProductKey")
    ended = run("store", "restore", str(data), "nothing")
    assert ended.code == 1
    assert archived.split()[0] in ended.err


def test_no_secret_shows_in_what_is_printed(data: Path) -> None:
    out = "".join(
        each.out + each.err
        for each in (
            run("store", "verify", str(data), *_SIMULATION),
            run("store", "verify", str(data), "--json", *_SIMULATION),
            run("store", "list", str(data)),
        )
    )
    machine = json.loads((data / "simulation" / "machine.json").read_text())
    secrets = [value for value in machine.values() if isinstance(value, str) and len(value) > 20]
    assert secrets
    assert not any(secret in out for secret in secrets)
    assert (bytes([4]) * 16).hex() not in out
