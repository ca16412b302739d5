"""A release needs a clone without changes, and a tag of its own."""

from pathlib import Path

import pytest
from releasing.clone import git, require_ready, take_over


def _clone(place: Path) -> Path:
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    git(place, "config", "user.name", "test")
    git(place, "config", "user.email", "test@invalid")
    (place / "file").write_text("first\n", encoding="utf-8")
    git(place, "add", "file")
    git(place, "commit", "-q", "-m", "first")
    return place


def test_a_change_without_a_commit_stops_a_release(tmp_path: Path) -> None:
    root = _clone(tmp_path / "root")
    require_ready(root, "1.2.3")
    (root / "file").write_text("changed\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match="without a commit"):
        require_ready(root, "1.2.3")


def test_the_commit_of_a_release_is_taken_over_with_its_tag(tmp_path: Path) -> None:
    root, work = _clone(tmp_path / "root"), tmp_path / "work"
    work.mkdir()
    clone = work / "clone"
    git(root, "clone", "-q", str(root), str(clone))
    (clone / "file").write_text("released\n", encoding="utf-8")
    author = ("-c", "user.name=test", "-c", "user.email=test@invalid")
    git(clone, *author, "commit", "-q", "-a", "-m", "release: set version 1.2.3")
    take_over(root, work, "1.2.3")
    assert (root / "file").read_text("utf-8") == "released\n"
    assert git(root, "rev-parse", "v1.2.3^{commit}") == git(clone, "rev-parse", "HEAD")
    with pytest.raises(RuntimeError, match=r"tag v1\.2\.3"):
        require_ready(root, "1.2.3")
