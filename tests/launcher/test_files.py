"""Delivered files: they go where the manifest says, privately, and through no link."""

import os
import resource
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from keyhouse.base.secret import Secret
from keyhouse.launcher import LaunchRefusedError, files, write_files
from keyhouse.launcher.files import FilePath, places_of

_NEW, _OLD = b"a new secret", b"what was there"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "here"
    folder.mkdir(0o755)
    (tmp_path / "away").mkdir(0o755)
    monkeypatch.chdir(folder)
    yield folder
    # Nothing was ever written outside, and nothing half-written is left.
    assert not list((tmp_path / "away").iterdir())
    assert not list(tmp_path.rglob(".keyhouse-*"))


def _write(*paths: str) -> None:
    write_files({path: Secret(_NEW) for path in paths})


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_relative_and_absolute_paths_are_written_privately(tmp_path: Path, here: Path) -> None:
    before = os.umask(0o077)
    try:
        _write("one", "deep/er/two", f"{tmp_path}/three/four", "./deep//./five")
    finally:
        os.umask(before)

    written = [here / "one", here / "deep/er/two", tmp_path / "three/four", here / "deep/five"]
    assert [path.read_bytes() for path in written] == [_NEW] * 4
    assert {_mode(path) for path in written} == {0o600}
    assert {_mode(path) for path in (here / "deep", here / "deep/er", tmp_path / "three")} == {
        0o700
    }


def test_umask_neither_widens_nor_narrows(here: Path) -> None:
    for mask in (0, 0o277, 0o777):  # the last is felt by other users than root
        before = os.umask(mask)
        try:
            _write(f"{mask}/file")
        finally:
            os.umask(before)
        assert _mode(here / f"{mask}") == 0o700
        assert _mode(here / f"{mask}/file") == 0o600


def test_existing_directory_keeps_its_mode(here: Path) -> None:
    (here / "deep").mkdir(0o755)

    _write("deep/file")

    assert _mode(here / "deep") == 0o755


def test_existing_file_is_replaced_and_never_written_into(here: Path) -> None:
    old = here / "file"
    old.write_bytes(_OLD)
    old.chmod(0o644)
    os.link(old, here / "another name")

    with old.open("rb") as held:
        _write("file")

        assert held.read() == _OLD
    assert (old.read_bytes(), _mode(old)) == (_NEW, 0o600)
    assert (here / "another name").read_bytes() == _OLD


@pytest.mark.parametrize("at", ["a", "a/b", "a/b/c"])
@pytest.mark.parametrize("dangling", [False, True])
def test_link_at_any_component_is_refused(
    tmp_path: Path, here: Path, at: str, *, dangling: bool
) -> None:
    """A link to a directory that is there, and one to a directory that could be made."""
    link = here / at
    link.parent.mkdir(parents=True, exist_ok=True)
    target = tmp_path / "away" / "not there" if dangling else tmp_path / "away"
    link.symlink_to(target)

    with pytest.raises(LaunchRefusedError, match="symbolic link"):
        _write("a/b/c")

    assert link.is_symlink()


def test_link_to_itself_is_refused(here: Path) -> None:
    (here / "loop").symlink_to("loop")

    for path in ("loop", "loop/x"):
        with pytest.raises(LaunchRefusedError, match="symbolic link"):
            _write(path)


def test_absolute_path_through_a_link_is_refused_with_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    with pytest.raises(LaunchRefusedError, match=rf"'{tmp_path}/real'"):
        _write(f"{tmp_path}/link/file")

    assert not list((tmp_path / "real").iterdir())


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_something_else_than_a_file_is_not_replaced(here: Path, kind: str) -> None:
    there = here / "thing"
    if kind == "folder":
        there.mkdir()
    else:
        os.mkfifo(there)

    with pytest.raises(LaunchRefusedError, match=r"'thing' .*regular file"):
        _write("thing")

    assert not there.is_file()


def test_file_where_a_directory_is_needed_is_refused(here: Path) -> None:
    (here / "a").write_bytes(_OLD)

    with pytest.raises(LaunchRefusedError, match=r"'a/b' .*not a directory"):
        _write("a/b")

    assert (here / "a").read_bytes() == _OLD


def test_failure_leaves_none_of_the_files(here: Path) -> None:
    (here / "z").mkdir()

    with pytest.raises(LaunchRefusedError, match="'z'"):
        _write("a", "deep/b", "z")

    assert not (here / "a").exists()
    assert not (here / "deep/b").exists()


def test_full_disk_leaves_neither_parts_nor_the_files_before(here: Path) -> None:
    """A limit on the size of files fails a write in its middle, as a full disk does."""
    (here / "b").write_bytes(_OLD)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(LaunchRefusedError, match=r"'b' .*too large"):
            write_files({"a": Secret(_NEW), "b": Secret(bytes(1000))})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert [path.name for path in here.iterdir()] == ["b"]
    assert (here / "b").read_bytes() == _OLD


