"""Files are created and replaced as a whole, also after a failure or a repetition."""

import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.process.strace import read_trace, tracer

from keyhouse.base.durable_files import create, replace_file, write_new
from keyhouse.launcher.files import put_file
from keyhouse.launcher.uuid_file import create_file


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@contextmanager
def _no_more_than(size: int) -> Iterator[None]:
    """Fail each write beyond ``size`` bytes in the middle, like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("mask", [0, 0o277])
def test_replaced_file_is_private_and_alone_whatever_was_there(
    tmp_path: Path, *, alone: bool, mask: int
) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"old")
    path.chmod(0o666)
    other.hardlink_to(path)
    with _umask(mask):
        replace_file(path, b"new", alone=alone)
    assert (path.read_bytes(), _mode(path)) == (b"new", 0o600)
    assert other.read_bytes() == b"old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "other"]


@pytest.mark.parametrize("alone", [False, True])
def test_link_is_replaced_and_not_followed(tmp_path: Path, *, alone: bool) -> None:
    path, target = tmp_path / "file", tmp_path / "target"
    target.write_bytes(b"old")
    path.symlink_to(target)
    replace_file(path, b"new", alone=alone)
    assert not path.is_symlink()
    assert (path.read_bytes(), target.read_bytes()) == (b"new", b"old")


def test_what_a_kill_left_is_removed_by_who_writes_alone(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "file", tmp_path / "elsewhere"
    (tmp_path / "file.new").symlink_to(elsewhere)
    replace_file(path, b"new", alone=True)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("alone", [False, True])
def test_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, *, alone: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with _no_more_than(100), pytest.raises(OSError, match="too large"):
        replace_file(path, bytes(1000), alone=alone)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("alone", [False, True])
def test_directory_is_not_replaced(tmp_path: Path, *, alone: bool) -> None:
    (tmp_path / "file" / "inner").mkdir(parents=True)
    for path in (tmp_path / "file", Path("/"), Path()):
        with pytest.raises(OSError, match="directory"):
            replace_file(path, b"new", alone=alone)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_those_who_replace_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            list(pool.map(lambda content: replace_file(path, content), contents))
            assert path.read_bytes() in contents
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_replaced_file_is_synced_before_it_has_its_name_and_the_name_after(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; "
        "from keyhouse.base.durable_files import replace_file; "
        "replace_file(Path(sys.argv[1]), b'new')"
    )
    trace, folder = tmp_path / "trace", tmp_path / "folder"
    folder.mkdir()
    command = [*tracer(trace), sys.executable, "-B", "-c", program, str(folder / "file")]
    with subprocess.Popen(command) as process:
        assert process.wait(timeout=60) == 0
    steps = [
        (call.name, call.target or call.names[-1])
        for call in read_trace(trace, process.pid)
        if str(folder) in call.target or any(str(folder) in name for name in call.names)
    ]
    [beside] = {name for call, name in steps if call == "write"}
    assert Path(beside).name != "file"
    file = str(folder / "file")
    assert [call for call, _ in steps] == ["write", "fsync", "rename", "fsync", "fsync"]
    assert [name for _, name in steps[1:]] == [beside, file, file, str(folder)]


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_new_file_takes_the_place_of_nothing(tmp_path: Path, make: object) -> None:
    path = tmp_path / "file"
    assert callable(make)
    make(path)
    before = path.lstat()
    for attempt in (create, lambda path: write_new(path, b""), lambda path: create_file(path, b"")):
        with pytest.raises(FileExistsError):
            attempt(str(path))
    assert path.lstat() == before
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_new_file_that_cannot_be_written_is_removed(tmp_path: Path) -> None:
    for attempt in (write_new, create_file):
        with _no_more_than(100), pytest.raises(OSError, match="too large"):
            attempt(str(tmp_path / "file"), bytes(1000))
        assert not list(tmp_path.iterdir())


def test_file_is_put_into_an_open_directory_wherever_that_is_now(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    try:
        folder.rename(tmp_path / "moved")
        folder.mkdir()
        with _umask(0o277):
            put_file(handle, b"file", b"new")
    finally:
        os.close(handle)
    assert not list(folder.iterdir())
    [made] = (tmp_path / "moved").iterdir()
    assert (made.name, made.read_bytes(), _mode(made)) == ("file", b"new", 0o600)
