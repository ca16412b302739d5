"""Evidence files: a log with all data for its verification, in one JSON object.

A file ``*.evidence.json`` has exactly one form: names in order, no spaces, base64 by RFC 4648, a
newline at the end. A reader accepts only the bytes that it would write itself. So a file has no
repeated, unknown or ignored parts, and two readers cannot see different contents.
"""

import zlib
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from keyhouse.evidence.errors import EvidenceRefusedError, Step
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.tree import HASH_BYTES, leaf_hash

MEDIA_TYPE: Final = "application/vnd.keyhouse.evidence.v1+json"

MOST_BYTES: Final = 512 * 1024 * 1024
"""Bytes of the largest accepted file. For a compressed file, both sizes count."""

_GZIP: Final = b"\x1f\x8b"
_BEGINNING: Final = b'{"checkpoints":['
_PIECE: Final = 1024 * 1024  # bytes of expanded content at a time, chosen
_NOT_ONE: Final = "the file is not an evidence file of this version, or not in canonical form"
_READ_NEWER: Final = "verify a file of a newer version of Keyhouse with that version"
_WHOLE: Final = 2**53 - 1  # RFC 8259, 6: the largest integer that every JSON reader keeps exact

_Name = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Hash = Annotated[bytes, Meta(min_length=HASH_BYTES, max_length=HASH_BYTES)]


class CertifiedLogKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key of the log (a C2SP verifier key), and the root's signature over the key."""

    key: str
    signature: bytes


class QuotedHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A quote of the coordinator over its root, a nonce, and the last checkpoint."""

    nonce: bytes
    quote: bytes
    collateral: _Name  # the name of an object


class Hidden(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A hidden leaf of an evidence file: only its hash is in the file."""

    hidden: _Hash


Entry = bytes | Hidden


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The content of an evidence file. Nothing is verified except the hashes of its objects.

    Bytes are base64 in the file, certificates DER. ``made`` is in microseconds since 1970.
    ``entries`` are the leaves of the log: the bytes of a leaf, or the hash of a hidden leaf.
    ``checkpoints`` are signed notes; the last covers all leaves. ``disclosures`` is empty in this
    version.
    """

    media_type: Literal["application/vnd.keyhouse.evidence.v1+json"]
    made: Annotated[int, Meta(ge=0, le=_WHOLE)]
    origin: str
    root: bytes
    intermediate: bytes
    log: CertifiedLogKey
    head: QuotedHead
    checkpoints: tuple[str, ...]
    entries: tuple[Entry, ...]
    objects: dict[_Name, bytes]
    disclosures: Annotated[tuple[msgspec.Raw, ...], Meta(max_length=0)] = ()

    @property
    def hashes(self) -> list[bytes]:
        """The hashes of all leaves, in order."""
        return [
            each.hidden if isinstance(each, Hidden) else leaf_hash(each) for each in self.entries
        ]


_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_DECODER: Final = msgspec.json.Decoder(Evidence)


def write_evidence(evidence: Evidence) -> bytes:
    """Return the bytes of the evidence file."""
    return _ENCODER.encode(evidence) + b"\n"


def read_evidence(raw: bytes) -> Evidence:
    """Return the evidence in the file ``raw``, which may be compressed by gzip.

    Raises ``EvidenceRefusedError`` for a file that ``write_evidence`` would not write, and for an
    object that does not match its name.
    """
    if len(raw) > MOST_BYTES:
        raise _refused(f"the file has more than {MOST_BYTES} bytes")
    if raw.startswith(_GZIP):
        raw = _expand(raw)
    try:
        evidence = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the text quotes content
        evidence = None
    if evidence is None or write_evidence(evidence) != raw:
        raise _refused(_NOT_ONE, _READ_NEWER)
    for name, content in evidence.objects.items():
        if object_name(content) != name:
            raise _refused(f"the content of the object {name} does not match its name")
    return evidence


def _expand(raw: bytes) -> bytes:
    """Return the content of ``raw``, one gzip member.

    ``raw`` is decompressed twice. The first pass stores nothing: it refuses a content that does
    not begin as an evidence file does, or has more than ``MOST_BYTES``. So a decompression bomb
    costs the memory of one piece. The second pass returns the content.
    """
    size = 0
    for piece in _pieces(raw):
        if size == 0 and not piece.startswith(_BEGINNING[: len(piece)]):
            raise _refused(_NOT_ONE, _READ_NEWER)
        size += len(piece)
        if size > MOST_BYTES:
            raise _refused(f"the expanded file has more than {MOST_BYTES} bytes")
    return b"".join(_pieces(raw))


def _pieces(raw: bytes) -> Iterator[bytes]:
    """Yield the content of the gzip member ``raw``, in pieces of limited size."""
    reader = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    rest = raw
    while not reader.eof:
        try:
            piece = reader.decompress(rest, _PIECE)
        except zlib.error:
            raise _refused("the gzip compression of the file is damaged") from None
        rest = reader.unconsumed_tail
        if piece:
            yield piece
        elif not rest and not reader.eof:
            raise _refused("the end of the gzip-compressed file is missing")
    if reader.unused_data:
        raise _refused("more data follow the end of the gzip-compressed file")


def _refused(problem: str, hint: str = "") -> EvidenceRefusedError:
    return EvidenceRefusedError(Step.FILE, problem, hint=hint)
