"""Define the interface between an engine and the other processes on its store."""

from typing import Protocol

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.events import LINE_LEVEL
from keyhouse.coordinator.core.state import Running
from keyhouse.journal import LineMark, Position
from keyhouse.journal.store.protocol import Note
from keyhouse.manifest import Replicas


class Held(msgspec.Struct, frozen=True):
    """The data key of a serving replica for a hand-off, with its store, place and root."""

    store_id: bytes
    dek: Secret
    place: Position
    root_cert: bytes
    replicas: Replicas | None  # who may receive the key, according to the manifest at that place
    line: LineMark | None = None  # the proven line of the root at that place; None without a line
    events: int = 1  # the level of the journal according to its state

    @property
    def level(self) -> int:
        """Return the highest level of events that the journal may have."""
        return max(self.events, 1 if self.line is None else LINE_LEVEL)


class Shared(Protocol):
    """Sends new data keys to other processes, and receives new data keys.

    A process with its own store does not use this interface, and loads no code for it.
    """

    async def publish_quote(self, store_id: bytes) -> None:
        """Publish a quote of this process for other processes of the store ``store_id``.

        Raises ``UnavailableError``.
        """
        ...

    async def notes_of(
        self, dek: Secret, state: Running, *, store_id: bytes, after: Position
    ) -> tuple[Note, ...]:
        """Return notes with ``dek``, the key of the next epoch, for the members of ``state``.

        ``after``: the place where the present epoch ends. Raises ``RefusedError`` if this process
        must not make that key, or ``UnavailableError``.
        """
        ...

    async def lowest_level(self, state: Running, *, store_id: bytes) -> int | None:
        """Return the lowest event level among all other members of ``state`` that may serve.

        The level of a member is the highest level of events that the member can read. None without
        another member. Raises ``UnavailableError``.
        """
        ...

    async def next_data_key(
        self, state: Running, *, store_id: bytes, position: Position
    ) -> Secret | None:
        """Return the next data key addressed to this process by a member of ``state``, or None.

        ``position``: the place of this process in the journal. Raises ``UnavailableError`` if the
        store does not answer now.
        """
        ...
