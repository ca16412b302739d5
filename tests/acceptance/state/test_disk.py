"""The state directory of a real process: each thing that can be wrong with it has its own message.

One deployment is made once; every test damages a copy of its directory and starts a process on it.
"""

import hashlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.process.command import refused_start
from support.process.machine import lose_the_machine
from support.process.server import Client, Server
from support.samples.crafted import made
from support.samples.deployment import manifest, user

from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.journal import DirectoryStorage
from keyhouse_simulation.folder import open_platform

pytestmark = pytest.mark.acceptance

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

RECOVER = "restore sealed_key from a backup, or remove the file while Keyhouse is stopped"
BACKUP = "restore the state"


def deployment(data: Path) -> Path:
    """Make a deployment with one uploaded secret in ``data``; return it, cleanly stopped."""
    server = Server(data)
    with server, server.client() as anyone, server.client(user("writer")) as writer:
        assert anyone.set_manifest(manifest()).status == 200
        shutil.copytree(data, data.with_name("earlier"))
        assert writer.upload({"key0": b"k" * 16}).status == 200
    return data


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deployment(tmp_path_factory.mktemp("ours") / "data")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another deployment, on the same machine."""
    folder = tmp_path_factory.mktemp("theirs")
    return deployment(folder / "data")


@pytest.fixture
def copy(tmp_path: Path, ours: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(ours, tmp_path / "data"))


def uploaded(client: Client) -> bytes | None:
    return client.secrets(["key0"])["key0"]


def test_a_whole_copy_opens_with_everything(copy: Path) -> None:
    with Server(copy) as server, server.client(user("writer")) as writer:
        assert uploaded(writer) == b"k" * 16


# --- others can reach it, or it is not what it must be ---


def test_a_second_process_is_refused_and_told_of_the_first(copy: Path) -> None:
    with Server(copy) as server:
        assert server.process is not None
        refused = refused_start(copy)
        assert server.process.poll() is None
    assert refused.error == f"the state directory is in use by process {server.process.pid}"
    assert refused.hint.startswith("stop that process")


@pytest.mark.parametrize("name", ["", "sealed_key", "journal.db", "recovery_index", "lock"])
@pytest.mark.parametrize("mode", [0o040, 0o002])
def test_wider_permissions_are_refused_by_name(copy: Path, name: str, mode: int) -> None:
    path = copy / name
    path.chmod(path.stat().st_mode | mode)

    refused = refused_start(copy)

    assert refused.error.startswith(f"{path.name} has mode 0")
    assert refused.hint.startswith("run chmod 0600" if name else "run chmod 0700")


@pytest.mark.parametrize("name", ["sealed_key", "journal.db", "recovery_index", "lock"])
def test_a_symbolic_link_is_refused_even_to_the_file_itself(copy: Path, name: str) -> None:
    moved = (copy / name).rename(copy.with_name("elsewhere"))
    (copy / name).symlink_to(moved)

    assert refused_start(copy).error == f"{name} is a symbolic link"


@AS_ROOT
@pytest.mark.parametrize("name", ["", "sealed_key", "journal.db"])
def test_another_owner_is_refused_by_name(copy: Path, name: str) -> None:
    path = copy / name
    os.chown(path, 12345, 12345)

    refused = refused_start(copy)

    assert refused.error.startswith(f"{path.name} belongs to user 12345, not to user 0")
    assert "then chown it" in refused.hint


# --- it is damaged, old, or of another deployment ---


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


def newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()


def plant(path: Path) -> None:
    """Plant a trigger that swallows every record without an error."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER swallow BEFORE INSERT ON record BEGIN SELECT RAISE(IGNORE); END"
        )
    connection.close()


def forget(path: Path) -> None:
    """Take the last record out."""
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM record WHERE sequence = (SELECT max(sequence) FROM record)")
    connection.close()


