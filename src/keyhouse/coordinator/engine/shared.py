"""What an engine has to do with other processes on its store, and what it is given for that."""

from typing import Protocol

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.state import Running
from keyhouse.journal import LineMark, Position
from keyhouse.journal.store.protocol import Note
from keyhouse.manifest import Replicas


class Held(msgspec.Struct, frozen=True):
    """What a replica that serves has to give."""

    store_id: bytes
    dek: Secret
    place: Position
    root_cert: bytes
    replicas: Replicas | None  # who may be given it, by the manifest at that place
    line: LineMark | None = None  # of the root at that place, which is proven here; None: no line

    @property
    def level(self) -> int:
        """Which events the journal may have."""
        return 1 if self.line is None else 2


class Shared(Protocol):
    """Tells the other processes of a new data key, and is told of one.

    A process that has its store for itself has none, and loads nothing for it.
    """

    async def show(self, store_id: bytes) -> None:
        """Prove to the others what this process is. Raises ``UnavailableError``."""
        ...

    async def notes_of(
        self, dek: Secret, state: Running, *, store_id: bytes, after: Position
    ) -> tuple[Note, ...]:
        """Return what tells the members of ``state`` of ``dek``, the key of the epoch after it.

        Raises ``RefusedError`` if this process must not make that key, or ``UnavailableError``.
        """
        ...

    async def all_read_lines(self, state: Running, *, store_id: bytes) -> bool:
        """Tell whether no member of ``state`` is of a version that stops at the line of a root.

        Raises ``UnavailableError``.
        """
        ...

    async def told(self, state: Running, *, store_id: bytes, position: Position) -> Secret | None:
        """Return the data key that a member of ``state`` has left for this process; None: none.

        Raises ``UnavailableError`` if that cannot be found out now.
        """
        ...
