"""Reading a request's JSON body: the first value of it, bounded, into a typed value."""

from typing import Final, TypeVar

import msgspec

from keyhouse.base.errors import BadRequestError, TooLargeError
from keyhouse.wire.json_decoder import decode

T = TypeVar("T", bound=msgspec.Struct)

DECODED_BYTES: Final = 16 * 1024 * 1024
"""A manifest, or all the secrets of one upload, after base64 decoding."""

ENCODED_BYTES: Final = DECODED_BYTES * 4 // 3 + 1024 * 1024
"""The body that this takes: base64, with room for line ends and names."""


def read_body(body: bytes, shape: type[T]) -> T:
    """Return the first JSON value of ``body`` as ``shape``; what follows it is not looked at.

    Field names match in any case, unknown fields are ignored, of repeated ones the last counts.

    Raises:
        BadRequestError: the body is empty or cannot be read, with the fields at fault.
    """
    if not body.strip():
        raise BadRequestError(
            "the body is empty",
            fields={"body": "is empty, must be a JSON object"},
            hint="send a JSON object",
        )
    return decode(body, shape, ignore_rest=True)


def require_size(decoded: int) -> None:
    """Refuse content of more than ``DECODED_BYTES``."""
    if decoded > DECODED_BYTES:
        raise TooLargeError(
            f"the content has {decoded} bytes, at most {DECODED_BYTES} are taken",
            fields={"body": "is too large after base64 decoding"},
        )
