"""Store the tiles and objects of a transparency log, in files, a database or memory.

*Files* in this module are ``LogParts``: files of a directory, or parts in a database. The base of
an epoch states the number of leaves in the files. The later leaves are in the journal. So a start
reads the right edge of the log from the files, and the later leaves from the journal.
``Growing`` has the tiles and bundles at the right edge in memory, until they are stored.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from keyhouse.base.errors import KeyhouseError, NotFoundError
from keyhouse.base.log import log
from keyhouse.journal.directory.log_files import Grown, LogParts, missing
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.tiles import (
    ENTRIES,
    WIDTH,
    Tile,
    bundle,
    bundled,
    frontier_of,
    right_edge,
)
from keyhouse.transparency.tree import HASH_BYTES, Frontier, leaf_hash, perfect_root


class LogStore:
    """The log of one deployment, up to the last durable change.

    The files have all leaves up to the base of the journal's epoch. Later leaves are in the
    journal, and in memory until their tile is complete. If the files have lost their right edge,
    this object holds the leaves since the base, for the next base. It serves no part of the log
    until a restore of the files. Without files, every base has the whole log.
    """

    def __init__(self, files: LogParts | None = None) -> None:
        """Begin a log. Without ``files`` the log is in memory."""
        self._growing: Growing | None = Growing()
        self._files = files
        self._written: dict[tuple[int, int], int] = {}
        self._unsynced: list[Tile] = []
        self._objects: dict[str, bytes] = {}
        self._filed = Frontier()
        self._since: list[bytes] = []

    @classmethod
    async def open(
        cls, files: LogParts | None, filed: Frontier, leaves: Sequence[bytes]
    ) -> "LogStore":
        """Return the log: ``files`` up to the frontier ``filed``, and then ``leaves``.

        ``files``: None for a log in memory.
        """
        store = cls(files)
        if files is not None:
            await store._load(files, filed)
        elif filed.size:
            store._growing, store._filed = None, filed
        store.extend(leaves)
        return store

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Append ``leaves``, which are durable in the journal."""
        if self._growing is None:
            self._since.extend(leaves)
        else:
            self._growing.extend(leaves)

    async def resume(self, filed: Frontier, leaves: Sequence[bytes]) -> None:
        """Append the new leaves among ``leaves``, after another writer's base.

        ``leaves`` begin after ``filed``. If the log lacks leaves before ``filed``, it loads the
        files, to which the other writer has added these leaves.
        """
        size = filed.size - 1 if self._growing is None else self._growing.size
        if 0 <= size - filed.size <= len(leaves):
            self.extend(leaves[size - filed.size :])
            return
        self._growing, self._filed, self._since = None, filed, []
        if self._files is not None:
            self._written, self._unsynced = {}, []
            await self._load(self._files, filed)
        self.extend(leaves)

    def filed(self, leaves: Sequence[bytes]) -> tuple[Frontier, tuple[bytes, ...]]:
        """Return the frontier of the files after ``sync``, and the leaves that a base must contain.

        Usually these are the new ``leaves`` only. If the log has no files, all its leaves come
        first. If the files are damaged, the leaves since the last base come first.
        """
        if self._growing is None:
            return self._filed, (*self._since, *leaves)
        if self._files is None:
            return Frontier(), (*self._growing.entries(), *leaves)
        return self._growing.frontier, tuple(leaves)

    async def sync(self) -> None:
        """Write all of the log to the files durably. Raises ``UnavailableError``."""
        await self._write(durable=True)

    @property
    def has_complete(self) -> bool:
        """Return whether ``write_complete_tiles`` would write a tile."""
        return self._growing is not None and self._growing.has_complete

    async def write_complete_tiles(self) -> None:
        """Write complete tiles to their files. A crash before their sync loses nothing.

        Raises ``UnavailableError``.
        """
        if self.has_complete:
            await self._write(durable=False)

    def held(self, tile: Tile) -> bytes | None:
        """Return the bytes of ``tile`` if they are in memory, else None."""
        return None if self._growing is None else self._growing.read(tile)

    async def tile(self, tile: Tile) -> bytes:
        """Return the bytes of ``tile``, which is in the log. Raises ``UnavailableError``."""
        held = self.held(tile)
        if held is not None:
            return held
        if self._growing is None or self._files is None:
            raise missing(f"tile/{tile.path}")
        return await self._files.tile(tile)

    async def root_at(self, size: int) -> bytes:
        """Return the root of the first ``size`` leaves; the log must have them.

        Raises ``UnavailableError``.
        """
        tiles = {tile: await self.tile(tile) for tile in right_edge(size)}
        try:
            return frontier_of(tiles.__getitem__, size).root
        except LogInvalidError:
            raise missing("at its right edge") from None

    async def object(self, name: str) -> bytes:
        """Return the object ``name``. Raises ``NotFoundError`` or ``UnavailableError``."""
        if self._files is None:
            found = self._objects.get(name)
        else:
            found = await self._files.object(name)
        if found is None:
            raise NotFoundError(
                "the log has no object of this name", hint="use the name of an object in a leaf"
            )
        return found

    async def known_object(self, name: str) -> bytes | None:
        """Return the object ``name``; None if it is missing. Raises ``UnavailableError``."""
        try:
            return await self.object(name)
        except NotFoundError:
            return None

    async def put_objects(self, objects: Sequence[bytes]) -> None:
        """Store ``objects`` under the hashes of their bytes. Raises ``UnavailableError``."""
        if self._files is None:
            self._objects.update((object_name(raw), raw) for raw in objects)
        elif objects:
            await self._files.put_objects(objects)

    async def write_checkpoint(self, note: bytes) -> None:
        """Store ``note``, the newest checkpoint, beside the files. Raises ``UnavailableError``."""
        if self._files is not None:
            await self._files.write_checkpoint(note)

    async def move_to(self, files: LogParts) -> None:
        """Move the log from memory to ``files``, durably. Raises ``UnavailableError``."""
        await files.put_objects(list(self._objects.values()))
        self._files, self._written = files, {}
        try:
            await self.sync()
        except BaseException:
            self._files = None
            raise
        self._objects.clear()

    async def move_to_memory(self) -> None:
        """Read all of the log into memory and remove the files. Unreadable parts are lost."""
        files, growing = self._files, self._growing
        if files is None:
            return
        with _log_lost_part():
            if growing is not None:
                self._growing = await _whole(files, growing)
            for name in await files.objects():
                with _log_lost_part():
                    raw = await files.object(name)
                    if raw is not None:
                        self._objects[name] = raw
            await files.remove()
        self._files = None

    async def _load(self, files: LogParts, filed: Frontier) -> None:
        self._growing, self._filed = None, filed
        try:
            edge = {tile: await files.tile(tile) for tile in edge_of(filed.size)}
            growing = Growing.at(filed, edge.__getitem__)
        except KeyhouseError as error:
            log.error("the files of the transparency log are damaged", reason=str(error))
            return
        self._growing = growing
        for tile in growing.tiles():
            self._written[_place(tile)] = len(growing.read(tile) or b"")

    async def _write(self, *, durable: bool) -> None:
        growing, files = self._growing, self._files
        if growing is None or files is None:
            return
        work = [
            Grown(tile, raw, known)
            for tile in growing.tiles()
            if (durable or tile.width == WIDTH)
            and (raw := growing.read(tile)) is not None
            and (known := self._written.get(_place(tile), 0)) < len(raw)
        ]
        await files.write(work, self._unsynced if durable else [], durable=durable)
        self._written.update((_place(grown.tile), len(grown.whole)) for grown in work)
        complete = [grown.tile for grown in work if grown.tile.width == WIDTH]
        self._unsynced = [] if durable else [*self._unsynced, *complete]
        growing.drop(complete)
        for tile in complete:
            del self._written[_place(tile)]


