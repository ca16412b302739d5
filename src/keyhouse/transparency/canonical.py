"""Canonical JSON (RFC 8785) for logs, and the types of its fields.

UTF-8, sorted names, no spaces, whole numbers below 2**53. A reader accepts only the bytes that it
would write itself. So a value has exactly one text and one hash.
"""

from collections.abc import Callable
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")

NAME_BYTES: Final = 512
"""Bytes of the longest name that is not replaced by its hash; see ``leaf.name_in_leaf``."""

Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""SHA-256 in lower-case hex."""

HashOrNone = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{64})?\Z")]
"""The hash of an object of the log; empty: no object."""

Whole = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Line = Annotated[str, Meta(pattern=r"^[^\x00-\x1f]{1,255}\Z")]
Name = Annotated[str, Meta(max_length=NAME_BYTES)]
"""A name as a leaf writes it. ``leaf.require_names`` verifies what a schema cannot: bytes."""

_ENCODER: Final = msgspec.json.Encoder(order="sorted")

canonical: Final[Callable[[msgspec.Struct], bytes]] = _ENCODER.encode
"""Return the canonical text of a value.

Only ``read_canonical`` checks the bounds of fields, such as lengths.
"""


def read_canonical(raw: bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    """Return the value of the canonical text ``raw``; None if ``raw`` is not canonical or valid."""
    try:
        value = decoder.decode(raw)
    # The error text would repeat names.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if _ENCODER.encode(value) == raw else None
