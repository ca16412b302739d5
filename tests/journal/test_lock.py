"""The lock of a state directory is a file inside, never the target of a link in its place."""

import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keyhouse.base.errors import KeyhouseError
from keyhouse.journal import StoreDamagedError, StoreUnreadableError
from keyhouse.journal.directory.acquire import DirectoryLock, acquire, check_state_directory, unused
from keyhouse.journal.directory.disk import Disk, InsecureFileError
from keyhouse.journal.store.protocol import StoreLockedError


class _Raced(Disk):
    """A disk with an attacker: a link replaces each checked file."""

    def check_file(self, path: Path) -> bool:
        there = super().check_file(path)
        path.unlink(missing_ok=True)
        path.symlink_to(path.with_name("precious"))
        return there


def test_a_link_that_comes_behind_the_check_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"not a lock")
    with pytest.raises(StoreUnreadableError, match=r"lock .*opened"):
        DirectoryLock(tmp_path, _Raced())
    assert precious.read_bytes() == b"not a lock"


def test_a_link_is_no_lock_to_look_at_either(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(StoreUnreadableError, match=r"lock .*opened"),
        unused(tmp_path),
    ):
        pass


@contextmanager
def _no_new_handle() -> Iterator[None]:
    def opened() -> list[str]:
        return [each.name for each in map(Path.resolve, Path("/proc/self/fd").iterdir())]

    before = opened().count("lock")
    yield
    assert opened().count("lock") == before


@contextmanager
def _no_byte_can_be_written() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_lock_holds_the_number_of_its_process_and_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_bytes(b"1" * 80)
    lock.chmod(0o600)
    taken = DirectoryLock(tmp_path, Disk())
    assert re.fullmatch(rf"{os.getpid()} [0-9a-f]{{32}}\n", lock.read_text())
    with _no_new_handle(), pytest.raises(StoreLockedError, match=f"process {os.getpid()}"):
        DirectoryLock(tmp_path, Disk())
    with (
        _no_new_handle(),
        pytest.raises(StoreLockedError, match=f"process {os.getpid()}"),
        unused(tmp_path),
    ):
        pass
    taken.release()
    with _no_new_handle(), unused(tmp_path):
        pass
    DirectoryLock(tmp_path, Disk()).release()


def test_lock_that_cannot_be_written_is_refused_and_not_kept(tmp_path: Path) -> None:
    with (
        _no_new_handle(),
        pytest.raises(StoreUnreadableError, match=r"lock .*written"),
        _no_byte_can_be_written(),
    ):
        DirectoryLock(tmp_path, Disk())
    DirectoryLock(tmp_path, Disk()).release()


def test_directory_without_a_lock_is_in_use_by_nobody(tmp_path: Path) -> None:
    looked = False
    with unused(tmp_path):
        looked = True
    assert looked
    assert list(tmp_path.iterdir()) == []


def test_pipe_in_place_of_a_lock_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with unused(tmp_path):
        pass


def test_directory_that_is_refused_is_not_kept_locked(tmp_path: Path) -> None:
    planted = tmp_path / "data" / "journal.db-journal"
    acquire(tmp_path / "data", Disk()).release()
    planted.write_bytes(b"")
    with _no_new_handle(), pytest.raises(StoreDamagedError, match=planted.name):
        acquire(tmp_path / "data", Disk())
    planted.unlink()
    acquire(tmp_path / "data", Disk()).release()


def test_directory_that_others_can_reach_is_not_taken(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(InsecureFileError):
        acquire(tmp_path, Disk())
    assert list(tmp_path.iterdir()) == []


def test_files_that_a_crash_left_half_written_are_removed(tmp_path: Path) -> None:
    for name in ("sealed_key.tmp", "recovery_index.tmp"):
        (tmp_path / name).write_bytes(b"half")
        (tmp_path / name).chmod(0o600)
    tmp_path.chmod(0o700)
    acquire(tmp_path, Disk()).release()
    assert [each.name for each in tmp_path.iterdir()] == ["lock"]


def _remove(data: Path) -> None:
    data.rmdir()
    data.parent.rmdir()


def _let_others_read_a_file(data: Path) -> None:
    (data / "sealed_key").write_bytes(b"")
    (data / "sealed_key").chmod(0o644)


FAULTS: dict[str, tuple[Callable[[Path], None], type[KeyhouseError]]] = {
    "no folder for it": (_remove, StoreUnreadableError),
    "others can read it": (lambda data: data.chmod(0o755), InsecureFileError),
    "others can read a file": (_let_others_read_a_file, InsecureFileError),
    "a planted rollback journal": (
        lambda data: (data / "journal.db-journal").touch(),
        StoreDamagedError,
    ),
}


@pytest.mark.parametrize(("spoil", "error"), FAULTS.values(), ids=FAULTS)
def test_directory_is_checked_as_at_a_start(
    tmp_path: Path, spoil: Callable[[Path], None], error: type[KeyhouseError]
) -> None:
    data = tmp_path / "folder" / "data"
    data.parent.mkdir()
    assert check_state_directory(data) == ""
    data.mkdir(mode=0o700)
    assert check_state_directory(data) == ""
    spoil(data)
    with pytest.raises(error):
        check_state_directory(data)


def test_directory_in_use_is_told_by_its_check(tmp_path: Path) -> None:
    lock = acquire(tmp_path / "data", Disk())
    assert f"process {os.getpid()}" in check_state_directory(tmp_path / "data")
    lock.release()
    assert check_state_directory(tmp_path / "data") == ""
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["lock"]
