"""Replay an epoch from its beginning."""

import msgspec

from keyhouse.journal.chain import PayloadKind, Sealer
from keyhouse.journal.store.protocol import EpochStart, Position, Sealed, StoreDamagedError


class Replay(msgspec.Struct, frozen=True):
    """The decrypted records of an epoch: the pieces of its base, then the later events."""

    base: tuple[bytes, ...]
    events: tuple[bytes, ...]

    def __repr__(self) -> str:
        """Show numbers only: payloads contain secrets."""
        return f"<Replay of {len(self.base)} pieces and {len(self.events)} events>"


class Continuation(msgspec.Struct, frozen=True):
    """The decrypted events that other writers appended after the known position."""

    events: tuple[bytes, ...]

    def __repr__(self) -> str:
        """Show numbers only: payloads contain secrets."""
        return f"<Continuation of {len(self.events)} events>"


class Replayer:
    """Verify the records of an epoch in order: one complete base, then events only."""

    def __init__(self, sealer: Sealer, start: EpochStart) -> None:
        self.position = start.before
        self._sealer = sealer
        self._base: list[bytes] = []
        self._events: list[bytes] = []
        self._base_ended = False

    def verify(self, record: Sealed) -> Position:
        """Verify the next record and return the position after it."""
        kind, payload, position = self._sealer.unseal(self.position, record)
        if (kind is PayloadKind.EVENT) != self._base_ended:
            raise StoreDamagedError(f"record {position.sequence} of the journal has the wrong kind")
        if kind is PayloadKind.EVENT:
            self._events.append(payload)
        else:
            self._base.append(payload)
            self._base_ended = kind is PayloadKind.BASE_END
        self.position = position
        return position

    def finish(self) -> Replay:
        """Return the replay; raise ``StoreDamagedError`` if the base is not complete."""
        if not self._base_ended:
            raise StoreDamagedError(
                "the journal ends within the base of its epoch: its head is missing",
                hint="restore the state from a backup",
            )
        return Replay(tuple(self._base), tuple(self._events))