def test_links_that_change_meanwhile_never_lead_outside(tmp_path: Path, here: Path) -> None:
    """Someone swaps a directory for a link to another place, again and again."""
    done = threading.Event()

    def swap() -> None:
        number = 0
        while not done.is_set():
            number += 1
            with suppress(OSError):
                (here / "a").rename(here / f"old {number}")
            with suppress(OSError):
                (here / "a").symlink_to(tmp_path / "away")
            with suppress(OSError):
                (here / "a").unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(100):
            try:
                _write(f"a/{number}")
            except LaunchRefusedError:
                continue
    finally:
        done.set()
        swapper.join()


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        ".",
        "..",
        "a/..",
        "../a",
        "a/../b",
        "/..",
        "a/",
        "a/.",
        "a\0b",
        "//",
        "./",
        "a\ud800",
    ],
    ids=ascii,
)
def test_path_that_leads_to_no_file_or_upwards_is_refused(path: str) -> None:
    with pytest.raises(LaunchRefusedError, match="its path"):
        _write("good", path)

    assert not Path("good").exists()


@pytest.mark.parametrize(
    ("one", "other"),
    [("a/b", "a//b"), ("a", "./a"), ("a", "a/b"), ("/tmp/x", "//tmp/./x"), ("a/b", "a/b/c/d")],  # noqa: S108 nothing is written
)
def test_paths_in_each_others_way_are_refused(one: str, other: str) -> None:
    for paths in ((one, other), (other, one)):
        with pytest.raises(LaunchRefusedError, match="its path"):
            places_of(paths)


def test_keys_of_gramine_go_first() -> None:
    """Protected files can be opened only when Gramine has their key."""
    paths = ["/dev/attestation/keys/own", "/a", "/dev/attestation/protected_files_key", "/z"]

    places = places_of(["/a", "/z", *paths[::2]])

    assert [place.path for place in places] == [paths[0], paths[2], "/a", "/z"]
    assert [place.is_gramine_key for place in places] == [True, True, False, False]


@pytest.mark.parametrize(
    "path",
    [
        "dev/attestation/keys/own",
        "/dev/attestation/keys/deep/own",
        "/dev/attestation/user_report_data",
        "/dev/attestation",
        "/mnt/dev/attestation/keys/own",
    ],
)
def test_other_paths_are_no_keys_of_gramine(path: str) -> None:
    [place] = places_of([path])

    assert not place.is_gramine_key


def test_key_is_handed_to_the_special_file_itself(tmp_path: Path) -> None:
    """It is written to as it is there: Gramine would not see another file in its place."""
    special = tmp_path / "protected_files_key"
    special.write_bytes(bytes(16))
    before = special.stat().st_ino
    place = FilePath(str(special), absolute=True, folders=(), name=b"")

    files.write_gramine_key(place, b"\1" * 16)

    assert (special.read_bytes(), special.stat().st_ino) == (b"\1" * 16, before)
    special.unlink()
    special.symlink_to(tmp_path / "away" / "key")
    with pytest.raises(OSError, match="Too many levels"):
        files.write_gramine_key(place, b"\1" * 16)


def test_key_is_not_made_where_gramine_is_not() -> None:
    with pytest.raises(LaunchRefusedError) as refused:
        _write("/dev/attestation/keys/own")

    assert "Gramine" in refused.value.hint
    assert not Path("/dev/attestation").exists()


_NAMES = st.lists(st.sampled_from(["a", "b", ".", "..", "", "link", "é"]), min_size=1, max_size=5)


@given(st.lists(_NAMES.map("/".join), max_size=4))
def test_whatever_the_paths_nothing_leaves_the_working_directory(
    tmp_path_factory: pytest.TempPathFactory, paths: list[str]
) -> None:
    top = tmp_path_factory.mktemp("any")
    (top / "here/a").mkdir(parents=True)
    (top / "away").mkdir()
    (top / "here/link").symlink_to("../away")
    (top / "here/a/link").symlink_to("../../away")
    before = Path.cwd()
    os.chdir(top / "here")
    try:
        relative = [path.lstrip("/") for path in paths]
        _write(*relative)
    except LaunchRefusedError:
        assert not [path for path in (top / "here").rglob("*") if path.is_file()]
    else:
        assert all((top / "here" / path).read_bytes() == _NEW for path in relative)
    finally:
        os.chdir(before)
    assert not list((top / "away").iterdir())
    assert sorted(path.name for path in top.iterdir()) == ["away", "here"]
