"""A directory of fetched collateral, for restarts and for failures of the PCCS.

The directory has a bundle for each kind of platform, named after the kind, in the form of
``read_collateral``. The additional field ``seen`` is the last time when the PCCS returned this
content, in seconds since 1970. Older versions used the time of the file instead, which not every
file system keeps. The directory is not trusted: a bundle from disk is checked like a fetched
bundle.

A revocation list belongs to an authority, not to a kind of platform. The root's list is the same
for all kinds. A PCK CA issues the certificates of platforms; its list is the same for all kinds
under this CA. So a newer list from a fetch for one kind replaces the lists of related kinds without
a fetch.
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
from keyhouse.attestation.collateral.facts import CollateralFacts, PlatformKind, require_sound
from keyhouse.attestation.errors import CollateralRefusedError, CollateralUnusableError
from keyhouse.base.durable_files import replace_file, without_links
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason

MOST_KEPT: Final = 64
"""Maximum number of kinds in the cache.

Beyond this number, the kind seen longest ago is dropped.
"""


class Kept(msgspec.Struct, frozen=True):
    """Verified collateral, valid until ``facts.expires``.

    The PCCS returned this content last at the time ``seen``.
    """

    collateral: Collateral
    facts: CollateralFacts
    seen: datetime  # last time at the PCCS, UTC


class _Seen(msgspec.Struct):
    seen: float | None = None


_seen = msgspec.json.Decoder(_Seen)


class CollateralCache:
    """A cache of collateral in files of ``folder``, created with mode 0700 when necessary.

    The methods block, so call them in a thread.
    """

    def __init__(self, folder: Path, root_ca: bytes) -> None:
        self._folder = folder
        self._root_ca = root_ca

    def read(self, kind: PlatformKind, now: datetime) -> Kept | None:
        """Return the cached collateral of ``kind``, or None if none is valid at ``now``."""
        kept = self._read(self._path(kind), now)
        return kept if kept is not None and kept.facts.kind == kind else None

    def read_all(self, now: datetime) -> list[Kept]:
        """Return all cached collateral that is valid at ``now``, the latest ``seen`` last."""
        candidates = (self._read(path, now) for path in self._folder.glob("*.json"))
        sound = (kept for kept in candidates if kept is not None)
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
        """Write the collateral ``kept`` durably, as a whole file.

        Raises ``RefusedError`` if the folder cannot be written.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._path(kept.facts.kind)
            replace_file(path, write_collateral(kept.collateral, seen=kept.seen.timestamp()))
            self._drop_oldest()
        except OSError as error:
            raise RefusedError(
                f"the collateral cache {self._folder} cannot be written: {os_reason(error)}",
                hint="make the directory writable; until then each restart fetches the"
                " collateral again",
            ) from None

    def _path(self, kind: PlatformKind) -> Path:
        return self._folder / f"{kind}.json"

    def _drop_oldest(self) -> None:
        """Keep the ``MOST_KEPT`` files with the latest ``seen``. Drop unreadable files first."""
        paths = list(self._folder.glob("*.json"))
        if len(paths) > MOST_KEPT:
            for _, path in sorted((_seen_at(path), path) for path in paths)[:-MOST_KEPT]:
                path.unlink(missing_ok=True)


def _seen_at(path: Path) -> float:
    with suppress(OSError, OverflowError, ValueError):
        return _content(path)[1].timestamp()
    return 0.0


def _content(path: Path) -> tuple[bytes, datetime]:
    """Return the content of a file, and the last time (UTC) when the PCCS returned this content.

    Raises ``OSError`` or ``ValueError``.
    """
    with open(path, "rb", opener=without_links) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        content = file.read(MAX_COLLATERAL + 1)
    seen = _seen.decode(content).seen
    return content, datetime.fromtimestamp(status.st_mtime if seen is None else seen, UTC)


def with_newer_lists(kept: Kept, newest: Kept, root_ca: bytes, now: datetime) -> Kept | None:
    """Return ``kept`` with each revocation list of ``newest`` that is newer than its own list.

    The list of a PCK CA is used only if ``kept`` and ``newest`` have the same PCK CA.

    None if no list is newer, or if the result would not be valid at ``now`` under ``root_ca``
    (DER). The time ``seen`` does not change, because TCB info and QE identity stay the same.
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
        # Require_sound checks it against the chain of this collateral.
        lists["pck_crl"] = newest.collateral.pck_crl
    if not lists:
        return None
    collateral = msgspec.structs.replace(kept.collateral, **lists)
    try:
        return Kept(collateral, require_sound(collateral, root_ca, now), kept.seen)
    except CollateralUnusableError:
        return None


def _is_newer(first: tuple[int, datetime], second: tuple[int, datetime]) -> bool:
    """Return whether the revocation list ``first`` is newer than the list ``second``.

    ``first`` and ``second``: number and date of a list. A newer list has a higher number or a later
    date. Neither its number nor its date may be lower.
    """
    return first != second and first[0] >= second[0] and first[1] >= second[1]
