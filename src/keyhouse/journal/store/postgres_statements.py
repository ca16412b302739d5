"""The statements on the tables of a store in PostgreSQL, and the rows that the server returns.

The server might return any values. So each row is checked for types and sizes before its use.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from keyhouse.journal.store.postgres_connection import ConnectionDroppedError, PostgresConnection
from keyhouse.journal.store.postgres_turns import KEY, LOCK
from keyhouse.journal.store.protocol import (
    CHAIN_SIZE,
    Batch,
    Beside,
    EpochStart,
    Flush,
    Position,
    Sealed,
    StoreDamagedError,
    SupersededError,
    follow,
)

_PIECE_RECORDS = 1000  # of one read, chosen
_PIECE_BYTES = 1024 * 1024  # of one read, chosen
CHANNEL = "keyhouse"
_ONE_ROW = "INSERT 0 1"

FENCE = """
INSERT INTO keyhouse.head AS h (store_id, epoch, sequence, chain, fence, ended)
VALUES ($1, 0, 0, '', 0, '')
ON CONFLICT (store_id) DO UPDATE SET fence = h.fence + 1
RETURNING epoch, sequence, chain, fence, ended, current_setting('synchronous_standby_names')"""
HEAD = """
SELECT epoch, sequence, chain, fence, ended, current_setting('synchronous_standby_names')
FROM keyhouse.head WHERE store_id = $1"""
HEAD_COLUMNS = 6  # of the statement above
# The commit of the message comes after the read of the head. If a standby confirms the commit, that
# standby was not promoted when the head was read. So no new primary had acknowledged a later
# change.
CONFIRMED_HEAD = """
WITH confirmed AS MATERIALIZED (SELECT pg_logical_emit_message(true, 'keyhouse', ''))
SELECT epoch, sequence, chain, fence, ended, current_setting('synchronous_standby_names')
FROM confirmed, keyhouse.head WHERE store_id = $1"""
_ROWS = "unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[]) AS r"
_INSERT = f"INSERT INTO keyhouse.record SELECT $1, r.* FROM {_ROWS}"  # noqa: S608 - constants
APPEND = f"""
WITH moved AS (
  UPDATE keyhouse.head SET sequence = $6, chain = $7
  WHERE store_id = $1 AND epoch = $8 AND sequence = $9 AND chain = $10 AND fence = $11
    AND ended = '' AND ($12 OR pg_try_advisory_xact_lock_shared({KEY[0]}, {KEY[1]}))
  RETURNING store_id, pg_notify('{CHANNEL}', ''),
    set_config('synchronous_commit', CASE WHEN $13::boolean THEN 'off' ELSE 'on' END, true))
INSERT INTO keyhouse.record SELECT m.store_id, r.* FROM moved m, {_ROWS}"""  # noqa: S608
_INSERT_EPOCH = "INSERT INTO keyhouse.epoch VALUES ($1, $2, $3, $4, $5, $6)"
_SEAL = """
INSERT INTO keyhouse.sealed VALUES ($1, $2, $3)
ON CONFLICT (store_id, machine) DO UPDATE SET raw = excluded.raw"""
_CLEAR_NOTES = "DELETE FROM keyhouse.note WHERE store_id = $1 AND kind = ANY ($2::text[])"
_INSERT_NOTE = "INSERT INTO keyhouse.note VALUES ($1, $2, $3, $4)"
_MOVE_HEAD = f"""
UPDATE keyhouse.head SET epoch = $2, sequence = $3, chain = $4
WHERE store_id = $1 RETURNING pg_notify('{CHANNEL}', '')"""  # noqa: S608
# One statement reads one snapshot: start, records and head belong together. The last column is true
# if everything that the statement can see is durable: no WAL waits for a flush, nor for a standby.
_FOUND = """
SELECT h.epoch, h.sequence, h.chain, h.ended, e.epoch, e.first, e.previous, e.key_check,
  r.sequence, r.header, r.nonce, r.ciphertext, h.fence,
  current_setting('synchronous_standby_names') = ''
    AND pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()
FROM keyhouse.head h LEFT JOIN keyhouse.epoch e ON e.store_id = h.store_id
LEFT JOIN LATERAL (
  SELECT *, sum(octet_length(ciphertext)) OVER (ORDER BY sequence) AS size FROM (
    SELECT sequence, header, nonce, ciphertext FROM keyhouse.record
    WHERE store_id = $1 AND sequence > $2 ORDER BY sequence LIMIT 1000) AS next
) AS r ON r.size - octet_length(r.ciphertext) < 4194304
WHERE h.store_id = $1"""
READ = f"{_FOUND} ORDER BY 9"
READ_COLUMNS = 14
FENCE_COLUMN = 12
# For ``Turns``: the same prepared statement either waits for the lock and returns one row, or
# reads.
READ_IN_TURN = f"""
SELECT NULL::bigint, NULL::bigint, NULL::bytea, {LOCK}::text, NULL::bigint, NULL::bigint,
  NULL::bytea, NULL::bytea, NULL::bigint, NULL::bytea, NULL::bytea, NULL::bytea,
  NULL::bigint, NULL::boolean WHERE $3
UNION ALL ({_FOUND} AND NOT $3) ORDER BY 9"""
# Compare the number of the newest records with the head, for at most a thousand records.
IS_WHOLE = """
SELECT least(1000, h.sequence - e.first + 1) = (
  SELECT count(*) FROM keyhouse.record r WHERE r.store_id = $1
    AND r.sequence BETWEEN greatest(e.first, h.sequence - 999) AND h.sequence)
