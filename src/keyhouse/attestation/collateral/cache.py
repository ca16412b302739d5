"""Collateral that was fetched, kept in a directory so that a restart or a dead PCCS does no harm.

One bundle for each kind of platform, named after it, in the form of ``read_collateral``, with a
field more: ``seen`` says when its content was last seen at the PCCS, in seconds since 1970. (In
files of earlier versions that is the time of the file. Not every file system keeps one.) The
directory is not trusted: what is read back is checked as if it had just been fetched.

A revocation list is of an authority, not of a kind of platform: the root's is the same for all,
that of a PCK CA for all whose PCK certificates it issues. A newer one that came with one kind need
not be fetched again for another.
"""

import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from keyhouse.attestation.collateral.bundle import (
    MAX_COLLATERAL,
    Collateral,
    read_collateral,
    write_collateral,
)
from keyhouse.attestation.collateral.facts import CollateralFacts, require_sound
from keyhouse.attestation.collateral.platform_kind import PlatformKind
from keyhouse.attestation.errors import CollateralRefusedError, CollateralUnusableError
from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import RefusedError
from keyhouse.base.openers import without_links
from keyhouse.base.printable import os_reason

MOST_KEPT: Final = 64
"""Kinds of platforms whose collateral is kept. With one more, the one seen longest ago goes."""


class Kept(msgspec.Struct, frozen=True):
    """Sound collateral: when it was kept, at ``seen``, and until ``facts.expires``."""

    collateral: Collateral
    facts: CollateralFacts
    seen: datetime  # at the PCCS, UTC


class _Seen(msgspec.Struct):
    seen: float | None = None


_seen = msgspec.json.Decoder(_Seen)


class CollateralCache:
    """Files in ``folder``, made (0700) when there is something to keep. Blocks; use a thread."""

    def __init__(self, folder: Path, root_ca: bytes) -> None:
        self._folder = folder
        self._root_ca = root_ca

    def read(self, kind: PlatformKind, now: datetime) -> Kept | None:
        """Return what is kept for ``kind`` if it is sound at ``now``; a bad file counts as none."""
        kept = self._read(self._path(kind), now)
        return kept if kept is not None and kept.facts.kind == kind else None

    def read_all(self, now: datetime) -> list[Kept]:
        """Return what is kept and sound at ``now``, the one seen last at the end."""
        found = (self._read(path, now) for path in self._folder.glob("*.json"))
        sound = (kept for kept in found if kept is not None)
        return sorted(sound, key=lambda kept: kept.seen)[-MOST_KEPT:]

    def _read(self, path: Path, now: datetime) -> Kept | None:
        try:
            content, seen = _content(path)
            collateral = read_collateral(content)
            facts = require_sound(collateral, self._root_ca, now)
        except (OSError, OverflowError, ValueError, CollateralRefusedError):
            return None
        return Kept(collateral, facts, seen)

    def write(self, kept: Kept) -> None:
        """Keep ``kept``, durably and whole.

        Raises ``RefusedError`` if the folder does not take it.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._path(kept.facts.kind)
            replace_file(path, write_collateral(kept.collateral, seen=kept.seen.timestamp()))
            self._drop_oldest()
        except OSError as error:
            raise RefusedError(
                f"the collateral cache {self._folder} cannot be written: {os_reason(error)}",
                hint="it is fetched again after a restart until the directory can be written",
            ) from None

    def _path(self, kind: PlatformKind) -> Path:
        return self._folder / f"{kind}.json"

    def _drop_oldest(self) -> None:
        """Keep the ``MOST_KEPT`` that were seen last; what cannot be read goes first."""
        paths = list(self._folder.glob("*.json"))
        if len(paths) > MOST_KEPT:
            for _, path in sorted((_seen_at(path), path) for path in paths)[:-MOST_KEPT]:
                path.unlink(missing_ok=True)


def _seen_at(path: Path) -> float:
    with suppress(OSError, OverflowError, ValueError):
        return _content(path)[1].timestamp()
    return 0.0


def _content(path: Path) -> tuple[bytes, datetime]:
    """Return what is in the file, and when that was seen. Raises ``OSError``, ``ValueError``."""
    with open(path, "rb", opener=without_links) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("not a regular file")
        content = file.read(MAX_COLLATERAL + 1)
    seen = _seen.decode(content).seen
    return content, datetime.fromtimestamp(found.st_mtime if seen is None else seen, UTC)


def with_newer_lists(kept: Kept, newest: Kept, root_ca: bytes, now: datetime) -> Kept | None:
    """Return ``kept`` with those lists of ``newest`` that are newer than its own.

    None if no list is newer, or if it would not be sound with them: at ``now``, under ``root_ca``
    (DER). When its documents were seen at the PCCS stays as it was.
    """
    mine, theirs, lists = kept.facts, newest.facts, {}
    if _is_newer(
        (theirs.root_crl_number, theirs.root_crl_issued),
        (mine.root_crl_number, mine.root_crl_issued),
    ):
        lists["root_ca_crl"] = newest.collateral.root_ca_crl
    if theirs.kind.ca is mine.kind.ca and _is_newer(
        (theirs.pck_crl_number, theirs.pck_crl_issued), (mine.pck_crl_number, mine.pck_crl_issued)
    ):
        lists["pck_crl"] = newest.collateral.pck_crl  # under its own chain, or it is not sound
    if not lists:
        return None
    collateral = msgspec.structs.replace(kept.collateral, **lists)
    try:
        return Kept(collateral, require_sound(collateral, root_ca, now), kept.seen)
    except CollateralUnusableError:
        return None


def _is_newer(one: tuple[int, datetime], other: tuple[int, datetime]) -> bool:
    """Tell whether number and date of one list are those of the other or later, and not both."""
    return one != other and one[0] >= other[0] and one[1] >= other[1]
