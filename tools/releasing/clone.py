"""Prepare the commit of a release in a separate clone, so a failed release changes nothing."""

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from releasing.changelog import assemble
from releasing.places import write_version


class Prepared(NamedTuple):
    """The tree of a release without its history, its commit, and its section of the changelog."""

    tree: Path
    commit: str
    section: str


def git(folder: Path, *words: str) -> str:
    """Return the output of git in ``folder``. Raises ``RuntimeError`` if git fails."""
    ended = subprocess.run(  # noqa: S603 fixed words
        ["git", "-C", str(folder), *words],  # noqa: S607 git of the user
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"git {words[0]} ended with {ended.returncode}: {ended.stderr.strip()}")
    return ended.stdout.strip()


def require_ready(root: Path, version: str) -> None:
    """Raise ``RuntimeError`` for changes without a commit, and for an existing tag."""
    if git(root, "tag", "--list", f"v{version}"):
        raise RuntimeError(f"the tag v{version} exists: choose a new version")
    if git(root, "status", "--porcelain", "--untracked-files=no"):
        raise RuntimeError("the clone has changes without a commit: commit them first")


def prepare(root: Path, work: Path, version: str, build_time: int, *, dry: bool) -> Prepared:
    """Make and return the tree of the release ``version`` from the newest commit of ``root``.

    ``build_time`` is in seconds since 1970. In a dry run the result names the newest commit of
    ``root``, because the commit of the dry run is not published.
    """
    clone, tree = work / "clone", work / "tree"
    git(root, "clone", "-q", "--no-hardlinks", str(root), str(clone))
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(build_time))
    write_version(clone, version, build_time, moment)
    section = assemble(clone, version, moment[:10])
    places = ":".join(str(clone / each) for each in ("src", "simulation/src", "tests"))
    subprocess.run(  # noqa: S603 fixed words
        [sys.executable, "-B", str(clone / "tests" / "support" / "reference.py")],
        cwd=clone,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": places},
        check=True,
    )
    base = git(root, "rev-parse", "HEAD")
    git(clone, "add", "-A")
    author = ["-c", "user.name=dry run", "-c", "user.email=dry-run@invalid"] if dry else []
    git(clone, *author, "commit", "-q", "-m", f"release: set version {version}")
    tree.mkdir()
    archive = work / "tree.tar"
    git(clone, "archive", "-o", str(archive), "HEAD")
    subprocess.run(["tar", "-xf", str(archive), "-C", str(tree)], check=True)  # noqa: S603, S607
    return Prepared(tree, base if dry else git(clone, "rev-parse", "HEAD"), section)


def take_over(root: Path, work: Path, version: str) -> None:
    """Add the commit of the release to the branch of ``root``, and tag the commit."""
    git(root, "fetch", "-q", str(work / "clone"), "HEAD")
    git(root, "merge", "-q", "--ff-only", "FETCH_HEAD")
    git(root, "tag", "-a", f"v{version}", "-m", f"Keyhouse {version}")
