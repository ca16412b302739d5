"""Encode and decode the messages between replicas, which pass through the store.

A starting replica requests the data key by an ``ask``, and a serving replica answers by a ``give``.
Each replica states its keys in a ``member``. At a change of the data key, the writer leaves a
``switch`` for each member.

The store is untrusted: it can read, drop, keep and forge messages. A quote beside an ``ask``, a
``give`` and a ``member`` binds each of their bytes; a ``switch`` has a signature. Numbers are
big-endian. A place is epoch (8 bytes), sequence (8) and chain value (32)::

    ask
    0     "KEYHASK", format (1)
    8     store id, 16
    24    instance of the starting replica, 16
    40    nonce, 32: new in each ask
    72    public key for the encryption of the data key, 1,216
    1288  public key of the replica's signatures, 32
    1320  SHA-256 of the measured settings, 32
    1352  1 (1 byte) and the highest known place (48); without a known place 49 zero bytes
    1401  level of readable events, 4
    1405  length (1) and text of the version

    give, format 1
    0     "KEYHGIV", format (1)
    8     SHA-256 of the answered ask's message, 32
    40    store id, 16
    56    instance of the giver, 16
    72    SHA-256 of the root certificate, 32
    104   place of the giver, 48
    152   the data key, sealed, 1,168

    give, format 2: with the line of the root that the giver has proven
    0     "KEYHGIV", format (2)
    8     as in format 1, up to the place of the giver
    152   SHA-256 of the measured settings, 32
    184   SHA-256 of the rule about origins, 32
    216   number of entries in the line, 4
    220   hash of the last entry, 32
    252   the data key, sealed, 1,168

    member
    0     "KEYHMEM", format (1)
    8     store id, 16
    24    instance of the replica, 16
    40    public key for the encryption of the data key, 1,216
    1256  public key of the replica's signatures, 32
    1288  SHA-256 of the measured settings, 32
    1320  level of readable events, 4

    switch
    0     "KEYHSWI", format (1)
    8     store id, 16
    24    instance of the writer, 16
    40    instance of the recipient, 16
    56    place where the old epoch ends, 48
    104   the new epoch, 8
    112   key check of the new data key, 32
    144   the new data key, sealed, 1,168
    1312  signature (Ed25519, 64) of the writer over "keyhouse switch v1", a zero byte, and all
          bytes before the signature

    ask, give and member in the store
    0     length (4) and message
    ..    length (4) and quote

A state without a line is handed over in format 1, which older versions also read.
"""

import hashlib
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self, get_type_hints

import msgspec

from keyhouse.attestation.quote.report import MAX_QUOTE
from keyhouse.authority import instance_keys
from keyhouse.base.byte_reader import ByteReader, LayoutError
from keyhouse.base.errors import RefusedError
from keyhouse.journal import DEK_SIZE, STORE_ID_SIZE, Position

INSTANCE_SIZE: Final = 16  # bytes: 128 random bits never repeat
NONCE_SIZE: Final = 32  # bytes: 256 random bits cannot be guessed
_HASH: Final = 32  # bytes of SHA-256
_FORMAT: Final = b"\1"
_SEALED_KEY: Final = DEK_SIZE + instance_keys.SEALING_OVERHEAD
_MESSAGE: Final = 4096  # bytes of the longest message; an ask has less than 1,700
_LARGEST: Final = 2**63 - 1  # the largest epoch or sequence

LONGEST_NOTE: Final = 4 + _MESSAGE + 4 + MAX_QUOTE
"""The length of the longest accepted note in bytes."""


class NoteProblem(StrEnum):
    """The reasons of refused notes: stable words for programs."""

    MALFORMED = "malformed"
    OTHER_STORE = "other-store"
    OTHER_ASK = "other-ask"  # the note answers another ask
    ANSWERED = "answered-before"
    OTHER_SETTINGS = "other-settings"
    LEVEL = "level"  # the process reads fewer kinds of events than the journal may have
    BINDING = "binding"  # the quote was made for another message
    QUOTE = "quote"  # the quote does not verify
    NOT_CONFIGURED = "not-configured"  # the manifest admits no replicas
    TCB_STATUS = "tcb-status"
    CODE = "code"
    PLATFORM = "platform"
    KEY = "key"  # nothing can be sealed to the key
    SEALED_FOR_ANOTHER = "sealed-for-another"
    ROOT = "root"  # the state has another root certificate
    BEHIND = "behind"  # the giver has seen less of the journal than this machine
    WRITER = "writer"  # the writer is not a member
    NO_QUOTE = "no-quote"  # the member has left no quote
    OTHER_KEYS = "other-keys"  # the quote does not cover the member's keys
    SIGNATURE = "signature"
    EPOCH = "epoch"  # the note continues another journal


