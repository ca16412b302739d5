"""The parts of a transparency log in a database: each replica serves the parts of all replicas."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.captured_log import capture_logs
from support.peers.postgres import PostgresServer

from keyhouse.base.errors import NotFoundError, UnavailableError
from keyhouse.journal import LogStore
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.log_files import DirectoryParts, LogFiles
from keyhouse.journal.offline.log_files import put_part
from keyhouse.journal.offline.shared_log_parts import copy_log_in, copy_log_out
from keyhouse.journal.shared.log_parts import DatabaseParts
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import StoreDamagedError
from keyhouse.transparency.tiles import ENTRIES, Tile, bundle, bundled
from keyhouse.transparency.tree import Frontier, leaf_hash

LOG = "ab" * 16


@pytest.fixture(name="database")
async def _database(postgres: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(postgres.url(await postgres.database()))
    yield database
    await database.close()


def leaves(first: int, end: int) -> list[bytes]:
    return [b"leaf %d" % number for number in range(first, end)]


def frontier(size: int) -> Frontier:
    return Frontier().extended(map(leaf_hash, leaves(0, size)))


async def entries(store: LogStore, size: int) -> list[bytes]:
    found: list[bytes] = []
    for first in range(0, size, 256):
        tile = Tile(ENTRIES, first // 256, min(256, size - first))
        found += bundled(await store.tile(tile), tile.width)
    return found


async def test_each_replica_serves_all_that_any_has_written(database: PostgresDatabase) -> None:
    one = LogStore(DatabaseParts(database, LOG))
    await one.put_objects([b"manifest"])
    one.extend(leaves(0, 300))
    await one.write_complete_tiles()
    await one.sync()
    filed, held = one.filed(())
    assert (filed, held) == (frontier(300), ())

    two = await LogStore.open(DatabaseParts(database, LOG), filed, leaves(300, 310))
    assert await entries(two, 310) == leaves(0, 310)
    assert await two.object(hashlib.sha256(b"manifest").hexdigest()) == b"manifest"
    with pytest.raises(NotFoundError):
        await two.object("00" * 32)

    one.extend(leaves(300, 520))  # ``one`` is ahead, and begins an epoch
    await one.sync()
    await two.sync()  # ``two`` knows less, and removes nothing
    await two.resume(frontier(520), leaves(520, 521))
    assert await entries(two, 521) == leaves(0, 521)
    two.extend(leaves(521, 522))
    assert two.filed(())[0] == frontier(522)


async def test_lost_parts_are_named_and_leaves_are_kept(database: PostgresDatabase) -> None:
    store = await LogStore.open(DatabaseParts(database, LOG), frontier(5), leaves(5, 7))
    with pytest.raises(UnavailableError, match=r"tile/0/000\.p/5"):
        await store.tile(Tile(0, 0, 5))
    assert store.filed(leaves(7, 8)) == (frontier(5), tuple(leaves(5, 8)))


async def test_parts_move_to_a_directory_and_back(
    database: PostgresDatabase, tmp_path: Path
) -> None:
    disk, paths = Disk(), [tmp_path / name for name in ("one", "two")]
    for path in paths:
        path.mkdir(mode=0o700)
    files = DirectoryParts(LogFiles(paths[0], LOG, disk))
    store = LogStore(files)
    await store.put_objects([b"manifest"])
    store.extend(leaves(0, 300))
    await store.sync()
    await store.write_checkpoint(b"a note")
    await copy_log_in(disk, paths[0], database)
    await copy_log_out(disk, database, paths[1])
    one, two = (
        {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}
        for path in paths
    )
    assert one == two
    assert len(one) == 7
    await database.put_log_parts(bytes.fromhex(LOG), {"../planted": b""})
    with pytest.raises(StoreDamagedError, match=r'"../planted"'):
        await copy_log_out(disk, database, paths[1])
    assert not (paths[1] / "log" / "planted").exists()


@pytest.mark.parametrize(
    "name", ["x", "not-a-log/checkpoint", f"{LOG}/x", f"{LOG}/{64 * '0'}", f"{LOG}/entries/000.p/2"]
)
async def test_a_file_that_is_not_a_part_is_named(
    database: PostgresDatabase, tmp_path: Path, name: str
) -> None:
    disk = Disk()
    put_part(disk, tmp_path, f"log/{name}", b"")
    with pytest.raises(StoreDamagedError, match=f"log/{name} "):
        await copy_log_in(disk, tmp_path, database)
    assert await database.logs() == []


async def test_a_log_without_any_file_moves_to_memory(tmp_path: Path) -> None:
    store = LogStore(DirectoryParts(LogFiles(tmp_path, LOG, Disk())))
    store.extend(leaves(0, 3))
    with capture_logs() as logged:
        await store.move_to_memory()
    assert logged == []
    assert await entries(store, 3) == leaves(0, 3)


@pytest.mark.parametrize("level", [ENTRIES, 0])
def test_a_tile_that_was_cut_is_missing(tmp_path: Path, level: int) -> None:
    files, tile = LogFiles(tmp_path, "a", Disk()), Tile(level, 0, 2)
    raw = bundle([b"one", b"two"]) if level == ENTRIES else bytes(64)
    with pytest.raises(UnavailableError, match=f"tile/{tile.path}"):
        files.tile(tile)
    files.grow(tile, raw, 0, durable=False)
    assert files.tile(tile) == raw
    files.grow(tile, raw[:-1], 0, durable=False)
    with pytest.raises(UnavailableError, match=f"tile/{tile.path}"):
        files.tile(tile)
