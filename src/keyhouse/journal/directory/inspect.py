"""Inspects a store without its key: names, sequence numbers, order, and the chain.

The chain value is a hash over sealed records. So the position of a copy can be computed without the
key and compared with a client's last position. Only the tags prove that Keyhouse wrote the records.
Verifying the tags needs the key.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from keyhouse.base.progress import advance, begin, is_watched
from keyhouse.journal.chain import NONCE_SIZE, Header, Kind
from keyhouse.journal.directory import sealing
from keyhouse.journal.directory.disk import (
    INDEX,
    JOURNAL,
    LOCK,
    NEXT_INDEX,
    SEALED_KEY,
    TOMBSTONE,
    Disk,
)
from keyhouse.journal.directory.index_file import FILE_LIMIT, IndexFile
from keyhouse.journal.directory.tombstone import FILE_LIMIT as TOMBSTONE_LIMIT, Tombstone
from keyhouse.journal.store.protocol import (
    EpochStart,
    Position,
    Sealed,
    StoreDamagedError,
    first_link,
    link,
)
from keyhouse.journal.store.sqlite import SqliteStore

_TAG_SIZE = 16


KEEP_LOCKS: Final = frozenset({"gramine"})
"""Kinds of platforms whose processes do not share their locks with the host."""


class KeySeen(msgspec.Struct, frozen=True):
    """The unencrypted fields of ``sealed_key``, not proven before it is unsealed."""

    store_id: bytes
    platform_kind: str
    policy: str


class JournalSeen(msgspec.Struct, frozen=True):
    """The visible facts of ``journal.db``."""

    store_id: bytes
    position: Position  # after the last record
    records: int  # of the present epoch: base and events
    events: int


def see_key(folder: Path) -> KeySeen | None:
    """Return the fields of ``sealed_key``, or None if missing. Refuse a damaged file."""
    raw = Disk().read(folder / SEALED_KEY, limit=sealing.FILE_LIMIT)
    if raw is None:
        return None
    sealed = sealing.parse(raw)
    return KeySeen(sealed.store_id, sealed.platform_kind, sealed.policy)


def see_index(folder: Path) -> tuple[IndexFile, ...]:
    """Return the indexes in ``folder``: two while an epoch begins. Refuse damaged files."""
    disk, found = Disk(), []
    for name in (INDEX, NEXT_INDEX):
        raw = disk.read(folder / name, limit=FILE_LIMIT)
        if raw is not None:
            found.append(IndexFile.decode(raw, name=name))
    return tuple(found)


def see_tombstone(folder: Path) -> Tombstone | None:
    """Return the tombstone of an erased store, or None."""
    raw = Disk().read(folder / TOMBSTONE, limit=TOMBSTONE_LIMIT)
    return None if raw is None else Tombstone.decode(raw)


def shows_users(folder: Path) -> bool:
    """Return whether the lock in ``folder`` would show a coordinator that uses it.

    False after a coordinator whose platform does not share its locks. Refuses a damaged
    ``sealed_key``.
    """
    key = see_key(folder) if os.path.lexists(folder / LOCK) else None
    return key is None or key.platform_kind not in KEEP_LOCKS


async def see_journal(folder: Path) -> JournalSeen | None:
    """Return the facts of ``journal.db``, or None if missing or empty. Refuse a wrong order.

    Opens the file as a start does, which copies its WAL into it.
    """
    if not Disk().check_file(folder / JOURNAL):
        return None
    store = await SqliteStore.open(folder / JOURNAL)
    try:
        batch = await store.read(0)
        if batch.start is None:
            return None
        walk = _Walk(batch.start)
        if is_watched() and (head := await store.head()) is not None:
            begin("checking records", head.sequence - walk.position.sequence)
        while batch.records:
            for record in batch.records:
                walk.take(record)
            advance(len(batch.records))
            batch = await store.read(walk.position.sequence)
        return walk.seen()
    finally:
        await store.close()


class _Walk:
    """Follows the records of an epoch."""

    def __init__(self, start: EpochStart) -> None:
        if start.epoch == 1 and (start.first, start.previous) != (1, first_link(start.store_id)):
            raise StoreDamagedError("the journal's beginning has been changed")
        self.position = start.before
        self._start = start
        self._base_ended = False
        self._events = 0

    def take(self, sealed: Sealed) -> None:
        """Check the unencrypted fields of the next record."""
        header = Header.decode(sealed.header)
        place = (self._start.store_id, self._start.epoch, self.position.sequence + 1)
        if (header.store_id, header.epoch, header.sequence) != place or sealed.sequence != place[2]:
            raise StoreDamagedError(
                f"record {place[2]} of the journal is missing or belongs elsewhere",
                hint="restore the state directory from a backup",
            )
        sound = len(sealed.nonce) == NONCE_SIZE and len(sealed.ciphertext) >= _TAG_SIZE
        if not sound or (header.kind is Kind.EVENT) != self._base_ended:
            raise StoreDamagedError(
                f"record {place[2]} of the journal is of the wrong form or kind",
                hint="restore the state directory from a backup",
            )
        self._base_ended = header.kind is not Kind.BASE
        self._events += header.kind is Kind.EVENT
        self.position = Position(header.epoch, header.sequence, link(self.position.chain, sealed))

    def seen(self) -> JournalSeen:
        """Return the facts; refuse an incomplete base."""
        if not self._base_ended:
            raise StoreDamagedError(
                "the journal ends within the base of its epoch: its head is missing",
                hint="restore the state directory from a backup",
            )
        records = self.position.sequence - self._start.first + 1
        return JournalSeen(self._start.store_id, self.position, records, self._events)
