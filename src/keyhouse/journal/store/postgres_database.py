"""Store the shared data beside the journal.

These are the id of the served store, claims, sealed keys, notes and parts of transparency logs.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from zlib import crc32

from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_address import awaited
from keyhouse.journal.store.postgres_connection import (
    ADVISORY,
    PostgresConnection,
    connect,
    outcome_unknown,
    unreadable,
)
from keyhouse.journal.store.protocol import (
    STORE_ID_SIZE,
    Note,
    StoreConflictError,
    StoreDamagedError,
)

LARGEST_NOTE: Final = 64 * 1024
"""The largest note in bytes."""

LARGEST_LOG_PART: Final = 32 * 1024 * 1024
"""The largest tile or object of a transparency log in bytes."""

_LOG_ID = 16  # bytes

_MOST_NOTES = 200  # of one read, chosen
_LONGEST_NAME = 64
_LARGEST_SEALED = 64 * 1024

_CURRENT = "SELECT store_id FROM keyhouse.current"
_FIRST = "INSERT INTO keyhouse.current VALUES (true, $1) ON CONFLICT DO NOTHING"
_NEXT = """
WITH moved AS (UPDATE keyhouse.current SET store_id = $1 WHERE store_id = $2 RETURNING store_id)
UPDATE keyhouse.head h SET ended = 'archived' FROM moved WHERE h.store_id = $2"""
_INDEX = """
SELECT recovery_index FROM keyhouse.epoch
WHERE store_id = $1 AND epoch = $2 AND octet_length(recovery_index) <= 16777216"""
_SEALED = """
SELECT raw FROM keyhouse.sealed
WHERE store_id = $1 AND machine = ANY ($2::bytea[]) AND octet_length(raw) <= $3"""
# The row lock waits for an epoch that begins at the same time, and then sees its number.
_SEAL = """
INSERT INTO keyhouse.sealed SELECT h.store_id, $2, $3 FROM (
  SELECT store_id FROM keyhouse.head WHERE store_id = $1 AND epoch = $4 AND ended = '' FOR SHARE
) AS h
ON CONFLICT (store_id, machine) DO UPDATE SET raw = excluded.raw"""
_NOTES = """
SELECT name, raw FROM keyhouse.note
WHERE store_id = $1 AND kind = $2 AND octet_length(raw) <= $3 AND octet_length(name) <= $4
  AND ($6::bytea[] IS NULL OR name = ANY ($6))
ORDER BY at DESC LIMIT $5"""
# The parts of a log are notes of the kind ``log``. Their store id is the id of the log.
_LOG_PART = """
SELECT raw FROM keyhouse.note
WHERE store_id = $1 AND kind = 'log' AND name = $2 AND octet_length(raw) <= $3"""
_PUT_LOG_PARTS = """
INSERT INTO keyhouse.note AS n
SELECT $1, 'log', r.* FROM unnest($2::bytea[], $3::bytea[]) AS r
ON CONFLICT (store_id, kind, name) DO UPDATE SET raw = excluded.raw, at = now()
WHERE substr(n.raw, 1, octet_length(excluded.raw)) <> excluded.raw"""
_LOG_PARTS = "SELECT name FROM keyhouse.note WHERE store_id = $1 AND kind = 'log'"
_LOGS = "SELECT DISTINCT store_id FROM keyhouse.note WHERE kind = 'log'"
_PRESENT = "present"
_PRESENT_KEY = crc32(_PRESENT.encode()) - 2**31
_OTHERS = """
SELECT 1 FROM pg_locks
WHERE locktype = 'advisory' AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND classid::bigint = $1 AND objid::bigint = $2::bigint & 4294967295
  AND pid <> pg_backend_pid() LIMIT 1"""
_PUT_NOTE = """
WITH old AS (DELETE FROM keyhouse.note WHERE store_id = $1 AND kind = $2 AND name <> $3
  AND at < now() - interval '1 hour' AND kind <> 'switch')
