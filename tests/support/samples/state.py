"""A state directory and its platform, for tests of stored state."""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from keyhouse.base.secret import Secret
from keyhouse.journal import DirectoryStorage, Fresh, Locked, MemoryStore, Opened
from keyhouse.journal.store.protocol import EpochStart, Sealed, follow

DEK = Secret(bytes(range(32)))
OTHER_DEK = Secret(bytes(range(32, 64)))
STORE_ID = b"0123456789abcdef"
NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NOON_MICROSECONDS = int(NOON.timestamp()) * 1_000_000


def sealing_key_of(machine: str) -> Callable[[str], Secret]:
    """Return the function that derives the sealing keys of the platform ``machine``."""

    def sealing_key(policy: str) -> Secret:
        return Secret(hashlib.sha256(f"{machine} {policy}".encode()).digest())

    return sealing_key


async def open_storage(
    path: Path,
    *,
    machine: str = "one",
    platform_kind: str = "simulation",
    step: Callable[[str], None] = lambda _name: None,
    shares_locks: bool = True,
) -> DirectoryStorage:
    """Open a state directory on ``machine``."""
    return await DirectoryStorage.open(
        path,
        platform_kind=platform_kind,
        sealing_key=sealing_key_of(machine),
        now=lambda: NOON,
        step=step,
        shares_locks=shares_locks,
    )


async def state_of(path: Path, machine: str = "one") -> object:
    """Return the result of a start on ``machine``: the payloads, or a word."""
    storage = await open_storage(path, machine=machine)
    try:
        what = await storage.load()
    finally:
        await storage.close()
    if isinstance(what, Opened):
        return (*what.replay.base, *what.replay.events)
    if isinstance(what, Locked):
        return "locked"
    return "fresh" if what == Fresh() else "ended"


def contents(path: Path) -> dict[str, bytes]:
    """Return all files of a state directory except the lock, by relative path."""
    return {
        str(each.relative_to(path)): each.read_bytes()
        for each in sorted(path.rglob("*"))
        if each.is_file() and each.name != "lock"
    }


def put_back(store: MemoryStore, start: EpochStart | None, records: Sequence[Sealed]) -> None:
    """Replace the content of ``store`` by ``records``, without a trace of the earlier content."""
    head = None if start is None else start.before
    for record in records:
        assert head is not None
        head = follow(head, record)
    store._start, store._records, store._head = start, list(records), head


Image = frozenset[tuple[str, int, bytes]]
"""Name, mode and content of all entries of a directory."""


class Snapshots:
    """A ``step`` that copies the state of the disk after a crash at each step.

    ``known``: copy only new images, and add them to ``known``; None: copy all.
    """

    def __init__(self, watched: Path, kept: Path, known: set[Image] | None = None) -> None:
        self.taken: list[tuple[str, Path]] = []
        self._watched = watched
        self._kept = kept
        self._known = known

    def __call__(self, name: str) -> None:
        if self._known is not None:
            image = _image(self._watched)
            if image in self._known:
                return
            self._known.add(image)
        copy = self._kept / f"{len(self.taken):03}"
        if self._watched.exists():
            shutil.copytree(self._watched, copy, symlinks=True)
        else:
            copy.parent.mkdir(exist_ok=True)
        self.taken.append((name, copy))


def _image(path: Path) -> Image:
    return frozenset(
        (
            str(each.relative_to(path)),
            each.lstat().st_mode,
            each.read_bytes() if each.is_file() else b"",
        )
        for each in path.rglob("*")
    )