def contents(data: Path) -> dict[str, bytes]:
    """Return the files of a state directory but for the lock, which has the last process in it."""
    files = [path for path in data.iterdir() if path.is_file() and path.name != "lock"]
    return {path.name: path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("name", "damage", "error", "hint"),
    [
        ("sealed_key", truncate, "sealed_key is damaged", RECOVER),
        ("sealed_key", flip, "sealed_key is damaged", RECOVER),
        ("sealed_key", empty, "sealed_key is damaged", RECOVER),
        ("journal.db", flip, "journal.db is damaged", BACKUP),
        ("journal.db", empty, "journal.db is empty, but a manifest was set before", BACKUP),
        ("journal.db", truncate, "", BACKUP),
        ("journal.db", remove, "sealed_key is there but journal.db is missing", BACKUP),
        ("journal.db", newer, "journal.db has format 9, this version", "start the version"),
        ("journal.db", plant, "journal.db has tables, triggers or views that", BACKUP),
        (
            "journal.db",
            forget,
            "the journal ends at 1.7 but was at 1.8 before",
            "restore the newest",
        ),
        (
            "recovery_index",
            flip,
            "recovery_index is damaged",
            "restore recovery_index from a backup",
        ),
        ("recovery_index", remove, "recovery_index is missing", "restore"),
    ],
)
def test_damage_is_refused_by_name(
    copy: Path, name: str, damage: Callable[[Path], None], error: str, hint: str
) -> None:
    damage(copy / name)
    before = contents(copy)

    refused = refused_start(copy)

    assert refused.error.startswith(error)
    assert refused.hint.startswith(hint)
    assert str(copy) not in refused.error  # a name, not a path
    assert contents(copy) == before


@pytest.mark.parametrize("name", ["journal.db", "sealed_key", "recovery_index"])
def test_a_file_of_another_deployment_is_refused_by_name(
    copy: Path, theirs: Path, name: str
) -> None:
    shutil.copy2(theirs / name, copy / name)

    refused = refused_start(copy)

    assert name in refused.error
    assert refused.error.endswith("belong to different deployments")


def test_an_older_journal_is_refused_as_rolled_back(copy: Path, ours: Path) -> None:
    earlier = ours.with_name("earlier")
    shutil.copy2(earlier / "journal.db", copy / "journal.db")

    refused = refused_start(copy)

    assert "rolled back" in refused.error


# --- another machine ---


def test_a_new_machine_starts_in_recovery_mode_and_a_new_manifest_archives_the_old_journal(
    copy: Path,
) -> None:
    old = {name: (copy / name).read_bytes() for name in ("journal.db", "sealed_key")}
    lose_the_machine(copy)
    server = Server(copy)
    with server, server.client() as anyone:
        assert anyone.get("/api/v2/status").data["code"] == 1
        assert "sealed on another machine" in server.logged()
        assert anyone.set_manifest(manifest()).status == 200
        assert anyone.get("/api/v2/status").data["code"] == 3
    (archived,) = (copy / "archive").iterdir()
    assert {name: (archived / name).read_bytes() for name in old} == old
    with server, server.client() as anyone, server.client(user("writer")) as writer:
        assert anyone.get("/api/v2/status").data["code"] == 3
        assert uploaded(writer) is None
        assert writer.upload({"key0": b"n" * 16}).status == 200


def test_recovery_mode_alone_changes_nothing(copy: Path) -> None:
    shutil.copytree(copy / "simulation", copy.with_name("machine"))
    lose_the_machine(copy)
    for _ in range(2):
        with Server(copy) as server, server.client() as anyone:
            assert anyone.get("/api/v2/status").data["code"] == 1
    shutil.rmtree(copy / "simulation")
    shutil.copytree(copy.with_name("machine"), copy / "simulation")
    with Server(copy) as server, server.client(user("writer")) as writer:
        assert uploaded(writer) == b"k" * 16


