"""The notes that replicas leave each other in the store, which reads, keeps and forges at will.

An ``ask``, a ``give`` and a ``member`` stand beside a quote that binds each of their bytes; a
``switch`` has a signature. Numbers are big-endian. A place is epoch (8 bytes), sequence (8) and
chain value (32)::

    ask                                        give
    0     "KEYHASK", format (1)                0     "KEYHGIV", format (1)
    8     store id, 16                         8     SHA-256 of the ask's message, 32
    24    instance, 16                         40    store id, 16
    40    nonce, 32: new in each ask           56    instance of the giver, 16
    72    key to seal to, 1,216                72    SHA-256 of the root certificate, 32
    1288  key of its signatures, 32            104   place of the giver
    1320  SHA-256 of the measured settings     152   the data key, sealed, 1,168
    1352  1 and its highest place known,
          or 49 zeros                          switch
    1401  level of events that it reads, 4     0     "KEYHSWI", format (1)
    1405  length (1) and text of its version   8     store id, 16
                                               24    instance of the writer, 16
    member                                     40    instance of the reader, 16
    0     "KEYHMEM", format (1)                56    place where the old epoch ends
    8     store id, 16                         104   the new epoch, 8
    24    instance, 16                         112   key check of the new data key, 32
    40    key to seal to, 1,216                144   the new data key, sealed, 1,168
    1256  key of its signatures, 32            1312  signature (Ed25519) of the writer over
    1288  SHA-256 of the measured settings           "keyhouse switch v1", a zero byte and all
    1320  level of events that it reads, 4           before it

    ask, give and member in the store
    0     length (4) and message
    ..    length (4) and quote
"""

import hashlib
from enum import StrEnum
from typing import Final

import msgspec

from keyhouse.attestation.quote.form import MAX_QUOTE
from keyhouse.authority.instance_keys import (
    KEM_KEY_SIZE,
    SEALING_OVERHEAD,
    SIGNATURE_SIZE,
    SIGNING_KEY_SIZE,
)
from keyhouse.base.byte_reader import ByteReader, LayoutError
from keyhouse.base.errors import RefusedError
from keyhouse.journal import DEK_SIZE, STORE_ID_SIZE, Position

INSTANCE_SIZE: Final = 16
NONCE_SIZE: Final = 32
_HASH: Final = 32
_FORMAT: Final = 1
_SEALED_KEY: Final = DEK_SIZE + SEALING_OVERHEAD
_MESSAGE: Final = 4096  # bytes of the longest message; an ask has less than 1,700
_LARGEST: Final = 2**63 - 1  # of an epoch or a sequence

LONGEST_NOTE: Final = 4 + _MESSAGE + 4 + MAX_QUOTE
"""Bytes of the longest note that is looked at."""


class NoteProblem(StrEnum):
    """Why a note is refused: stable words for programs."""

    MALFORMED = "malformed"
    OTHER_STORE = "other-store"
    OTHER_ASK = "other-ask"  # it answers another question
    ANSWERED = "answered-before"
    OTHER_SETTINGS = "other-settings"
    LEVEL = "level"  # it reads fewer kinds of events than there may be
    BINDING = "binding"  # its quote was made for something else
    QUOTE = "quote"  # its quote does not verify
    NOT_CONFIGURED = "not-configured"  # the manifest admits no replicas
    TCB_STATUS = "tcb-status"
    CODE = "code"
    PLATFORM = "platform"
    KEY = "key"  # nothing can be sealed to it
    SEALED_FOR_ANOTHER = "sealed-for-another"
    ROOT = "root"  # the state has another root certificate
    BEHIND = "behind"  # its giver has seen less than is known here
    WRITER = "writer"  # it is of no member
    NO_QUOTE = "no-quote"  # the member has left no quote
    OTHER_KEYS = "other-keys"  # the quote is over other keys than those of the member
    SIGNATURE = "signature"
    EPOCH = "epoch"  # it continues another journal


