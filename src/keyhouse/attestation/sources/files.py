"""Collateral in files that operators replace in use. Changed files are read again."""

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
from keyhouse.base.durable_files import without_waiting
from keyhouse.base.errors import RefusedError
from keyhouse.base.log import log
from keyhouse.base.printable import os_reason

_MINUTE: Final = timedelta(minutes=1)

_Version = tuple[str, int, int, int, int]


class CollateralUnreadableError(RefusedError):
    """A file of collateral is unusable, or the files contradict each other."""

    code = "collateral-unreadable"


_Contents = Mapping[Path, bytes | CollateralUnreadableError]


class CollateralFiles:
    """Returns the bundles in ``paths``. Do not call from several threads at the same time.

    A path is a file with a bundle, or a directory whose files ``*.json`` are bundles: one for each
    kind of platform. The newest revocation lists serve for all bundles. ``root_ca`` is the root of
    the platforms' vendor, DER.

    The constructor reads the files, and raises ``RefusedError`` for unusable files. Later, the log
    reports unusable or incomplete files, and the last good bundles stay in use. This adds no trust,
    because each use verifies the bundle, including the end of its validity.

    Each call compares times and sizes of the files. Some file systems report wrong times, so the
    contents are compared once a minute.
    """

    def __init__(self, paths: Sequence[Path], root_ca: bytes, now: Callable[[], datetime]) -> None:
        self._paths: Final = tuple(paths)
        self._root_ca: Final = root_ca
        self._now: Final = now
        self._seen = _versions(self._paths)
        contents = _contents(self._paths)
        self._content = _digest(contents)
        self._checked_at = now()
        self._bundles = self._usable(contents)

    def __call__(self, quote: bytes) -> Collateral:
        """Return the bundle for the kind of platform of ``quote``.

        If there is only a single bundle, every quote gets this bundle. Raises ``QuoteRefusedError``
        if the kind of the quote is unknown, and ``CollateralUnavailableError`` if no bundle is for
        this kind.
        """
        self._reload_if_changed()
        if len(self._bundles) == 1:
            return self._bundles[0]
        kind = platform_kind(quote, self._root_ca)
        by_kind = {read_facts(bundle).kind: bundle for bundle in self._bundles}
        if kind not in by_kind:
            known = ", ".join(map(str, sorted(by_kind)))
            raise CollateralUnavailableError(
                f"there is no collateral for {kind}, only for {known}",
                hint="add the bundle of this kind: keyhouse collateral fetch QUOTE",
            )
        return by_kind[kind]

    def expires(self) -> datetime | None:
        """Return the earliest end (UTC) of the bundles, or None if no part states an end."""
        try:
            return min(read_facts(bundle).expires for bundle in self._bundles)
        except CollateralRefusedError:
            return None

    def fetches(self) -> Mapping[str, int]:
        """Return an empty mapping, because files are not fetched."""
        return {}

    def _reload_if_changed(self) -> None:
        versions, now = _versions(self._paths), self._now()
        if versions == self._seen and abs(now - self._checked_at) < _MINUTE:
            return
        contents = _contents(self._paths)
        content = _digest(contents)
        same = (versions, content) == (self._seen, self._content)
        self._seen, self._content, self._checked_at = versions, content, now
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
    """Return the bundles in ``paths``, files or directories. Their kinds of platform differ.

    Raises ``RefusedError`` for an unusable file or without any file.
    """
    return _bundles(paths, _contents(paths))


def _bundles(paths: Sequence[Path], contents: _Contents) -> tuple[Collateral, ...]:
    if not contents:
        raise _unreadable(paths[0], "the directory has no file *.json")
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
            raise _unreadable(
                path, f"the file and {seen[kind].name} are both for {kind}; only one may be"
            )
        seen[kind] = path


def _sharing_lists(
    bundles: tuple[Collateral, ...], root_ca: bytes, now: datetime
) -> tuple[Collateral, ...]:
    """Return ``bundles``, each with the newest revocation lists of all ``bundles``.

    Without this copy, a bundle with an older list would be refused: the marks remember the newer
    list of another bundle.
    """
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
    except OSError:  # the later read reports the reason
        return False


def _contents(paths: Sequence[Path]) -> _Contents:
    """Return the content of each file of ``paths``, or the reason why the file cannot be read."""
    return {path: _read_file(path) for path in _files(paths)}


def _digest(contents: _Contents) -> bytes:
    """Return a digest over the names and contents of the files."""
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
        # The opener neither waits for a writer of a pipe nor reads a device without an end.
        with open(path, "rb", opener=without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _unreadable(path, "the path is not a regular file")
            return file.read(MAX_COLLATERAL + 1)
    except OSError as error:
        return _unreadable(path, os_reason(error))


def _versions(paths: Sequence[Path]) -> tuple[_Version, ...]:
    """Return a value that changes if a file of ``paths`` is added, removed, replaced or written."""
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
        hint="name a bundle (JSON, from keyhouse collateral fetch), or a directory of bundles",
    )


class AmdFiles:
    """Returns AMD's collateral in ``path``, a file or directory. Do not call from several threads.

    Each call reads the files and parses changed contents. So a revocation list takes effect at
    once, even on file systems without times. ``roots`` are AMD's roots by line of processors.

    The constructor and each call raise ``CollateralRefusedError`` for unusable files.
    """

    def __init__(self, path: Path, roots: Roots) -> None:
        self._path: Final = path
        self._roots: Final = roots
        self._digest = b""
        self._collateral = AmdCollateral()
        self._end: tuple[tuple[bytes, ...], datetime | None] = (), None
        self()

    def __call__(self) -> AmdCollateral:
        """Return the certificates and lists in the files."""
        files = read_amd_files(self._path)
        digest = b"".join(sha256(content).digest() for content in files.values())
        if digest != self._digest:
            self._collateral = amd_collateral_in(files)
            self._digest = digest
        return self._collateral

    def expires(self) -> datetime | None:
        """Return the earliest end (UTC) of the lists in use, or None without lists."""
        lists = self._collateral.lists
        if self._end[0] is not lists:
            self._end = lists, end_of_lists(lists, self._roots)
        return self._end[1]

    def fetches(self) -> Mapping[str, int]:
        """Return an empty mapping, because files are not fetched."""
        return {}
