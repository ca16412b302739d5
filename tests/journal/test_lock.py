"""The lock of a state directory is a file in it, never what a link in its place leads to."""

from pathlib import Path

import pytest

from keyhouse.journal import StoreUnreadableError
from keyhouse.journal.directory.acquire import DirectoryLock, unused
from keyhouse.journal.directory.disk import Disk


class _Raced(Disk):
    """A disk on which somebody puts a link in the place of each file that was just checked."""

    def check_file(self, path: Path) -> bool:
        there = super().check_file(path)
        path.unlink(missing_ok=True)
        path.symlink_to(path.with_name("precious"))
        return there


def test_a_link_that_comes_behind_the_check_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"not a lock")
    with pytest.raises(StoreUnreadableError, match="lock cannot be opened"):
        DirectoryLock(tmp_path, _Raced())
    assert precious.read_bytes() == b"not a lock"


def test_a_link_is_no_lock_to_look_at_either(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreUnreadableError, match="lock cannot be opened"), unused(tmp_path):
        pass
