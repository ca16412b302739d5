"""Files of collateral that are read again when they change: operators replace them in use."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

from keyhouse.attestation import (
    Collateral,
    CollateralRefusedError,
    CollateralUnavailableError,
    PlatformKind,
    platform_kind,
    read_collateral,
    read_facts,
)
from keyhouse.attestation.collateral.amd import AmdCollateral, amd_collateral_in, read_amd_files
from keyhouse.attestation.collateral.bundle import MAX_COLLATERAL
from keyhouse.attestation.collateral.cache import Kept, with_newer_lists
from keyhouse.attestation.kinds.snp.authority import Roots, end_of_lists
from keyhouse.base.errors import RefusedError
from keyhouse.base.log import log
from keyhouse.base.openers import without_waiting
from keyhouse.base.printable import os_reason

_MINUTE: Final = timedelta(minutes=1)

_Version = tuple[str, int, int, int, int]


class CollateralUnreadableError(RefusedError):
    """A file of collateral cannot be read, or the files do not fit together."""

    code = "collateral-unreadable"


_Contents = Mapping[Path, bytes | CollateralUnreadableError]


class CollateralFiles:
    """Gives the bundles in ``paths``. Calls are not made from several threads at a time.

    A path is a file with one bundle, or a directory whose files ``*.json`` are bundles: one for
    each kind of platform. Of the revocation lists in them the newest serve for all. ``root_ca``: of
    the platforms' vendor, DER.

    Making one reads them and raises ``RefusedError`` if they cannot be used. Later, files that
    cannot be used, or are being written, are told in the log and the last good bundles stay: they
    have their own ends, and nothing is trusted because it is in these files.

    Whether they changed is told by their times and sizes at each call, which not every file system
    keeps true, and by their content once a minute.
    """

    def __init__(self, paths: Sequence[Path], root_ca: bytes, now: Callable[[], datetime]) -> None:
        self._paths: Final = tuple(paths)
        self._root_ca: Final = root_ca
        self._now: Final = now
        self._seen = _versions(self._paths)
        contents = _contents(self._paths)
        self._content = _digest(contents)
        self._looked = now()
        self._bundles = self._usable(contents)

    def __call__(self, quote: bytes) -> Collateral:
        """Return the bundle for ``quote``, of the platform's kind, as the files have it now.

        A single one is returned for every quote. Raises ``QuoteRefusedError`` for a quote whose
        kind cannot be told, ``CollateralUnavailableError`` if no bundle is of its kind.
        """
        self._look()
        if len(self._bundles) == 1:
            return self._bundles[0]
        kind = platform_kind(quote, self._root_ca)
        by_kind = {read_facts(bundle).kind: bundle for bundle in self._bundles}
        if kind not in by_kind:
            known = ", ".join(map(str, sorted(by_kind)))
            raise CollateralUnavailableError(
                f"there is no collateral for {kind}, only for {known}",
                hint="put its bundle beside the others: keyhouse collateral fetch QUOTE",
            )
        return by_kind[kind]

    def expires(self) -> datetime | None:
        """Return the end, UTC, of the part of the bundles that ends first; None if none says it."""
        try:
            return min(read_facts(bundle).expires for bundle in self._bundles)
        except CollateralRefusedError:
            return None

    def fetches(self) -> Mapping[str, int]:
        """Return nothing: files are not fetched."""
        return {}

    def _look(self) -> None:
        versions, now = _versions(self._paths), self._now()
        if versions == self._seen and abs(now - self._looked) < _MINUTE:
            return
        contents = _contents(self._paths)
        content = _digest(contents)
        same = (versions, content) == (self._seen, self._content)
        self._seen, self._content, self._looked = versions, content, now
        if same:
            return
        names = ", ".join(map(str, self._paths))
        try:
            self._bundles = self._usable(contents)
            log.info("read the collateral again", path=names)
        except RefusedError as problem:
            log.warning("the collateral stays as it was", reason=problem.message)

    def _usable(self, contents: _Contents) -> tuple[Collateral, ...]:
        bundles = _bundles(self._paths, contents)
        return bundles if len(bundles) == 1 else _sharing_lists(bundles, self._root_ca, self._now())


def read_bundles(paths: Sequence[Path]) -> tuple[Collateral, ...]:
    """Return the bundles in ``paths``, files or directories; several are of different kinds.

    Raises ``RefusedError`` if one cannot be used, or there is none.
    """
    return _bundles(paths, _contents(paths))


def _bundles(paths: Sequence[Path], contents: _Contents) -> tuple[Collateral, ...]:
    if not contents:
        raise _unreadable(paths[0], "it has no file *.json")
    bundles = {path: _bundle(path, content) for path, content in contents.items()}
    if len(bundles) > 1:
        _require_different_kinds(bundles)
    return tuple(bundles.values())


def _require_different_kinds(bundles: Mapping[Path, Collateral]) -> None:
    seen: dict[PlatformKind, Path] = {}
    for path, bundle in bundles.items():
        try:
            kind = read_facts(bundle).kind
        except CollateralRefusedError as refused:
            raise _unreadable(path, refused.message) from None
        if kind in seen:
            raise _unreadable(path, f"it is for {kind}, as {seen[kind].name} is")
        seen[kind] = path


def _sharing_lists(
    bundles: tuple[Collateral, ...], root_ca: bytes, now: datetime
) -> tuple[Collateral, ...]:
    """Let each bundle have the newest lists of all: older ones than were seen are refused."""
    kept = [Kept(bundle, read_facts(bundle), now) for bundle in bundles]
    for at, mine in enumerate(kept):
        newest = mine
        for other in kept:
            newest = with_newer_lists(newest, other, root_ca, now) or newest
        kept[at] = newest
    return tuple(each.collateral for each in kept)


def _files(paths: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        found += sorted(path.glob("*.json")) if _is_directory(path) else [path]
    return found


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # reading it says why
        return False


def _contents(paths: Sequence[Path]) -> _Contents:
    """Return the content of each file, read once, or why it cannot be read."""
    return {path: _read_file(path) for path in _files(paths)}


def _digest(contents: _Contents) -> bytes:
    """Return what differs when the content of a file does."""
    found = sha256()
    for path, content in contents.items():
        if isinstance(content, bytes):
            found.update(sha256(path.name.encode("utf-8", "surrogateescape")).digest())
            found.update(sha256(content).digest())
    return found.digest()


def _bundle(path: Path, content: bytes | CollateralUnreadableError) -> Collateral:
    if isinstance(content, CollateralUnreadableError):
        raise content
    try:
        return read_collateral(content)
    except CollateralRefusedError as refused:
        raise _unreadable(path, refused.message) from None


def _read_file(path: Path) -> bytes | CollateralUnreadableError:
    try:
        # Neither waits for a writer of a pipe nor follows a device to its end.
        with open(path, "rb", opener=without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _unreadable(path, "it is not a regular file")
            return file.read(MAX_COLLATERAL + 1)
    except OSError as error:
        return _unreadable(path, os_reason(error))


def _versions(paths: Sequence[Path]) -> tuple[_Version, ...]:
    """Return what differs when a file was added, removed, replaced or written."""
    found = []
    for path in _files(paths):
        try:
            status = path.stat()
        except OSError:
            continue
        numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        found.append((path.name, *numbers))
    return tuple(found)


def _unreadable(path: Path, reason: str) -> CollateralUnreadableError:
    return CollateralUnreadableError(
        f"the collateral {path} cannot be used: {reason}",
        hint="name a bundle file, the JSON object that collateral comes in, or a directory of them",
    )


class AmdFiles:
    """Gives what is in ``path``, a file or a directory. Calls are not made from several threads.

    The files are read at each call, and parsed again if their content is another one: a revocation
    list counts from when it is there, also where files have no times to be compared by. ``roots``:
    AMD's, by line of processors.

    Making one reads them. That, and each call, raises ``CollateralRefusedError`` if they cannot be
    used.
    """

    def __init__(self, path: Path, roots: Roots) -> None:
        self._path: Final = path
        self._roots: Final = roots
        self._digest = b""
        self._collateral = AmdCollateral()
        self._end: tuple[tuple[bytes, ...], datetime | None] = (), None
        self()

    def __call__(self) -> AmdCollateral:
        """Return the certificates and lists that the files have now."""
        files = read_amd_files(self._path)
        digest = b"".join(sha256(content).digest() for content in files.values())
        if digest != self._digest:
            self._collateral = amd_collateral_in(files)
            self._digest = digest
        return self._collateral

    def expires(self) -> datetime | None:
        """Return the end, UTC, of the list in use that ends first; None without lists."""
        lists = self._collateral.lists
        if self._end[0] is not lists:
            self._end = lists, end_of_lists(lists, self._roots)
        return self._end[1]

    def fetches(self) -> Mapping[str, int]:
        """Return nothing: files are not fetched."""
        return {}
