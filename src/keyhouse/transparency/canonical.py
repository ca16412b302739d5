"""The one form of JSON in a log (RFC 8785), and what fields of it may hold.

UTF-8, names in order, no spaces, whole numbers below 2**53. A reader accepts exactly the bytes that
it would write itself, so one content has one text.
"""

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")

NAME_BYTES: Final = 512
"""Bytes of the longest name that is written as it is; see ``leaf.name_in_leaf``."""

Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""SHA-256 in lower-case hex."""

HashOrNone = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{64})?\Z")]
"""The hash of something, as an object of the log; empty: there is none."""

Whole = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Line = Annotated[str, Meta(pattern=r"^[^\x00-\x1f]{1,255}\Z")]
Name = Annotated[str, Meta(max_length=NAME_BYTES)]
"""A name as a leaf writes it. ``leaf.require_names`` verifies what a schema cannot: bytes."""

_ENCODER: Final = msgspec.json.Encoder(order="sorted")


def canonical(value: msgspec.Struct) -> bytes:
    """Return the one text of ``value``. Its bounds are those of a reader, not of this."""
    return _ENCODER.encode(value)


def read_canonical(raw: bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    """Return what ``raw`` is the one text of; None if ``decoder`` reads no such thing in it."""
    try:
        found = decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # its text repeats names
        return None
    return found if _ENCODER.encode(found) == raw else None
