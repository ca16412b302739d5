"""Decodes the first JSON value of a request body into a typed value, within size limits."""

from typing import Final, TypeVar

import msgspec

from keyhouse.base.errors import BadRequestError, TooLargeError
from keyhouse.wire.json_decoder import decode

T = TypeVar("T", bound=msgspec.Struct)

DECODED_BYTES: Final = 16 * 1024 * 1024
"""Largest manifest, or sum of all secrets of an upload, in bytes after base64 decoding."""

ENCODED_BYTES: Final = DECODED_BYTES * 4 // 3 + 1024 * 1024
"""Largest body for this content: base64, with room for line ends and names."""


def read_body(body: bytes, shape: type[T]) -> T:
    """Return the first JSON value of ``body`` as ``shape``. Bytes after this value are ignored.

    Field names match in any case. Unknown fields are ignored. Of repeated fields the last counts.

    Raises: BadRequestError: the body is empty or unreadable; the error names the wrong fields.
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
