"""The parts of a transparency log in a state directory, used off the event loop."""

from collections.abc import Sequence

from keyhouse.journal.directory.disk import off_loop
from keyhouse.journal.directory.log_files import LogFiles
from keyhouse.journal.log_parts import Grown
from keyhouse.transparency.tiles import Tile


class DirectoryParts:
    """The files of a log in a state directory, used off the event loop."""

    def __init__(self, files: LogFiles) -> None:
        self._files = files

    async def tile(self, tile: Tile) -> bytes:
        """Return the bytes of ``tile``."""
        return await off_loop(self._files.tile, tile)

    async def write(
        self, work: Sequence[Grown], unsynced: Sequence[Tile], *, durable: bool
    ) -> None:
        """Let the files of these tiles grow."""

        def write() -> None:
            for tile, whole, known in work:
                self._files.grow(tile, whole, known, durable=durable)
            for tile in unsynced:
                self._files.sync(tile)

        await off_loop(write)

    async def object(self, name: str) -> bytes | None:
        """Return the object ``name``."""
        return await off_loop(self._files.object, name)

    async def put_objects(self, objects: Sequence[bytes]) -> None:
        """Keep ``objects`` under their names."""
        await off_loop(self._files.put_objects, objects)

    async def objects(self) -> list[str]:
        """Return the names of the objects."""
        return await off_loop(self._files.objects)

    async def write_checkpoint(self, note: bytes) -> None:
        """Replace the checkpoint."""
        await off_loop(self._files.write_checkpoint, note)

    async def remove(self) -> None:
        """Remove the files."""
        await off_loop(self._files.remove)
