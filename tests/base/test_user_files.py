"""Hints about unusable files."""

import errno
import os
from pathlib import Path

import pytest

from keyhouse.base.errors import RefusedError
from keyhouse.base.user_files import read_named_file, reading_hint, writing_hint


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("atestation.json", "did you mean attestation.json?"),
        ("./keys/alcie.key", "did you mean ./keys/alice.key?"),
        ("m.json", "check the path"),
        ("missing/a.json", "check the path: there is no directory missing"),
    ],
)
def test_file_that_may_be_meant_is_named(
    path: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keys").mkdir()
    Path("keys/alice.key").touch()
    Path("attestation.json").touch()

    assert reading_hint(path, FileNotFoundError()) == hint


@pytest.mark.parametrize(
    ("number", "reading", "writing"),
    [
        (errno.EACCES, "check who may read the file", "check who may write to the file"),
        (errno.EISDIR, "name a file, not a directory", "check the path, and the disk"),
        (errno.ENOTDIR, "check the path", "create the directory of the file first"),
        (errno.EIO, "check the path", "check the path, and the disk"),
    ],
)
def test_hint_fits_the_reason(number: int, reading: str, writing: str) -> None:
    error = OSError(number, os.strerror(number))

    assert reading_hint("a", error).startswith(reading)
    assert writing_hint(error).startswith(writing)


def test_whole_file_is_read_or_none_of_it(tmp_path: Path) -> None:
    file = tmp_path / "root.pem"
    file.write_bytes(b"x" * 65_536)
    assert read_named_file(file, 65_536, RefusedError) == b"x" * 65_536

    file.write_bytes(b"x" * 65_537)
    with pytest.raises(RefusedError, match="65536 bytes"):
        read_named_file(file, 65_536, RefusedError)


@pytest.mark.parametrize(("name", "reason"), [("none", "no such file"), (".", "is a directory")])
def test_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason) as refused:
        read_named_file(tmp_path / name, 65_536, RefusedError)
    assert str(tmp_path / name) in refused.value.message