class NoteRefusedError(RefusedError):
    """A message of another replica is refused, for ``reason``."""

    code = "note-refused"
    next_step = "find the reason in the logs of both coordinators: no data key was handed over"

    def __init__(self, reason: NoteProblem, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class Quoted(msgspec.Struct, frozen=True):
    """The content of a note: a message to replicas, and the quote that binds the message."""

    message: bytes
    quote: bytes

    def encode(self) -> bytes:
        """Return the bytes of the note: the message, then its quote."""
        return _sized(self.message) + _sized(self.quote)


class _Form(msgspec.Struct, frozen=True):
    """The encoding of a field in a message, and its name in refusals."""

    part: str
    read: Callable[[ByteReader, str], Any]
    write: Callable[[Any], bytes]


def _exactly(size: int, part: str) -> _Form:
    return _Form(part, lambda reader, part: reader.read(size, part), bytes)


def _number(size: int, part: str) -> _Form:
    return _Form(
        part,
        lambda reader, part: reader.number(size, part),
        lambda number: number.to_bytes(size, "big"),
    )


def _read_count(reader: ByteReader, part: str) -> int:
    """Read an epoch or a sequence number; both count from 1. Errors name the number as ``part``."""
    number = reader.number(8, part)
    if not 0 < number <= _LARGEST:
        raise LayoutError(f"the {part} has a number outside of 1 to 2^63-1")
    return number


def _read_place(reader: ByteReader, part: str) -> Position:
    epoch, sequence = _read_count(reader, part), _read_count(reader, part)
    return Position(epoch, sequence, reader.read(_HASH, part))


def _place(place: Position) -> bytes:
    return place.epoch.to_bytes(8, "big") + place.sequence.to_bytes(8, "big") + place.chain


def _read_known(reader: ByteReader, part: str) -> Position | None:
    mark = reader.number(1, part)
    if mark == 1:
        return _read_place(reader, "place")
    if mark or any(reader.read(48, part)):
        raise LayoutError("the known place is neither a place nor 49 zeros")
    return None


def _known(place: Position | None) -> bytes:
    return bytes(49) if place is None else b"\1" + _place(place)


def _read_version(reader: ByteReader, part: str) -> str:
    raw = reader.framed(1, part)
    reader.finish(part)
    text = raw.decode("latin-1")
    if not (raw and raw.isascii() and text.isprintable()):
        raise LayoutError("the version is not printable text")
    return text


def _version(version: str) -> bytes:
    return len(version).to_bytes(1, "big") + version.encode("ascii")


_StoreId = Annotated[bytes, _exactly(STORE_ID_SIZE, "store id")]
_Kem = Annotated[bytes, _exactly(instance_keys.KEM_KEY_SIZE, "key")]
_Signing = Annotated[bytes, _exactly(instance_keys.SIGNING_KEY_SIZE, "key of signatures")]
_Settings = Annotated[bytes, _exactly(_HASH, "settings")]
_Level = Annotated[int, _number(4, "level")]
_Place = Annotated[Position, _Form("place", _read_place, _place)]
_Sealed = Annotated[bytes, _exactly(_SEALED_KEY, "sealed key")]


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message: its kind, then its fields in order, each with the encoding in its annotation."""

    kind: ClassVar[bytes]

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """Return the message in ``raw``. Raises ``NoteRefusedError``."""
        reader = _begin(raw, _MESSAGE)
        forms = _forms(cls)
        try:
            _require_kind(reader, cls.kind)
            found = {name: form.read(reader, form.part) for name, form in forms.items()}
            reader.finish([*forms.values()][-1].part)
        except LayoutError as error:
            raise _malformed(str(error)) from None
        return cls(**found)

    def encode(self) -> bytes:
        """Return the bytes of the message, in the layout of its kind (see this module)."""
        return self._without(0)

    def _without(self, last: int) -> bytes:
        """Return the bytes of the message without its last fields. ``last``: their number."""
        forms = _forms(type(self))
        kept = [*forms.items()][: len(forms) - last]
        return self.kind + b"".join(form.write(getattr(self, name)) for name, form in kept)


@cache
def _forms(kind: type[_Message]) -> dict[str, _Form]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name].__metadata__[0] for name in kind.__struct_fields__}


class Ask(_Message, frozen=True, kw_only=True):
    """The request of a process for the data key of the store ``store_id``."""

    kind = b"KEYHASK" + _FORMAT

    store_id: _StoreId
    instance: Annotated[bytes, _exactly(INSTANCE_SIZE, "instance")]
    nonce: Annotated[bytes, _exactly(NONCE_SIZE, "nonce")]
    kem: _Kem
    signing: _Signing
    settings: _Settings
    known: Annotated[Position | None, _Form("known place", _read_known, _known)]
    """The highest place that this machine has seen."""
    level: _Level
    version: Annotated[str, _Form("version", _read_version, _version)]
    """1 to 255 printable ASCII characters."""


class Give(_Message, frozen=True, kw_only=True):
    """The data key from a replica, sealed to the keys of an ask."""

    kind = b"KEYHGIV" + _FORMAT

    ask: Annotated[bytes, _exactly(_HASH, "ask")]  # SHA-256 of the answered message
    store_id: _StoreId
    giver: Annotated[bytes, _exactly(INSTANCE_SIZE, "giver")]
    root: Annotated[bytes, _exactly(_HASH, "root")]  # SHA-256 of the root certificate
    place: _Place
    sealed: _Sealed

    @property
    def info(self) -> bytes:
        """Return the context of the encrypted data key (HPKE ``info``): all other fields."""
        return b"keyhouse hand-off v1\0" + self._without(1)


class GiveLine(_Message, frozen=True, kw_only=True):
    """The data key from a replica, with the line of the root that the replica has proven."""

    kind = b"KEYHGIV" + b"\2"

    ask: Annotated[bytes, _exactly(_HASH, "ask")]  # SHA-256 of the answered message
    store_id: _StoreId
    giver: Annotated[bytes, _exactly(INSTANCE_SIZE, "giver")]
    root: Annotated[bytes, _exactly(_HASH, "root")]  # SHA-256 of the root certificate
    place: _Place
    settings: _Settings
    rule: Annotated[bytes, _exactly(_HASH, "rule")]  # digest of the rule about origins
    entries: Annotated[int, _number(4, "number of entries")]
    last: Annotated[bytes, _exactly(_HASH, "last entry")]
    sealed: _Sealed

    @property
    def info(self) -> bytes:
        """Return the context of the encrypted data key (HPKE ``info``): all other fields."""
        return b"keyhouse hand-off v2\0" + self._without(1)


AnyGive = Give | GiveLine


def read_give(raw: bytes) -> AnyGive:
    """Return the give in ``raw``, of either format. Raises ``NoteRefusedError``."""
    return GiveLine.read(raw) if raw.startswith(GiveLine.kind) else Give.read(raw)


class Membership(_Message, frozen=True, kw_only=True):
    """The public keys of a process that serves the store ``store_id``."""

    kind = b"KEYHMEM" + _FORMAT

    store_id: _StoreId
    instance: Annotated[bytes, _exactly(INSTANCE_SIZE, "instance")]
    kem: _Kem
    signing: _Signing
    settings: _Settings
    level: _Level


class Switch(_Message, frozen=True, kw_only=True):
    """A new data key from the replica that began its epoch, for another replica."""

    kind = b"KEYHSWI" + _FORMAT

    store_id: _StoreId
    writer: Annotated[bytes, _exactly(INSTANCE_SIZE, "writer")]
    reader: Annotated[bytes, _exactly(INSTANCE_SIZE, "reader")]
    after: _Place  # the end of the old epoch
    epoch: Annotated[int, _Form("epoch", _read_count, _number(8, "epoch").write)]
    key_check: Annotated[bytes, _exactly(_HASH, "key check")]
    sealed: _Sealed = b""
    signature: Annotated[bytes, _exactly(instance_keys.SIGNATURE_SIZE, "signature")] = b""

    @property
    def info(self) -> bytes:
        """Return the context of the encryption (HPKE ``info``): all fields before the data key."""
        return b"keyhouse switch key v1\0" + self._without(2)

    @property
    def signed(self) -> bytes:
        """Return the bytes that the writer of the note signs."""
        return b"keyhouse switch v1\0" + self._without(1)


def read_quoted(raw: bytes) -> Quoted:
    """Return message and quote of the note ``raw``. Raises ``NoteRefusedError``."""
    reader = _begin(raw, LONGEST_NOTE)
    try:
        message = reader.framed(4, "message")
        quote = reader.framed(4, "quote")
        reader.finish("quote")
    except LayoutError as error:
        raise _malformed(str(error)) from None
    return Quoted(message, quote)


def digest_of(message: bytes) -> bytes:
    """Return the SHA-256 of the ask ``message``, which the give for this ask contains."""
    return hashlib.sha256(message).digest()


def _begin(raw: bytes, longest: int) -> ByteReader:
    if len(raw) > longest:
        raise _malformed(f"the note has {len(raw)} bytes; at most {longest} are permitted")
    return ByteReader(raw, "big")


def _require_kind(reader: ByteReader, kind: bytes) -> None:
    if reader.read(len(kind), "kind") != kind:
        raise LayoutError("the note does not begin with the expected kind and format")


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


def _malformed(problem: str) -> NoteRefusedError:
    return NoteRefusedError(NoteProblem.MALFORMED, f"the note is malformed: {problem}")
