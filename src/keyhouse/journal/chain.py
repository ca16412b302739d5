"""Sealing records one after the other, each bound to all before it.

A record's tag proves that someone who knows the data key made it, in this place (header) and after
exactly these records (chain value). Tags alone would be no chain: whoever knows the key can make
another record with the same tag, so the chain value is a hash over the whole sealed record.
"""

import hashlib
import os

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from keyhouse.base.errors import TooLarge
from keyhouse.base.secret import Secret
from keyhouse.journal.keys import record_key
from keyhouse.journal.record import Header, Kind
from keyhouse.journal.store.protocol import Sealed, StoreDamaged

__all__ = ["CHAIN_SIZE", "MAX_PAYLOAD", "NONCE_SIZE", "Position", "Sealer", "first_link", "link"]

CHAIN_SIZE = 32
NONCE_SIZE = 12
MAX_PAYLOAD = 48 * 1024 * 1024  # a secret of 16 MiB is in its event twice


class Position(msgspec.Struct, frozen=True):
    """A place in the journal: after the record ``sequence``, whose chain value is ``chain``."""

    epoch: int
    sequence: int
    chain: bytes  # 32 bytes


def first_link(store_id: bytes) -> bytes:
    """Return the chain value before the first record of the first epoch."""
    return hashlib.sha256(b"keyhouse journal chain v1\0" + store_id).digest()


def link(chain: bytes, sealed: Sealed) -> bytes:
    """Return the chain value behind ``sealed``, which follows the chain value ``chain``."""
    digest = hashlib.sha256(chain + sealed.header + sealed.nonce + sealed.ciphertext)
    return digest.digest()


class Sealer:
    """Seals and opens the records of one epoch. It keeps no position: each call is given one."""

    __slots__ = ("_cipher", "_epoch", "_store_id")

    def __init__(self, dek: Secret, store_id: bytes, epoch: int) -> None:
        self._cipher = AESGCMSIV(record_key(dek, store_id, epoch).reveal())
        self._store_id = store_id
        self._epoch = epoch

    def seal(self, after: Position, kind: Kind, payload: bytes) -> tuple[Sealed, Position]:
        """Return the record that follows ``after``, and the position behind it.

        The nonce is drawn anew at every call and never derived: a retry, or a disk that was rolled
        back, seals something else at the same sequence.
        """
        if len(payload) > MAX_PAYLOAD:
            raise TooLarge(
                f"a record would have {len(payload)} bytes, {MAX_PAYLOAD} are the most",
                hint="change less at once",
            )
        sequence = after.sequence + 1
        header = Header(kind, self._store_id, self._epoch, sequence).encode()
        nonce = os.urandom(NONCE_SIZE)
        ciphertext = self._cipher.encrypt(nonce, payload, header + after.chain)
        sealed = Sealed(sequence, header, nonce, ciphertext)
        return sealed, self._behind(after, sealed)

    def unseal(self, after: Position, sealed: Sealed) -> tuple[Kind, bytes, Position]:
        """Return kind, payload and the position behind ``sealed``, which must follow ``after``."""
        header = Header.decode(sealed.header)
        sequence = after.sequence + 1
        if sealed.sequence != sequence:
            raise StoreDamaged(
                f"the journal has record {sealed.sequence} where {sequence} must follow",
                hint="restore the state directory from a backup",
            )
        if header != Header(header.kind, self._store_id, self._epoch, sequence):
            raise StoreDamaged(
                f"record {sequence} of the journal belongs to another place or deployment",
                hint="restore the state directory from a backup",
            )
        try:
            payload = self._cipher.decrypt(
                sealed.nonce, sealed.ciphertext, sealed.header + after.chain
            )
        except (InvalidTag, ValueError):
            raise StoreDamaged(
                f"record {sequence} of the journal has been changed",
                hint="restore the state directory from a backup",
            ) from None
        return header.kind, payload, self._behind(after, sealed)

    def _behind(self, after: Position, sealed: Sealed) -> Position:
        return Position(self._epoch, sealed.sequence, link(after.chain, sealed))
