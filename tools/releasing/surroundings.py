"""Two surroundings of a build. The outputs must not depend on the surroundings.

The surroundings differ in the folder (names of different lengths), the time zone, the language, the
seed of hashes, the permissions of new files, and the times of the sources.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

_UMASK_OF_GROUP: Final = 0o002
_UMASK_OF_OWNER: Final = 0o077


class Surroundings(NamedTuple):
    """The surroundings of a build. ``time`` is the time of the sources, in s since 1970."""

    folder: str
    variables: dict[str, str]
    umask: int
    time: int

    def copy(self, tree: Path, place: Path) -> Path:
        """Return a copy of ``tree`` below ``place``, with the file times of these surroundings."""
        copied = place / self.folder / "tree"
        copied.parent.mkdir(parents=True)
        shutil.copytree(tree, copied, symlinks=True)
        for path in copied.rglob("*"):
            os.utime(path, (self.time, self.time), follow_symlinks=False)
        return copied

    def run(self, words: Sequence[object], folder: Path, **variables: str) -> str:
        """Run a program in ``folder``; return the output. Raises ``RuntimeError`` for a failure."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
        ended = subprocess.run(  # noqa: S603 fixed words
            [str(word) for word in words],
            cwd=folder,
            env={**kept, **self.variables, **variables},
            umask=self.umask,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            output = f"{ended.stdout}{ended.stderr}"[-2000:]
            raise RuntimeError(f"{words[0]} ended with {ended.returncode}: {output}")
        return ended.stdout


_KEPT: Final = (
    "HOME",
    "PATH",
    "PIP_",
    "BUILDAH_",
    "STORAGE_",
    "UV_",
    "SSL_CERT",
    "http",
    "HTTP",
    "no_proxy",
    "NO_PROXY",
)

BOTH: Final = (
    Surroundings(
        "a",
        {"TZ": "Pacific/Kiritimati", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"},
        _UMASK_OF_GROUP,
        1_000_000_000,
    ),
    Surroundings(
        "another folder/with a longer name",
        {"TZ": "America/Los_Angeles", "LC_ALL": "POSIX", "PYTHONHASHSEED": "2"},
        _UMASK_OF_OWNER,
        1_700_000_000,
    ),
)
