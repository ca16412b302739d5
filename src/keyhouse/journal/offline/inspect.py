"""Inspects the journal and the indexes of a store without its key, for people.

The chain value is a hash over sealed records. So the position of a copy can be computed without the
key and compared with a client's last position. Only the tags prove that Keyhouse wrote the records.
Verifying the tags needs the key.
"""

from pathlib import Path

import msgspec

from keyhouse.base.progress import advance, begin, is_watched
from keyhouse.journal.chain import NONCE_SIZE, Header, PayloadKind
from keyhouse.journal.directory.disk import INDEX, JOURNAL, NEXT_INDEX, Disk
from keyhouse.journal.directory.index_file import FILE_LIMIT, IndexFile
from keyhouse.journal.store.protocol import (
    EpochStart,
    Position,
    Sealed,
    StoreDamagedError,
    first_link,
    link,
)
from keyhouse.journal.store.sqlite import SqliteStore

_TAG_SIZE = 16  # bytes of an AES-GCM tag


class JournalSeen(msgspec.Struct, frozen=True):
    """The facts about ``journal.db`` that need no key."""

    store_id: bytes
    position: Position  # after the last record
    records: int  # of the present epoch: base and events
    events: int


def see_index(folder: Path) -> tuple[IndexFile, ...]:
    """Return the indexes in ``folder``: two while an epoch begins. Refuse damaged files."""
    disk, found = Disk(), []
    for name in (INDEX, NEXT_INDEX):
        raw = disk.read(folder / name, limit=FILE_LIMIT)
        if raw is not None:
            found.append(IndexFile.decode(raw, name=name))
    return tuple(found)


async def see_journal(folder: Path) -> JournalSeen | None:
    """Return the facts about ``journal.db``; None if missing or empty. Refuse a damaged file.

    Opens the file as a start does. The open copies the WAL into the file.
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
                walk.check(record)
            advance(len(batch.records))
            batch = await store.read(walk.position.sequence)
        return walk.seen()
    finally:
        await store.close()


class _Walk:
    """Follows the records of an epoch: checks their headers, and computes the chain value."""

    def __init__(self, start: EpochStart) -> None:
        if start.epoch == 1 and (start.first, start.previous) != (1, first_link(start.store_id)):
            raise StoreDamagedError("the first record of the epoch in the journal has been changed")
        self.position = start.before
        self._start = start
        self._base_ended = False
        self._events = 0

    def check(self, sealed: Sealed) -> None:
        """Check the unencrypted fields of the next record."""
        header = Header.decode(sealed.header)
        place = (self._start.store_id, self._start.epoch, self.position.sequence + 1)
        if (header.store_id, header.epoch, header.sequence) != place or sealed.sequence != place[2]:
            raise StoreDamagedError(
                f"record {place[2]} of the journal is missing or belongs to another place",
                hint="restore the state directory from a backup",
            )
        sound = len(sealed.nonce) == NONCE_SIZE and len(sealed.ciphertext) >= _TAG_SIZE
        if not sound or (header.kind is PayloadKind.EVENT) != self._base_ended:
            raise StoreDamagedError(
                f"record {place[2]} of the journal has the wrong form or kind",
                hint="restore the state directory from a backup",
            )
        self._base_ended = header.kind is not PayloadKind.BASE
        self._events += header.kind is PayloadKind.EVENT
        self.position = Position(header.epoch, header.sequence, link(self.position.chain, sealed))

    def seen(self) -> JournalSeen:
        """Return the facts about all records so far; refuse an incomplete base."""
        if not self._base_ended:
            raise StoreDamagedError(
                "the journal ends within the base of its epoch: the end of the base is missing",
                hint="restore the state directory from a backup",
            )
        records = self.position.sequence - self._start.first + 1
        return JournalSeen(self._start.store_id, self.position, records, self._events)
