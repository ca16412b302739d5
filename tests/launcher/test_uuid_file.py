"""The UUID file: every spelling, every way in which it can be unusable, and how it is made."""

import errno
import os
import stat
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keyhouse.launcher import LaunchRefusedError, own_uuid, read_uuid

_TEXT = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
_UUID = uuid.UUID(_TEXT)


@pytest.mark.parametrize(
    "text",
    [
        _TEXT,
        _TEXT.upper(),
        f"urn:uuid:{_TEXT}",
        f"URN:UUID:{_TEXT}",
        f"{{{_TEXT}}}",
        _TEXT.replace("-", ""),
        f"  {_TEXT}\n",
        f"\r\n\t{_TEXT}\r\n",
    ],
)
def test_uuid_is_read_in_each_of_its_forms(text: str) -> None:
    assert read_uuid(text.encode()) == _UUID


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"web-1",
        _TEXT.encode()[:-1],
        _TEXT.encode() + b"0",
        f"{{{_TEXT}".encode(),
        f"{_TEXT}}}".encode(),
        f"urn:uuid:{{{_TEXT}}}".encode(),
        f"urn:uuid:{_TEXT.replace('-', '')}".encode(),
        f"{_TEXT}\n{_TEXT}".encode(),
        _TEXT.replace("-", "").encode()[:16] + b"-" + _TEXT.replace("-", "").encode()[16:],
        _TEXT.encode("utf-16"),
        b"\xff" * 16,
        b"\xd9\xa1" * 32,  # digits, but not ours
        str(uuid.UUID(int=0)).encode(),
        b"0" * 32,
    ],
)
def test_anything_else_is_no_uuid(text: bytes) -> None:
    with pytest.raises(ValueError, match="UUID"):
        read_uuid(text)


def test_first_start_makes_the_file_and_the_next_one_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "uuid"

    first = own_uuid(str(path))

    assert path.read_text() == str(first)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (first.version, first.variant) == (4, uuid.RFC_4122)
    assert own_uuid(str(path)) == first


def test_file_is_private_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        own_uuid(str(tmp_path / "uuid"))
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "uuid").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"web-1", b"0" * 32, b" " * 300], ids=str)
def test_unusable_value_is_fatal_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "uuid"
    path.write_bytes(content)

    with pytest.raises(LaunchRefusedError, match="/uuid "):
        own_uuid(str(path))

    assert path.read_bytes() == content


def test_value_is_read_through_a_link_as_orchestrators_mount_them(tmp_path: Path) -> None:
    (tmp_path / "mounted").write_text(f"{_TEXT}\n")
    (tmp_path / "uuid").symlink_to("mounted")

    assert own_uuid(str(tmp_path / "uuid")) == _UUID


def test_no_file_is_made_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "uuid").symlink_to("elsewhere")

    with pytest.raises(LaunchRefusedError, match=r"/uuid .*no such file"):
        own_uuid(str(tmp_path / "uuid"))

    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("make", "problem"), [(os.mkfifo, "is not a regular file"), (os.mkdir, "is a directory")]
)
def test_something_else_than_a_file_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None], problem: str
) -> None:
    make(tmp_path / "uuid")

    with pytest.raises(LaunchRefusedError, match=problem):
        own_uuid(str(tmp_path / "uuid"))


def test_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchRefusedError, match=r"/missing/uuid .*no such file"):
        own_uuid(str(tmp_path / "missing/uuid"))


def test_those_who_start_together_agree_on_one_whole_value(tmp_path: Path) -> None:
    begin = threading.Barrier(4)

    def start(path: str) -> uuid.UUID:
        begin.wait()
        return own_uuid(path)

    with ThreadPoolExecutor(4) as pool:
        for number in range(200):
            path = tmp_path / f"uuid-{number}"
            values = set(pool.map(start, [str(path)] * 4))
            assert values == {read_uuid(path.read_bytes())}
    assert len(list(tmp_path.iterdir())) == 200


def test_where_there_are_no_links_the_file_is_made_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.ENOSYS, "as in Gramine")

    monkeypatch.setattr(os, "link", link)

    made = own_uuid(str(tmp_path / "uuid"))

    assert own_uuid(str(tmp_path / "uuid")) == made
    assert [path.name for path in tmp_path.iterdir()] == ["uuid"]
