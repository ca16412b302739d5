"""All records of a store: read from one place, and compared with what another one then holds.

No data key is needed: chain values are hashes over sealed records.
"""

import msgspec

from keyhouse.base.errors import UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.journal.chain import Header
from keyhouse.journal.directory.found import empty_journal
from keyhouse.journal.journal import StoreEmptyError
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import Store, StoreConflictError, StoreDamagedError
from keyhouse.journal.store.records import EpochStart, Position, Sealed, follow

_ATTEMPTS = 8  # to read what others replace meanwhile


class Whole(msgspec.Struct, frozen=True):
    """All records of the present epoch, chained and each in its place."""

    start: EpochStart
    records: tuple[Sealed, ...]
    head: Position


async def read_whole(store: Store) -> Whole:
    """Return what ``store`` holds, with its chain followed and compared with its end.

    Others may append meanwhile. Raises ``StoreConflictError`` if they begin an epoch.
    """
    start = (await store.read(0)).start
    if start is None:
        raise empty_journal()
    place, records = start.before, list[Sealed]()
    while True:
        batch = await store.read(place.sequence)
        if batch.start != start:
            raise StoreConflictError("another began an epoch meanwhile", hint="try again")
        for record in batch.records:
            place = _following(place, record, start)
        records += batch.records
        if batch.head == place:
            return Whole(start, tuple(records), place)
        if not batch.records:
            raise StoreDamagedError("the journal does not end with its last record")


async def read_database(url: Secret, database: PostgresDatabase) -> tuple[Whole, bytes]:
    """Return the store that the database serves, and its recovery index, at one moment.

    Raises ``StoreEmptyError``, ``SupersededError``, ``StoreDamagedError``, ``UnavailableError``.
    """
    store_id = await database.current()
    if store_id is None:
        raise StoreEmptyError(
            "the database has no store", hint="give the URL of the database that is served"
        )
    store = await PostgresStore.open(url, store_id)
    try:
        for _ in range(_ATTEMPTS):
            try:
                whole = await read_whole(store)
            except StoreConflictError:
                continue
            index = await database.recovery_index(store_id, whole.start.epoch)
            if index is not None:
                return whole, index
    finally:
        await store.close()
    raise UnavailableError("the database changes faster than it can be read", hint="try again")


def _following(place: Position, record: Sealed, start: EpochStart) -> Position:
    """Return the place behind ``record``. Raises ``StoreDamagedError`` if it is not the next."""
    header = Header.decode(record.header)
    number = place.sequence + 1
    found = (header.store_id, header.epoch, header.sequence, record.sequence)
    if found != (start.store_id, start.epoch, number, number):
        raise StoreDamagedError(
            f"record {number} is missing, or belongs to another place or deployment",
            hint="restore the state directory from a backup",
        )
    return follow(place, record)