class NoteRefusedError(RefusedError):
    """A note is not acted upon; ``reason`` says why."""

    code = "note-refused"

    def __init__(self, reason: NoteProblem, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class Quoted(msgspec.Struct, frozen=True):
    """A message with the quote that vouches for it."""

    message: bytes
    quote: bytes

    def encode(self) -> bytes:
        """Return the note."""
        return _sized(self.message) + _sized(self.quote)


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A process asks for the data key of ``store_id``."""

    store_id: bytes
    instance: bytes
    nonce: bytes
    kem: bytes
    signing: bytes
    settings: bytes
    known: Position | None  # the highest place that this machine has seen
    level: int
    version: str  # 1 to 255 printable ASCII characters

    def encode(self) -> bytes:
        """Return the message."""
        known = bytes(49) if self.known is None else b"\1" + _place(self.known)
        version = self.version.encode("ascii")
        return b"".join(
            (
                _ASK,
                self.store_id,
                self.instance,
                self.nonce,
                self.kem,
                self.signing,
                self.settings,
                known,
                self.level.to_bytes(4, "big"),
                len(version).to_bytes(1, "big") + version,
            )
        )


class Give(msgspec.Struct, frozen=True, kw_only=True):
    """A replica hands the data key over."""

    ask: bytes  # SHA-256 of the message that it answers
    store_id: bytes
    giver: bytes
    root: bytes  # SHA-256 of the root certificate
    place: Position
    sealed: bytes

    def encode(self) -> bytes:
        """Return the message."""
        return self.head + self.sealed

    @property
    def head(self) -> bytes:
        """All but the sealed key."""
        parts = (self.ask, self.store_id, self.giver, self.root, _place(self.place))
        return b"".join((_GIVE, *parts))

    @property
    def info(self) -> bytes:
        """What the sealed key is bound to."""
        return b"keyhouse hand-off v1\0" + self.head


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """A process that serves ``store_id`` says which keys are its own."""

    store_id: bytes
    instance: bytes
    kem: bytes
    signing: bytes
    settings: bytes
    level: int

    def encode(self) -> bytes:
        """Return the message."""
        keys = (self.store_id, self.instance, self.kem, self.signing, self.settings)
        return b"".join((_MEMBER, *keys, self.level.to_bytes(4, "big")))


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that began an epoch with a new data key hands that to another one."""

    store_id: bytes
    writer: bytes
    reader: bytes
    after: Position  # where the old epoch ends
    epoch: int
    key_check: bytes
    sealed: bytes = b""
    signature: bytes = b""

    def encode(self) -> bytes:
        """Return the note."""
        return self.head + self.sealed + self.signature

    @property
    def head(self) -> bytes:
        """All but the sealed key and the signature."""
        parts = (self.store_id, self.writer, self.reader, _place(self.after))
        return b"".join((_SWITCH, *parts, self.epoch.to_bytes(8, "big"), self.key_check))

    @property
    def info(self) -> bytes:
        """What the sealed key is bound to."""
        return b"keyhouse switch key v1\0" + self.head

    @property
    def signed(self) -> bytes:
        """What the signature is over."""
        return b"keyhouse switch v1\0" + self.head + self.sealed


_ASK: Final = b"KEYHASK" + bytes([_FORMAT])
_GIVE: Final = b"KEYHGIV" + bytes([_FORMAT])
_MEMBER: Final = b"KEYHMEM" + bytes([_FORMAT])
_SWITCH: Final = b"KEYHSWI" + bytes([_FORMAT])


def read_quoted(raw: bytes) -> Quoted:
    """Return message and quote of a note. Raises ``NoteRefusedError``."""
    reader = _begin(raw, LONGEST_NOTE)
    try:
        message = reader.framed(4, "message")
        quote = reader.framed(4, "quote")
        reader.finish("quote")
    except LayoutError as error:
        raise _malformed(str(error)) from None
    return Quoted(message, quote)


def read_ask(message: bytes) -> Ask:
    """Return what the message of an ask says. Raises ``NoteRefusedError``."""
    reader = _begin(message, _MESSAGE)
    try:
        _require_kind(reader, _ASK)
        return Ask(
            store_id=reader.take(STORE_ID_SIZE, "store id"),
            instance=reader.take(INSTANCE_SIZE, "instance"),
            nonce=reader.take(NONCE_SIZE, "nonce"),
            kem=reader.take(KEM_KEY_SIZE, "key"),
            signing=reader.take(SIGNING_KEY_SIZE, "key of signatures"),
            settings=reader.take(_HASH, "settings"),
            known=_read_known(reader),
            level=reader.number(4, "level"),
            version=_read_version(reader),
        )
    except LayoutError as error:
        raise _malformed(str(error)) from None


def read_give(message: bytes) -> Give:
    """Return what the message of a give says. Raises ``NoteRefusedError``."""
    reader = _begin(message, _MESSAGE)
    try:
        _require_kind(reader, _GIVE)
        give = Give(
            ask=reader.take(_HASH, "ask"),
            store_id=reader.take(STORE_ID_SIZE, "store id"),
            giver=reader.take(INSTANCE_SIZE, "giver"),
            root=reader.take(_HASH, "root"),
            place=_read_place(reader),
            sealed=reader.take(_SEALED_KEY, "sealed key"),
        )
        reader.finish("sealed key")
    except LayoutError as error:
        raise _malformed(str(error)) from None
    return give


def read_membership(message: bytes) -> Membership:
    """Return what the message of a member says. Raises ``NoteRefusedError``."""
    reader = _begin(message, _MESSAGE)
    try:
        _require_kind(reader, _MEMBER)
        membership = Membership(
            store_id=reader.take(STORE_ID_SIZE, "store id"),
            instance=reader.take(INSTANCE_SIZE, "instance"),
            kem=reader.take(KEM_KEY_SIZE, "key"),
            signing=reader.take(SIGNING_KEY_SIZE, "key of signatures"),
            settings=reader.take(_HASH, "settings"),
            level=reader.number(4, "level"),
        )
        reader.finish("level")
    except LayoutError as error:
        raise _malformed(str(error)) from None
    return membership


def read_switch(raw: bytes) -> Switch:
    """Return what a switch says. Raises ``NoteRefusedError``."""
    reader = _begin(raw, _MESSAGE)
    try:
        _require_kind(reader, _SWITCH)
        switch = Switch(
            store_id=reader.take(STORE_ID_SIZE, "store id"),
            writer=reader.take(INSTANCE_SIZE, "writer"),
            reader=reader.take(INSTANCE_SIZE, "reader"),
            after=_read_place(reader),
            epoch=_read_count(reader, "epoch"),
            key_check=reader.take(_HASH, "key check"),
            sealed=reader.take(_SEALED_KEY, "sealed key"),
            signature=reader.take(SIGNATURE_SIZE, "signature"),
        )
        reader.finish("signature")
    except LayoutError as error:
        raise _malformed(str(error)) from None
    return switch


def digest_of(message: bytes) -> bytes:
    """Return what a give answers an ask by."""
    return hashlib.sha256(message).digest()


def _begin(raw: bytes, longest: int) -> ByteReader:
    if len(raw) > longest:
        raise _malformed(f"it has more than {longest} bytes")
    return ByteReader(raw, "big")


def _require_kind(reader: ByteReader, kind: bytes) -> None:
    if reader.take(len(kind), "kind") != kind:
        raise LayoutError("it is of another kind or format")


def _read_known(reader: ByteReader) -> Position | None:
    mark = reader.number(1, "known place")
    if mark == 1:
        return _read_place(reader)
    if mark or any(reader.take(48, "known place")):
        raise LayoutError("its known place is neither a place nor none")
    return None


def _read_place(reader: ByteReader) -> Position:
    epoch, sequence = _read_count(reader, "place"), _read_count(reader, "place")
    return Position(epoch, sequence, reader.take(_HASH, "place"))


def _read_count(reader: ByteReader, part: str) -> int:
    """Return an epoch or a sequence: both count from 1."""
    number = reader.number(8, part)
    if not 0 < number <= _LARGEST:
        raise LayoutError(f"its {part} has a number that cannot be")
    return number


def _read_version(reader: ByteReader) -> str:
    raw = reader.framed(1, "version")
    reader.finish("version")
    text = raw.decode("latin-1")
    if not (raw and raw.isascii() and text.isprintable()):
        raise LayoutError("its version is not printable text")
    return text


def _place(place: Position) -> bytes:
    return place.epoch.to_bytes(8, "big") + place.sequence.to_bytes(8, "big") + place.chain


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


def _malformed(problem: str) -> NoteRefusedError:
    return NoteRefusedError(NoteProblem.MALFORMED, f"the note is malformed: {problem}")
