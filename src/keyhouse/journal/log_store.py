"""Store the tiles and objects of a transparency log, in files, a database or memory.

*Files* in this module are ``LogParts``: files of a directory, or parts in a database. The base of
an epoch states the number of leaves in the files. The later leaves are in the journal. So a start
reads the right edge of the log from the files, and the later leaves from the journal.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from keyhouse.base.errors import KeyhouseError, NotFoundError
from keyhouse.base.log import log
from keyhouse.journal.directory.log_files import Grown, LogParts, missing
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.log_writer import Growing, edge_of
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled, frontier_of, right_edge
from keyhouse.transparency.tree import Frontier


class LogStore:
    """The log of one deployment, up to the last durable change.

    The files have all leaves up to the base of the journal's epoch. Later leaves are in the
    journal, and in memory until their tile is complete. If the files have lost their right edge,
    the log keeps the leaves since the base for the next base, and serves nothing until it is
    restored. Without files, every base has the whole log.
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
        """Return the frontier of the files after ``sync``, and the leaves for a base.

        The base needs ``leaves``, and before them all leaves that the files cannot accept.
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
            raise missing("tile") from None

    async def object(self, name: str) -> bytes:
        """Return the object ``name``. Raises ``NotFoundError`` or ``UnavailableError``."""
        if self._files is None:
            found = self._objects.get(name)
        else:
            found = await self._files.object(name)
        if found is None:
            raise NotFoundError("the log has no such object")
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
