"""Where the parts of a transparency log are kept: public, and never believed.

In files of a state directory, or in a database that several coordinators share. Tiles grow at their
end only, and all who write a tile write the same bytes.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from keyhouse.transparency.tiles import Tile


class Grown(NamedTuple):
    """A tile as it is now; its first ``known`` bytes were written before."""

    tile: Tile
    whole: bytes
    known: int


class LogParts(Protocol):
    """The parts of one log. Everything raises ``UnavailableError``."""

    async def tile(self, tile: Tile) -> bytes:
        """Return the bytes of ``tile``, not verified; an error if there are fewer."""
        ...

    async def write(
        self, work: Sequence[Grown], unsynced: Sequence[Tile], *, durable: bool
    ) -> None:
        """Keep these tiles; if ``durable``, and ``unsynced`` ones, they survive a crash."""
        ...

    async def object(self, name: str) -> bytes | None:
        """Return the object ``name``; None if it is not there."""
        ...

    async def put_objects(self, objects: Sequence[bytes]) -> None:
        """Keep ``objects`` under their names, durably; no part of the log names them before."""
        ...

    async def objects(self) -> list[str]:
        """Return the names of the objects that are there."""
        ...

    async def write_checkpoint(self, note: bytes) -> None:
        """Keep the newest checkpoint, for those who copy these parts."""
        ...

    async def remove(self) -> None:
        """Remove all of it."""
        ...
