"""Seal records: encrypt each record, and bind it to all records before it.

The tag of a record proves three facts: the author has the data key, the record is made for this
place (header), and it follows exactly these records (chain value). Tags alone do not make a chain:
the holder of the key can make two records with the same tag. So the chain value is a hash of the
whole sealed record.

The header has the public fields, in 34 bytes with big-endian numbers::

    0   format version (1)
    1   kind
    2   store id, 16 bytes
    18  epoch, u64
    26  sequence, u64
"""

import os
import struct
from enum import IntEnum

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from keyhouse.base.errors import TooLargeError
from keyhouse.base.secret import Secret
from keyhouse.journal.keys import record_key
from keyhouse.journal.store.protocol import (
    Position,
    Sealed,
    StoreDamagedError,
    StoreNewerError,
    follow,
    link,
)

NONCE_SIZE = 12  # bytes of an AES-GCM nonce, NIST SP 800-38D
MAX_PAYLOAD = 48 * 1024 * 1024  # an event has a secret of 16 MiB twice

FORMAT_VERSION = 1  # the present format of records
_LAYOUT = struct.Struct(">BB16sQQ")
HEADER_SIZE = _LAYOUT.size


class PayloadKind(IntEnum):
    """The kind of a record's payload: part of a base, or an event."""

    BASE = 1  # a piece of an epoch's base
    BASE_END = 2  # the last piece of a base: proves that the base is complete
    EVENT = 3


_KINDS = {kind.value: kind for kind in PayloadKind}


class Header(msgspec.Struct, frozen=True):
    """The fields in the header of a record."""

    kind: PayloadKind
    store_id: bytes
    epoch: int
    sequence: int

    def encode(self) -> bytes:
        """Return the header, 34 bytes."""
        return _LAYOUT.pack(FORMAT_VERSION, self.kind, self.store_id, self.epoch, self.sequence)

    @classmethod
    def decode(cls, raw: bytes) -> "Header":
        """Return the fields; raise ``StoreNewerError`` or ``StoreDamagedError``."""
        if raw[:1] > bytes([FORMAT_VERSION]):
            raise StoreNewerError(
                f"the journal has records of format {raw[0]}, this version reads {FORMAT_VERSION}",
                hint="start the version of Keyhouse that wrote it, or a later one",
            )
        if len(raw) != HEADER_SIZE or raw[0] != FORMAT_VERSION:
            raise StoreDamagedError("the journal has a record whose header cannot be read")
        _, number, store_id, epoch, sequence = _LAYOUT.unpack(raw)
        kind = _KINDS.get(number)
        if kind is None:
            raise StoreDamagedError(
                f"record {sequence} of the journal has the unknown kind {number}",
                hint="a newer version may have written the journal: start that version",
            )
        return cls(kind, store_id, epoch, sequence)


class Sealer:
    """Seal and unseal the records of one epoch. Each call receives the position."""

    __slots__ = ("_cipher", "_epoch", "_store_id")

    def __init__(self, dek: Secret, store_id: bytes, epoch: int) -> None:
        self._cipher = AESGCMSIV(record_key(dek, store_id, epoch).reveal())
        self._store_id = store_id
        self._epoch = epoch

    def seal(self, after: Position, kind: PayloadKind, payload: bytes) -> tuple[Sealed, Position]:
        """Return the record after ``after``, and the position after the record.

        The nonce is random in every call and never derived: after a retry or a rollback of the
        disk, another payload gets the same sequence number.
        """
        if len(payload) > MAX_PAYLOAD:
            raise TooLargeError(
                f"a record would have {len(payload)} bytes; at most {MAX_PAYLOAD} are permitted",
                hint="change less at once",
            )
        sequence = after.sequence + 1
        header = Header(kind, self._store_id, self._epoch, sequence).encode()
        nonce = os.urandom(NONCE_SIZE)
        ciphertext = self._cipher.encrypt(nonce, payload, header + after.chain)
        sealed = Sealed(sequence, header, nonce, ciphertext)
        return sealed, Position(after.epoch, sequence, link(after.chain, sealed))

    def unseal(self, after: Position, sealed: Sealed) -> tuple[PayloadKind, bytes, Position]:
        """Return kind and payload of ``sealed``, and the position after it.

        Raises ``StoreNewerError``, or ``StoreDamagedError`` if ``sealed`` does not follow
        ``after``.
        """
        header = Header.decode(sealed.header)
        sequence = after.sequence + 1
        if sealed.sequence != sequence:
            raise StoreDamagedError(
                f"the journal has record {sealed.sequence} where {sequence} must follow",
                hint="restore the state from a backup",
            )
        place = (header.store_id, header.epoch, header.sequence)
        if place != (self._store_id, self._epoch, sequence):
            raise StoreDamagedError(
                f"record {sequence} of the journal belongs to another place or deployment",
                hint="restore the state from a backup",
            )
        try:
            payload = self._cipher.decrypt(
                sealed.nonce, sealed.ciphertext, sealed.header + after.chain
            )
        except (InvalidTag, ValueError):
            raise StoreDamagedError(
                f"record {sequence} of the journal has been changed",
                hint="restore the state from a backup",
            ) from None
        return header.kind, payload, follow(after, sealed)
