"""Encode, seal and verify records: encrypt each record, and bind it to all records before it.

The tag of a record proves three facts: the author has the data key, the record is made for this
place (header), and the record follows exactly the earlier records (chain value). Tags alone do not
make a chain: the holder of the key can make two records with the same tag. So the chain value is a
hash of the whole sealed record. Each use of the data key (DEK), and each epoch, has a key of its
own.

The content of a record is canonical MessagePack (``Codec``).

The header has the public fields, in 34 bytes with big-endian numbers::

    0   format version (1)
    1   kind
    2   store id, 16 bytes
    18  epoch, u64
    26  sequence, u64
"""

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from types import GenericAlias
from typing import Any, Generic, TypeVar, get_args, get_origin

import immutables
import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from keyhouse.base.errors import BrokenError, TooLargeError
from keyhouse.base.secret import Secret
from keyhouse.journal.store.protocol import (
    STORE_ID_SIZE,
    EpochStart,
    Position,
    Sealed,
    StoreDamagedError,
    StoreNewerError,
    follow,
    link,
)

T = TypeVar("T")


class UndecodableError(BrokenError):
    """The verified bytes do not encode a value of the expected type."""

    code = "undecodable"


class UnencodableError(BrokenError):
    """The encoding of a value would not decode to an equal value."""

    code = "unencodable"


class Codec(Generic[T]):
    """Encode and decode values of ``kind``, any type of msgspec.

    Equal values give equal bytes in every process: map keys and sets are sorted, and fields keep
    their order. Keys of maps are strings. ``Secret`` becomes bytes and decodes to a Secret;
    ``immutables.Map`` is a map.
    """

    def __init__(self, kind: Any, *, name: str = "") -> None:
        self._kind = kind
        self._name = name or getattr(kind, "__name__", "value")
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_lower, order="deterministic")

    @cached_property
    def _decoder(self) -> "msgspec.msgpack.Decoder[T]":
        """Return the decoder. The first use builds it, which takes a millisecond for all events."""
        return msgspec.msgpack.Decoder(self._kind, dec_hook=_lift)

    def encode(self, value: T) -> bytes:
        """Return the canonical bytes. This is fast, because msgspec does not check types here."""
        try:
            return self._encoder.encode(value)
        except Exception:  # noqa: BLE001 - any error may quote the value
            raise UnencodableError(f"a {self._name} cannot be encoded") from None

    def encode_checked(self, value: T) -> bytes:
        """Return the canonical bytes, after a check that they decode to an equal value."""
        encoded = self.encode(value)
        try:
            back = self._decoder.decode(encoded)
        except Exception:  # noqa: BLE001 - any error may quote the value
            raise UnencodableError(
                f"the encoding of a {self._name} does not decode again"
            ) from None
        if back != value:
            raise UnencodableError(f"the encoding of a {self._name} would decode to another value")
        return encoded

    def decode(self, encoded: bytes) -> T:
        """Return the value of the type ``kind`` in ``encoded``.

        An ``UndecodableError`` does not quote the bytes.
        """
        try:
            return self._decoder.decode(encoded)
        except Exception:  # noqa: BLE001 - any error may quote the value
            raise UndecodableError(
                f"stored bytes are not a {self._name}",
                hint="start the version of Keyhouse that wrote the store; report this line if this"
                " version wrote the store",
            ) from None


def _lower(value: object) -> object:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, immutables.Map):
        return dict(value.items())
    raise NotImplementedError


def _lift(kind: Any, value: Any) -> object:
    if kind is Secret and isinstance(value, bytes):
        return Secret(value)
    if get_origin(kind) is immutables.Map:
        plain = GenericAlias(dict, get_args(kind))
        return immutables.Map(msgspec.convert(value, plain, dec_hook=_lift))
    raise NotImplementedError


DEK_SIZE = 32  # bytes of an AES-256 key
NONCE_SIZE = 12  # bytes of an AES-GCM nonce, NIST SP 800-38D
MAX_PAYLOAD = 48 * 1024 * 1024  # bytes: an event can have a secret of 16 MiB twice

FORMAT_VERSION = 1  # the present format of records
_RECORD_OVERHEAD = 100  # bytes of a record without its payload: header, nonce, tag and row
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
        """Return the fields of the header ``raw``.

        Raises ``StoreNewerError`` or ``StoreDamagedError``.
        """
        if raw[:1] > bytes([FORMAT_VERSION]):
            raise StoreNewerError(
                f"the journal has records of format {raw[0]}, this version reads {FORMAT_VERSION}",
                hint="start the version of Keyhouse that wrote the journal, or a later version",
            )
        if len(raw) != HEADER_SIZE or raw[0] != FORMAT_VERSION:
            raise StoreDamagedError("the journal has a record whose header cannot be read")
        _, number, store_id, epoch, sequence = _LAYOUT.unpack(raw)
        kind = _KINDS.get(number)
        if kind is None:
            raise StoreDamagedError(
                f"record {sequence} of the journal has the unknown kind {number}",
                hint="start the newer version of Keyhouse that may have written the journal",
            )
        return cls(kind, store_id, epoch, sequence)


