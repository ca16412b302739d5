"""A difference between two builds ends a release; archives depend on contents alone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from releasing.archive import write_archive
from releasing.build import differences, require_equal
from releasing.sign import read_key, sign_sums, verifier_of, write_sums
from support.distributions import ROOT
from support.host.release import KEY, write_key

from keyhouse.base.errors import RefusedError
from keyhouse.cli.release.sums import NOTE, read_sums, signed_version


def _two(tmp_path: Path) -> tuple[Path, Path]:
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "file").write_bytes(b"content")
        (folder / "link").symlink_to("inner/file")
    return folders


def test_equal_builds_have_no_difference(tmp_path: Path) -> None:
    reported: list[str] = []
    require_equal("outputs", _two(tmp_path), reported.append)
    assert reported == ["outputs: two builds are equal"]


def test_contents_links_and_missing_files_are_differences(tmp_path: Path) -> None:
    one, two = _two(tmp_path)
    (two / "inner" / "file").write_bytes(b"changed")  # of the same length
    (two / "link").unlink()
    (two / "link").symlink_to("elsewhere")
    (one / "only").write_bytes(b"")
    assert list(differences(one, two)) == ["inner/file", "link", "only"]
    with pytest.raises(RuntimeError, match="inner/file, link, only"):
        require_equal("outputs", (one, two), print)


def test_an_archive_has_no_times_owners_and_umasks(tmp_path: Path) -> None:
    one, two = _two(tmp_path)
    (two / "inner" / "file").chmod(0o600)
    os.utime(two / "inner" / "file", (5, 5))
    for folder in (one, two):
        write_archive(folder, "top/", 1_900_000_000, tmp_path / f"{folder.name}.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()


def test_the_key_of_a_file_signs_version_and_sums(tmp_path: Path) -> None:
    (tmp_path / "output").write_bytes(b"content")
    sums = write_sums(tmp_path)
    assert read_sums(sums).keys() == {"output"}
    write_key(tmp_path / "key.pem")
    verifier = sign_sums(tmp_path, "9.8.7", read_key(tmp_path / "key.pem"), "test")
    assert verifier == verifier_of(KEY, "test")
    note = (tmp_path / NOTE).read_bytes()
    assert signed_version(sums, note, str(verifier)) == "9.8.7"
    with pytest.raises(RefusedError, match="no known key"):
        signed_version(sums, note, str(verifier_of(KEY, "another")))
    with pytest.raises(RefusedError, match='signature of "test"'):
        signed_version(sums, note.replace(b"9.8.7", b"9.8.8"), str(verifier))
    with pytest.raises(RefusedError, match=r'release key: .*"test"'):
        signed_version(sums, note, "test")
    with pytest.raises(RefusedError, match="signed sums") as caught:
        signed_version(sums + b"0" * 64 + b"  more\n", note, str(verifier))
    assert caught.value.hint == "do not use the files; fetch all of them from another place"


def test_a_build_without_a_python_leaves_no_folder(tmp_path: Path) -> None:
    tree, folder = tmp_path / "tree", tmp_path / "rebuilt"
    (tree / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "build", tree / "scripts")
    variables = {key: text for key, text in os.environ.items() if key != "PYTHON"}
    for named in ("", "relative/python3"):
        ended = subprocess.run(
            [tree / "scripts" / "build", folder],
            env=variables | {"PYTHON": named},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 1
        assert "hint: run scripts/setup development" in ended.stderr
        assert not folder.exists()


@pytest.mark.parametrize(
    ("sums", "fault"),
    [
        (b"0" * 64 + b"  ../escaped\n", "line 1 "),
        (b"0" * 64 + b"  a\n" + b"1" * 64 + b"  a\n", " a twice"),
        (b"0" * 64 + b"  a", "newline"),
        (b"0" * 63 + b"  a\n", "line 1 "),
    ],
)
def test_sums_of_another_form_are_refused(sums: bytes, fault: str) -> None:
    with pytest.raises(RefusedError, match=fault):
        read_sums(sums)
