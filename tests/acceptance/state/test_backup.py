"""Backups of coordinators that are being written to, and what comes back of them."""

import json
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.process.command import run
from support.process.server import Server
from support.samples.deployment import manifest, user

pytestmark = pytest.mark.acceptance

_SIMULATION = ("--platform", "simulation")
_BACKUPS = 4
_FILES = {"SHA256SUMS", "journal.db", "log", "recovery_index", "sealed_key"}


def position(state: str) -> tuple[int, int]:
    """Return epoch and sequence of a ``Keyhouse-State``."""
    epoch, sequence, _ = state.split(".")
    return int(epoch), int(sequence)


def command(*words: str | Path) -> dict[str, dict[str, object]]:
    """Return what a command that succeeds prints with ``--json``."""
    ended = run(*map(str, words), "--json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert isinstance(found, dict)
    return found


def refused(*words: str | Path) -> str:
    """Return what a command says that is refused."""
    ended = run(*map(str, words))
    assert (ended.code, ended.out) == (1, "")
    assert "hint: " in ended.err
    return ended.err


def upload_until(server: Server, done: threading.Event) -> int:
    """Upload large secrets, so that checkpoints come often; return how many."""
    count = 0
    with server.client(user("writer")) as writer:
        while not done.is_set():
            body = {"secrets": {"note": {"key": "QUJD" * 5000}, "key0": {"key": "A" * 22 + "=="}}}
            assert writer.post("/api/v2/secrets", body).status == 200
            count += 1
    return count


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ``data``, of a stopped coordinator, and the backups taken as it wrote."""
    folder = tmp_path_factory.mktemp("backups")
    server = Server(folder / "data")
    seen = []
    with server, ThreadPoolExecutor() as pool:
        with server.client() as client:
            assert client.set_manifest(manifest()).status == 200
        done = threading.Event()
        uploads = [pool.submit(upload_until, server, done) for _ in range(2)]
        try:
            for number in range(_BACKUPS):
                before = state_of(server)
                found = command("backup", server.data, folder / f"backup{number}")["checked"]
                seen.append([before, found["state"], state_of(server)])
        finally:
            done.set()
        assert all(each.result() > 0 for each in uploads)
    (folder / "seen.json").write_text(json.dumps(seen))
    return folder


def state_of(server: Server) -> str:
    """Return where its journal is, asked on a new connection: a backup may outlast a kept one."""
    with server.client() as client:
        return client.get("/api/v2/status").headers["keyhouse-state"]


def test_each_backup_is_whole_and_holds_all_that_was_answered_before_it(place: Path) -> None:
    seen = json.loads((place / "seen.json").read_text())
    assert len(seen) == _BACKUPS
    for number, (before, state, after) in enumerate(seen):
        assert position(before) <= position(state) <= position(after)
        backup = place / f"backup{number}"
        assert {each.name for each in backup.iterdir()} == _FILES
        assert stat.S_IMODE(backup.stat().st_mode) == 0o700
        files = [each for each in backup.rglob("*") if each.is_file()]
        assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in files)
        subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=backup, check=True)
    assert {each.name for each in place.iterdir()} == {
        *(f"backup{number}" for number in range(_BACKUPS)),
        "data",
        "data.log",
        "seen.json",
    }


def test_each_backup_is_decrypted_to_its_end_where_the_key_is(place: Path) -> None:
    seen = json.loads((place / "seen.json").read_text())
    for number, (_, state, _) in enumerate(seen):
        target = place / f"restored{number}"
        target.mkdir(mode=0o700)
        shutil.copytree(place / "data/simulation", target / "simulation")
        found = command("restore", place / f"backup{number}", target, *_SIMULATION)["checked"]
        assert (found["decrypted"], found["state"]) == (True, state)
        shutil.rmtree(target)


def test_a_restored_backup_is_served(place: Path, tmp_path: Path) -> None:
    backup, target = place / "backup0", tmp_path / "new" / "data"
    target.parent.mkdir(mode=0o700)
    ended = run("restore", str(backup), str(target))
    assert ended.code == 0
    assert "keyhouse trust forget HOST" in ended.err
    shutil.copytree(place / "data/simulation", target / "simulation")
    with Server(target) as server, server.client(user("writer")) as writer:
        assert writer.get("/api/v2/status").data["code"] == 3
        assert writer.secrets(["key0"])["key0"] in {None, bytes(16)}
        assert "is in use by process" in run("restore", str(backup), str(target)).err
    assert "not empty" in refused("restore", backup, target)


def test_a_stopped_coordinator_is_backed_up_and_no_platforms_key_goes_along(
    place: Path, tmp_path: Path
) -> None:
    found = command("backup", place / "data", tmp_path / "backup", *_SIMULATION)["checked"]
    assert found["decrypted"]
    machine = json.loads((place / "data/simulation/machine.json").read_text())
    secrets = [value for value in machine.values() if isinstance(value, str) and len(value) > 20]
    kept = b"".join(
        each.read_bytes() for each in (tmp_path / "backup").rglob("*") if each.is_file()
    )
    assert secrets
    assert not any(secret.encode() in kept for secret in secrets)


def test_a_store_whose_sealed_key_is_lost_is_kept_and_comes_back_for_the_recovery_keys(
    place: Path, tmp_path: Path
) -> None:
    data, backup, target = (tmp_path / name for name in ("data", "backup", "restored"))
    shutil.copytree(place / "data", data)
    (data / "sealed_key").unlink()
    assert "the store cannot be decrypted here" in refused("backup", data, backup, *_SIMULATION)
    for words in (("backup", data, backup), ("restore", backup, target)):
        found = command(*words)["checked"]
        assert (found["ok"], found["decrypted"]) == (False, False)
    assert {each.name for each in backup.iterdir()} == _FILES - {"sealed_key"}
    assert "recover with the recovery keys" in run("store", "verify", str(target)).out


def _flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def _change_digit(path: Path) -> None:
    """Make the first digit of a digest another digit: the file is read as before."""
    raw = path.read_bytes()
    path.write_bytes((b"1" if raw.startswith(b"0") else b"0") + raw[1:])


def _open_to_others(path: Path) -> None:
    path.chmod(0o640)


@pytest.mark.parametrize(
    ("file", "spoil", "words"),
    [
        ("journal.db", _flip, "journal.db does not match its digest in SHA256SUMS"),
        ("sealed_key", _flip, "sealed_key does not match its digest in SHA256SUMS"),
        ("recovery_index", os.unlink, "recovery_index is missing in the backup"),
        ("SHA256SUMS", os.unlink, "this is not a backup"),
        ("SHA256SUMS", _change_digit, "does not match its digest in SHA256SUMS"),
        ("journal.db", _open_to_others, "other users can access it"),
    ],
)
def test_a_spoiled_backup_is_refused_and_nothing_is_put_in_place(
    place: Path, tmp_path: Path, file: str, spoil: Callable[[Path], None], words: str
) -> None:
    shutil.copytree(place / "backup1", tmp_path / "backup")
    spoil(tmp_path / "backup" / file)
    assert words in refused("restore", tmp_path / "backup", tmp_path / "data")
    left = [
        each.name for each in tmp_path.rglob("*") if "backup" not in str(each.relative_to(tmp_path))
    ]
    assert set(left) <= {"data", "lock"}


def test_a_backup_of_nothing_and_onto_something_is_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o700)
    assert "there is no store" in refused("backup", tmp_path / "empty", tmp_path / "backup")
    assert "already exists" in refused("backup", place / "data", tmp_path / "empty")
    assert "has no folder simulation" in refused(
        "restore", place / "backup0", tmp_path / "empty", *_SIMULATION
    )
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["empty"]