def record_key(dek: Secret, store_id: bytes, epoch: int) -> Secret:
    """Return the 32-byte AES key of the records of ``epoch`` in the store ``store_id``."""
    return Secret(_derive(dek, store_id, epoch, b"keyhouse journal v1"))


def index_mac_key(dek: Secret, store_id: bytes, epoch: int) -> Secret:
    """Return the 32-byte HMAC key of the recovery index of ``epoch`` in the store ``store_id``."""
    return Secret(_derive(dek, store_id, epoch, b"keyhouse index mac v1"))


def key_check(dek: Secret, store_id: bytes, epoch: int) -> bytes:
    """Return 32 public bytes that identify the data key ``dek``, and reveal nothing else about it.

    Each store and each epoch has different bytes for the same key.
    """
    return _derive(dek, store_id, epoch, b"keyhouse key check v1")


def _derive(dek: Secret, store_id: bytes, epoch: int, info: bytes) -> bytes:
    if len(dek) != DEK_SIZE or len(store_id) != STORE_ID_SIZE:
        raise ValueError("a data key must have 32 bytes, and a store id 16")
    salt = store_id + epoch.to_bytes(8, "big")
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(dek.reveal())


class Sealer:
    """Seal and unseal the records of one epoch. Each call receives the place before the record."""

    __slots__ = ("_cipher", "_epoch", "_store_id")

    def __init__(self, dek: Secret, store_id: bytes, epoch: int) -> None:
        self._cipher = AESGCMSIV(record_key(dek, store_id, epoch).reveal())
        self._store_id = store_id
        self._epoch = epoch

    def seal(self, after: Position, kind: PayloadKind, payload: bytes) -> tuple[Sealed, Position]:
        """Return the sealed record after the place ``after``, and the place after the record.

        The nonce is random in every call and never derived from the sequence number. After a retry
        or a rollback of the disk, a different payload has the same sequence number.
        """
        if len(payload) > MAX_PAYLOAD:
            raise TooLargeError(
                f"a record would have {len(payload)} bytes; at most {MAX_PAYLOAD} are permitted",
                hint="divide the change into several smaller changes",
            )
        sequence = after.sequence + 1
        header = Header(kind, self._store_id, self._epoch, sequence).encode()
        nonce = os.urandom(NONCE_SIZE)
        ciphertext = self._cipher.encrypt(nonce, payload, header + after.chain)
        sealed = Sealed(sequence, header, nonce, ciphertext)
        return sealed, Position(after.epoch, sequence, link(after.chain, sealed))

    def unseal(self, after: Position, sealed: Sealed) -> tuple[PayloadKind, bytes, Position]:
        """Return kind and payload of the record ``sealed``, and the place after the record.

        Raises ``StoreNewerError``, or ``StoreDamagedError`` if ``sealed`` does not follow the place
        ``after``.
        """
        header = Header.decode(sealed.header)
        sequence = after.sequence + 1
        if sealed.sequence != sequence:
            raise StoreDamagedError(
                f"the journal has record {sealed.sequence} in the place of record {sequence}",
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


class Write:
    """The records of one transaction. They follow the place ``after``.

    Before the transaction, the store must end at ``expected``; None: the store must be empty.
    ``head`` is the place after the records that are sealed so far. ``dek`` is the data key of the
    epoch of these records.
    """

    def __init__(
        self, sealer: Sealer, dek: Secret, *, expected: Position | None, after: Position
    ) -> None:
        self.sealer = sealer
        self.dek = dek
        self.expected = expected
        self.after = after
        self.head = after
        self.weight = 0
        self.complete = False

    def seal_events(self, payloads: Sequence[bytes]) -> list[Sealed]:
        """Return the sealed records of ``payloads``, in their order."""
        records = []
        for payload in payloads:
            sealed, self.head = self.sealer.seal(self.head, PayloadKind.EVENT, payload)
            records.append(sealed)
        self.weight, self.complete = weight(payloads), True
        return records

    def seal_base(self, base: Iterable[bytes]) -> Iterator[Sealed]:
        """Yield the records of ``base``, one for each piece."""
        pieces = iter(base)
        held = next(pieces, None)
        if held is None:
            raise ValueError("a base must have at least one payload")
        for piece in pieces:
            yield self._seal_piece(PayloadKind.BASE, held)
            held = piece
        last = self._seal_piece(PayloadKind.BASE_END, held)
        self.complete = True
        yield last

    def _seal_piece(self, kind: PayloadKind, payload: bytes) -> Sealed:
        sealed, self.head = self.sealer.seal(self.head, kind, payload)
        self.weight += weight((payload,))
        return sealed


def weight(payloads: Sequence[bytes]) -> int:
    """Return the size of the records of ``payloads`` in bytes."""
    return sum(map(len, payloads)) + _RECORD_OVERHEAD * len(payloads)


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
    """Verifies the records of an epoch in order: one complete base, then events only."""

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
            expected = "an event" if self._base_ended else "a part of the base"
            raise StoreDamagedError(
                f"record {position.sequence} of the journal has the wrong kind; expected {expected}"
            )
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
                "the journal ends within the base of its epoch: the end of the base is missing",
                hint="restore the state from a backup",
            )
        return Replay(tuple(self._base), tuple(self._events))