INSERT INTO keyhouse.note VALUES ($1, $2, $3, $4)
ON CONFLICT (store_id, kind, name) DO UPDATE SET raw = excluded.raw, at = now()"""


class PostgresDatabase:
    """Access the data beside the journal, for one replica. None of the data is trusted.

    The connection is separate, so no write or read of the journal waits for these calls. Calls run
    one after the other. Each raises ``StoreUnreadableError`` if the database does not answer.
    """

    def __init__(self, url: Secret) -> None:
        self.url: Final = url
        self._connection: PostgresConnection | None = None
        self._turn = asyncio.Lock()
        self._claimed: set[str] = set()

    async def current(self) -> bytes | None:
        """Return the id of the served store; None before the first manifest."""
        rows = await self._fetch(_CURRENT)
        if not rows:
            return None
        return _bytes(rows[0][0], STORE_ID_SIZE, exactly=True)

    async def make_current(self, store_id: bytes, *, before: bytes | None) -> None:
        """Serve the store ``store_id`` in place of ``before``; the same statement ends ``before``.

        ``before``: None if no store was served.
        Raises ``StoreConflictError`` if another store is served, or ``OutcomeUnknownError``.
        """
        async with self.asking() as connection:
            with outcome_unknown():
                if before is None:
                    done = await connection.execute(_FIRST, store_id)
                else:
                    done = await connection.execute(_NEXT, store_id, before)
        if done not in {"INSERT 0 1", "UPDATE 1"}:
            raise StoreConflictError("another coordinator has set a manifest first")

    async def claim(self, word: str) -> bool:
        """Acquire the claim ``word``; return True if this replica holds the claim.

        A claim lasts until ``close``, or until the connection is lost. Then the caller claims
        again. A claim is an advisory lock. It only keeps replicas from doing the same work at once.
        A change that must not happen twice compares the stored state.
        """
        async with self.asking() as connection:
            if word in self._claimed:
                await connection.execute("SELECT 1")
            else:
                key = crc32(word.encode()) - 2**31
                found = await connection.value("SELECT pg_try_advisory_lock($1, $2)", ADVISORY, key)
                if found is True:
                    self._claimed.add(word)
        return word in self._claimed

    async def standbys(self) -> int:
        """Return the number of standbys that each commit waits for."""
        async with self.asking() as connection:
            return awaited(await connection.standby_names())

    async def announce_presence(self) -> None:
        """Show to other replicas that this replica serves, while the connection lasts."""
        async with self.asking() as connection:
            if _PRESENT not in self._claimed:
                await connection.value(
                    "SELECT pg_advisory_lock_shared($1, $2)", ADVISORY, _PRESENT_KEY
                )
                self._claimed.add(_PRESENT)

    async def others_present(self) -> bool:
        """Return whether another replica serves, according to the database."""
        return bool(await self._fetch(_OTHERS, ADVISORY, _PRESENT_KEY))

    async def recovery_index(self, store_id: bytes, epoch: int) -> bytes | None:
        """Return the recovery index of ``epoch`` in ``store_id``; None if it is missing."""
        rows = await self._fetch(_INDEX, store_id, epoch)
        return _bytes(rows[0][0], 16 * 1024 * 1024) if rows else None

    async def sealed(self, store_id: bytes, machines: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the data key of the store ``store_id``, as sealed by each of ``machines``.

        Machines without a seal are left out.
        """
        rows = await self._fetch(_SEALED, store_id, list(machines), _LARGEST_SEALED)
        return tuple(_bytes(raw, _LARGEST_SEALED) for (raw,) in rows)

    async def seal(self, store_id: bytes, machine: bytes, raw: bytes, *, epoch: int) -> None:
        """Store ``raw``, the sealed key of ``machine``, if the store is at ``epoch``."""
        await self._execute(_SEAL, store_id, machine, raw, epoch)

    async def notes(
        self, store_id: bytes, kind: str, names: Sequence[bytes] | None = None
    ) -> tuple[Note, ...]:
        """Return up to 200 notes of ``kind``, the newest first.

        With ``names``, return only notes with these names.
        """
        wanted = None if names is None else list(names)
        limits = (LARGEST_NOTE, _LONGEST_NAME, _MOST_NOTES, wanted)
        rows = await self._fetch(_NOTES, store_id, kind, *limits, columns=2)
        return tuple(
            Note(kind, _bytes(name, _LONGEST_NAME), _bytes(raw, LARGEST_NOTE)) for name, raw in rows
        )

    async def put_note(self, store_id: bytes, note: Note) -> None:
        """Store ``note``. Also delete notes of the same kind that are older than an hour.

        Notes of the kind ``switch`` are not deleted.
        """
        if len(note.raw) > LARGEST_NOTE or len(note.name) > _LONGEST_NAME:
            raise ValueError("the note has too many bytes for the database")
        await self._execute(_PUT_NOTE, store_id, note.kind, note.name, note.raw)

    async def logs(self) -> list[bytes]:
        """Return the ids, 16 bytes each, of all transparency logs with parts in the database."""
        rows = await self._fetch(_LOGS)
        return [_bytes(log, _LOG_ID, exactly=True) for (log,) in rows]

    async def log_part(self, log: bytes, name: str) -> bytes | None:
        """Return the part ``name`` of a transparency log; None if it is missing."""
        rows = await self._fetch(_LOG_PART, log, name.encode(), LARGEST_LOG_PART)
        return _bytes(rows[0][0], LARGEST_LOG_PART) if rows else None

    async def log_part_names(self, log: bytes) -> list[str]:
        """Return the names of all parts of a transparency log."""
        rows = await self._fetch(_LOG_PARTS, log)
        names = [_bytes(name, _LONGEST_NAME * 2) for (name,) in rows]
        return sorted(name.decode("ascii", "replace") for name in names)

    async def put_log_parts(self, log: bytes, parts: Mapping[str, bytes]) -> None:
        """Store parts of a transparency log durably.

        A stored part does not change if it begins with the new bytes: partial tiles only grow.
        """
        # All writers use one order of names. Otherwise two statements could wait for each other.
        names = sorted(parts)
        raws = [parts[name] for name in names]
        if names:
            await self._execute(_PUT_LOG_PARTS, log, [name.encode() for name in names], raws)

    async def close(self) -> None:
        """Close the connection, which releases the claims. May be repeated."""
        if self._connection is not None:
            await self._connection.close()

    async def _fetch(
        self, statement: str, *values: object, columns: int = 1
    ) -> list[tuple[Any, ...]]:
        async with self.asking() as connection:
            return await connection.fetch(statement, *values, columns=columns)

    async def _execute(self, statement: str, *values: object) -> None:
        async with self.asking() as connection:
            await connection.execute(statement, *values)

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[PostgresConnection]:
        """Yield the connection to one caller at a time. Connect again if necessary."""
        async with self._turn:
            with unreadable():
                if self._connection is None or self._connection.closed:
                    self._claimed.clear()
                    self._connection = await connect(self.url)
                yield self._connection


def _bytes(value: object, most: int, *, exactly: bool = False) -> bytes:
    """Return ``value``, checked for type and length: the server might send anything.

    ``most``: the maximum of bytes; with ``exactly``, the required number of bytes.
    """
    if not isinstance(value, bytes) or len(value) > most or (exactly and len(value) != most):
        raise StoreDamagedError(
            "the database has content that Keyhouse did not write",
            hint="restore the database from a backup",
        )
    return value