def test_state_of_another_platform_is_refused(copy: Path) -> None:
    key = copy / "sealed_key"
    key.write_bytes(renamed_platform(key.read_bytes()))

    refused = refused_start(copy)

    assert (
        refused.error
        == "sealed_key was made on the platform gramine, this coordinator runs on simulation"
    )


def renamed_platform(sealed: bytes) -> bytes:
    """Return the file as another platform would have begun it, with the digest that it then has."""
    named = sealed[:-32].replace(b"\x0asimulation", b"\x07gramine", 1)
    return named + hashlib.sha256(named).digest()


# --- a full disk ---


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB."""
    place = tmp_path / "data"
    place.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() != 0 or mount is None or umount is None:
        pytest.skip("a small disk needs root and mount")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("mounting a small disk is not permitted here")
    try:
        yield place
    finally:
        subprocess.run([umount, str(place)], check=True)


def test_a_full_disk_stops_writes_but_not_reads_and_loses_nothing(small_disk: Path) -> None:
    server, value = Server(small_disk), 0
    ballast = small_disk / "ballast"
    with server, server.client() as anyone, server.client(user("writer")) as writer:
        assert anyone.set_manifest(manifest()).status == 200
        ballast.write_bytes(bytes(1024 * 1024))
        ballast.chmod(0o600)
        while (reply := writer.upload({"key0": (value + 1).to_bytes(16)})).status == 200:
            value += 1
        assert value > 0
        assert reply.status == 503
        assert "no space left for journal.db" in reply.envelope["message"]
        for _ in range(3):
            assert writer.upload({"key0": bytes(16)}).status == 503
            assert anyone.get("/api/v2/status").data["code"] == 3
            assert uploaded(writer) == value.to_bytes(16)
        assert len(anyone.get("/api/v2/update").data["updateLog"]) == 1 + value
        ballast.unlink()
        for _ in range(20):
            value += 1
            assert writer.upload({"key0": value.to_bytes(16)}).status == 200
        server.kill()
    with server, server.client(user("writer")) as writer:
        assert uploaded(writer) == value.to_bytes(16)
        assert len(writer.get("/api/v2/update").data["updateLog"]) == 1 + value
        assert server.stop() == 0
    assert "Traceback" not in server.logged()


def test_a_process_stops_cleanly_on_a_full_disk_and_does_not_start_there(small_disk: Path) -> None:
    server, ballast = Server(small_disk), small_disk / "ballast"
    with server, server.client() as anyone, server.client(user("writer")) as writer:
        assert anyone.set_manifest(manifest()).status == 200
        assert writer.upload({"key0": b"k" * 16}).status == 200
        fill(ballast)
        assert server.stop() == 0
    fill(ballast)
    refused = refused_start(small_disk)
    assert "no space left" in refused.error
    assert refused.hint == "free some space on the disk"
    ballast.unlink()
    with server, server.client(user("writer")) as writer:
        assert uploaded(writer) == b"k" * 16


def fill(ballast: Path) -> None:
    """Take all the room that is left."""
    with ballast.open("ab", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


async def _store_of_another_platform(copy: Path) -> None:
    """Replace the store by one whose journal says another platform than its sealed key.

    The simulated machine's sealing key lies on the disk, so anybody can seal for it.
    """
    crafted = made(manifest())  # on the platform "test"
    machine = open_platform(copy / "simulation")
    for name in ("journal.db", "sealed_key", "recovery_index"):
        (copy / name).unlink()
    storage = await DirectoryStorage.open(
        copy,
        platform_kind="simulation",
        sealing_key=machine.sealing_key,
    )
    await storage.establish(
        store_id=crafted.store_id,
        dek=crafted.dek,
        base=encode_events(base_events(crafted.running, crafted.log.view())),
        policy="ProductKey",
    )
    await storage.close()


async def test_a_journal_of_another_platform_is_refused_although_its_key_opens(copy: Path) -> None:
    await _store_of_another_platform(copy)

    refused = refused_start(copy)

    assert (
        refused.error
        == "the state was made on the platform test; this coordinator runs on simulation"
    )
