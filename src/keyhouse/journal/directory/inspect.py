"""Inspects a state directory without its key: what its small files state."""

import os
from pathlib import Path
from typing import Final

import msgspec

from keyhouse.journal.directory import sealing
from keyhouse.journal.directory.disk import LOCK, SEALED_KEY, TOMBSTONE, Disk
from keyhouse.journal.directory.tombstone import FILE_LIMIT as TOMBSTONE_LIMIT, Tombstone

KEEP_LOCKS: Final = frozenset({"gramine"})
"""Kinds of platforms whose processes do not share their locks with the host."""


class KeySeen(msgspec.Struct, frozen=True):
    """The unencrypted fields of ``sealed_key``, not proven before it is unsealed."""

    store_id: bytes
    platform_kind: str
    policy: str


def see_key(folder: Path) -> KeySeen | None:
    """Return the fields of ``sealed_key``, or None if missing. Refuse a damaged file."""
    raw = Disk().read(folder / SEALED_KEY, limit=sealing.FILE_LIMIT)
    if raw is None:
        return None
    sealed = sealing.parse(raw)
    return KeySeen(sealed.store_id, sealed.platform_kind, sealed.policy)


def see_tombstone(folder: Path) -> Tombstone | None:
    """Return the tombstone of an erased store, or None."""
    raw = Disk().read(folder / TOMBSTONE, limit=TOMBSTONE_LIMIT)
    return None if raw is None else Tombstone.decode(raw)


def shows_users(folder: Path) -> bool:
    """Return whether the lock in ``folder`` shows a coordinator that uses ``folder``.

    The result is False if ``sealed_key`` was made on a platform that does not share locks with the
    host. Refuses a damaged ``sealed_key``.
    """
    key = see_key(folder) if os.path.lexists(folder / LOCK) else None
    return key is None or key.platform_kind not in KEEP_LOCKS