_Place = tuple[int, int]  # level and index of a tile


def edge_of(size: int) -> list[Tile]:
    """Return the partial tiles of a log of ``size`` leaves, as ``Growing.at`` reads them."""
    width = size % WIDTH
    return [*right_edge(size), *([Tile(ENTRIES, size // WIDTH, width)] if width else [])]


class Growing:
    """A log that grows in memory: its partial tiles, and complete tiles that are not stored yet.

    After the caller has stored complete tiles, ``drop`` removes them here.
    """

    def __init__(self) -> None:
        self.size = 0
        self._hashed = 0  # number of leaves in the rows; the entries of later leaves are held
        self._entries: dict[int, list[bytes]] = {}
        self._rows: dict[_Place, list[bytes]] = {}

    @classmethod
    def at(cls, frontier: Frontier, read: Callable[[Tile], bytes]) -> "Growing":
        """Return a stored log that can grow, from its ``frontier`` and its partial tiles.

        ``read`` returns the bytes of a partial tile. Raises ``LogInvalidError`` if these tiles and
        ``frontier`` contradict each other.
        """
        found = cls()
        found.size = found._hashed = frontier.size
        for tile in right_edge(frontier.size):
            raw = read(tile)
            row = [raw[at : at + HASH_BYTES] for at in range(0, len(raw), HASH_BYTES)]
            found._rows[tile.level, tile.index] = row
        if found.frontier != frontier:
            raise LogInvalidError(
                "the tiles at the right edge of the log do not match the frontier in the journal"
            )
        if width := frontier.size % WIDTH:
            last = Tile(ENTRIES, frontier.size // WIDTH, width)
            entries = bundled(read(last), width)
            if list(map(leaf_hash, entries)) != found._rows[0, last.index]:
                raise LogInvalidError("the newest entries of the log do not match its tiles")
            found._entries[last.index] = entries
        return found

    @property
    def frontier(self) -> Frontier:
        """The frontier of the tree over all leaves so far."""
        self._hash()
        return frontier_of(self._read, self.size)

    @property
    def has_complete(self) -> bool:
        """Whether this object holds a complete bundle of 256 leaves, ready to be stored."""
        return len(self._entries) > (self.size % WIDTH > 0)

    def extend(self, entries: Iterable[bytes]) -> None:
        """Append ``entries``, the bytes of leaves, to the tree."""
        for entry in entries:
            self._entries.setdefault(self.size // WIDTH, []).append(entry)
            self.size += 1

    def read(self, tile: Tile) -> bytes | None:
        """Return the bytes of ``tile``; None if this object does not hold all of them.

        ``tile`` may be narrower than the present tile at the same level and index.
        """
        if tile.level == ENTRIES:
            found = self._entries.get(tile.index, [])
            return bundle(found[: tile.width]) if len(found) >= tile.width else None
        self._hash()
        row = self._rows.get((tile.level, tile.index), [])
        return b"".join(row[: tile.width]) if len(row) >= tile.width else None

    def entries(self) -> list[bytes]:
        """Return the leaves (bytes) of all bundles that were not dropped, in order."""
        return [entry for entries in self._entries.values() for entry in entries]

    def tiles(self) -> Iterator[Tile]:
        """Yield all tiles and bundles that were not dropped, each with its present width."""
        self._hash()
        for index, entries in self._entries.items():
            yield Tile(ENTRIES, index, len(entries))
        for (level, index), row in self._rows.items():
            yield Tile(level, index, len(row))

    def drop(self, tiles: Iterable[Tile]) -> None:
        """Remove the complete tiles among ``tiles`` from memory, after the caller stored them."""
        self._hash()
        for tile in tiles:
            if tile.width < WIDTH:
                continue
            if tile.level == ENTRIES:
                self._entries.pop(tile.index, None)
            else:
                self._rows.pop((tile.level, tile.index), None)

    def _hash(self) -> None:
        """Hash the new leaves. A batch costs much less than single leaves."""
        while self._hashed < self.size:
            index, place = divmod(self._hashed, WIDTH)
            new = self._entries[index][place:]
            self._hashed += len(new)
            self._push(0, index, map(leaf_hash, new))

    def _push(self, level: int, index: int, hashes: Iterable[bytes]) -> None:
        """Append ``hashes`` to the tile ``index`` of ``level``.

        If the tile is then complete, append its root to the tile one level up.
        """
        row = self._rows.setdefault((level, index), [])
        row += hashes
        if len(row) == WIDTH:
            self._push(level + 1, index // WIDTH, (perfect_root(b"".join(row)),))

    def _read(self, tile: Tile) -> bytes:
        return b"".join(self._rows[tile.level, tile.index])


@contextmanager
def _log_lost_part() -> Iterator[None]:
    """Log an error and continue: one lost part does not affect the rest of the log."""
    try:
        yield
    except KeyhouseError as error:
        log.error("a part of the transparency log is lost", reason=str(error))


def _place(tile: Tile) -> tuple[int, int]:
    return tile.level, tile.index


async def _whole(files: LogParts, growing: Growing) -> Growing:
    """Return the log ``growing`` with every tile in memory; ``files`` have its complete tiles.

    Raises ``UnavailableError`` for a missing tile.
    """
    found, size = Growing(), growing.size
    for index in range(-(-size // WIDTH)):
        tile = Tile(ENTRIES, index, min(WIDTH, size - index * WIDTH))
        raw = growing.read(tile)
        found.extend(bundled(await files.tile(tile) if raw is None else raw, tile.width))
    return found