FROM keyhouse.head h JOIN keyhouse.epoch e ON e.store_id = h.store_id WHERE h.store_id = $1"""


async def replace_epoch(
    connection: PostgresConnection,
    store_id: bytes,
    start: EpochStart,
    beside: Beside,
    records: Iterator[Sealed],
) -> Position:
    """Replace the rows of the store by ``start`` and ``records``, in the open transaction.

    The rows of ``beside`` come first. Return the place of the journal after the records.
    """
    await _put_beside(connection, store_id, beside)
    for table in ("epoch", "record"):
        await connection.execute(
            f"DELETE FROM keyhouse.{table} WHERE store_id = $1",  # noqa: S608 - constants
            store_id,
        )
    what = (start.epoch, start.first, start.previous, start.key_check, beside.recovery_index)
    require_done(connection, await connection.execute(_INSERT_EPOCH, store_id, *what), _ONE_ROW)
    place = start.before
    while True:
        piece, place = await asyncio.to_thread(_piece, records, place)
        if not piece:
            break
        done = await connection.execute(_INSERT, store_id, *columns_of(piece))
        require_done(connection, done, f"INSERT 0 {len(piece)}")
    end = (store_id, place.epoch, place.sequence, place.chain)
    require_done(connection, await connection.execute(_MOVE_HEAD, *end), "UPDATE 1")
    return place


async def _put_beside(connection: PostgresConnection, store_id: bytes, beside: Beside) -> None:
    for machine, raw in beside.sealed:
        done = await connection.execute(_SEAL, store_id, machine, raw)
        require_done(connection, done, _ONE_ROW)
    kinds = {note.kind for note in beside.notes}
    await connection.execute(_CLEAR_NOTES, store_id, sorted(kinds))
    for note in beside.notes:
        row = (note.kind, note.name, note.raw)
        require_done(connection, await connection.execute(_INSERT_NOTE, store_id, *row), _ONE_ROW)


def require_done(connection: PostgresConnection, done: str, expected: str) -> None:
    """Close the connection unless ``done``, the tag of a completed statement, is ``expected``.

    After another tag, the effect of the statement is unknown. Raises ``ConnectionDroppedError``.
    """
    if done != expected:
        connection.drop()
        raise ConnectionDroppedError


def _piece(records: Iterator[Sealed], place: Position) -> tuple[list[Sealed], Position]:
    """Return the next ``records``, a bounded number, and the place after them."""
    piece, size = list[Sealed](), 0
    for record in records:
        piece.append(record)
        size += len(record.ciphertext)
        if len(piece) == _PIECE_RECORDS or size > _PIECE_BYTES:
            break
    return piece, follow(place, *piece)


def columns_of(records: Sequence[Sealed]) -> tuple[list[Any], ...]:
    """Return the columns of ``records``, as the statements take them."""
    return (
        [record.sequence for record in records],
        [record.header for record in records],
        [record.nonce for record in records],
        [record.ciphertext for record in records],
    )


def head_of(rows: list[tuple[Any, ...]]) -> tuple[Position | None, int, str]:
    """Return the place of the last record, the fence, and the names of the synchronous standbys.

    ``rows``: the head row. Raises ``StoreDamagedError``, or ``SupersededError`` after the end of
    the store.
    """
    if len(rows) != 1 or not _has_types(rows[0], int, int, bytes, int, str, str):
        raise _damaged()
    *place, fence, ended, standbys = rows[0]
    _require_current(ended)
    return _position(*place), fence, standbys


def _position(epoch: int, sequence: int, chain: bytes) -> Position | None:
    if (epoch, sequence, chain) == (0, 0, b""):
        return None
    if epoch <= 0 or sequence <= 0 or len(chain) != CHAIN_SIZE:
        raise _damaged()
    return Position(epoch, sequence, chain)


def batch_of(store_id: bytes, rows: list[tuple[Any, ...]], flush: Flush) -> Batch:
    """Return the batch in ``rows``, the result of ``READ``; ``flush`` makes the batch durable.

    Raises ``StoreDamagedError``, or ``SupersededError`` after the end of the store.
    """
    if not rows:
        return Batch(None, ())
    if not _has_types(rows[0][:4], int, int, bytes, str):
        raise _damaged()
    *place, ended = rows[0][:4]
    _require_current(ended)
    head = _position(*place)
    described = rows[0][4:8]
    if head is None:
        if any(value is not None for row in rows for value in row[4:12]):
            raise _damaged()
        return Batch(None, ())
    if not _has_types(described, int, int, bytes, bytes):
        raise _damaged()
    epoch, first, previous, check = described
    if min(epoch, first) <= 0 or (len(previous), len(check)) != (CHAIN_SIZE, 32):
        raise _damaged()
    # The outer join returns one row without a record if no record matches.
    found = [row[8:12] for row in rows if row[8:12] != (None,) * 4]
    if not all(_has_types(each, int, bytes, bytes, bytes) for each in found):
        raise _damaged()
    start = EpochStart(store_id, epoch, first, previous, check)
    durable = rows[0][-1] is True
    return Batch(start, tuple(Sealed(*each) for each in found), head, None if durable else flush)


def _require_current(ended: str) -> None:
    if not ended:
        return
    if ended.startswith("moved "):
        word, hint = "moved", "start the coordinator of the directory with the moved store"
    else:
        word, hint = "archived", "restart this coordinator, so that it serves the new store"
    raise SupersededError(f"the store in the database has ended: it was {word}", hint=hint)


def _has_types(values: tuple[Any, ...], *types: type) -> bool:
    """Return whether ``values`` have the types of the columns: the server might send any types."""
    return len(values) == len(types) and all(map(isinstance, values, types))


def _damaged() -> StoreDamagedError:
    return StoreDamagedError(
        "the database has content that Keyhouse did not write",
        hint="restore the database from a backup",
    )
