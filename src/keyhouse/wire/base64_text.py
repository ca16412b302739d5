"""The only decoders of base64. A sequence of bytes has exactly one accepted text."""

import binascii

from keyhouse.base.errors import BadRequestError

_NO_LINE_ENDS = {ord("\r"): None, ord("\n"): None}
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")


def decode_base64(text: str, *, maximum: int | None = None) -> bytes:
    """Return the bytes of standard base64 with padding. CR and LF inside the text are skipped.

    Unknown characters, missing padding and stray bits in the last character are refused. So the
    bytes encode to the same text again. Raises ``BadRequestError``, also for more than ``maximum``
    bytes. The error never quotes ``text``. Source: ``docs/reference/manifest.md``, "JSON".
    """
    if "\n" in text or "\r" in text:
        text = text.translate(_NO_LINE_ENDS)
    if maximum is not None and len(text) > 4 * ((maximum + 2) // 3):
        raise _too_long(maximum)
    try:
        encoded = text.encode("ascii")
        decoded = binascii.a2b_base64(encoded)
    except ValueError:  # without the error's text, which may contain the input
        decoded, encoded = b"", b"?"
    # The decoder skips unknown characters. Only the encoded result proves that it skipped nothing.
    if binascii.b2a_base64(decoded, newline=False) != encoded:
        raise BadRequestError(
            "is not standard base64 with padding",
            hint="use letters, digits, + and /, with = as padding",
        )
    if maximum is not None and len(decoded) > maximum:
        raise _too_long(maximum)
    return decoded


def decode_base64url(text: str, *, maximum: int, size: int | None = None) -> bytes:
    """Return the bytes of base64 in the URL alphabet (RFC 4648 section 5), padding optional.

    Padding must be complete or absent. Accepts at most ``maximum`` bytes, and exactly ``size``
    bytes if given. Raises ``BadRequestError``, which never quotes ``text``. Source:
    ``docs/reference/routes.md``.
    """
    if len(text) > 4 * ((maximum + 2) // 3):
        raise _too_long(maximum)
    bare = text.rstrip("=")
    full = bare + "=" * (-len(bare) % 4)
    try:
        encoded = full.encode("ascii")
        decoded = binascii.a2b_base64(encoded.translate(_FROM_URL))
    except ValueError:
        decoded, encoded = b"", b"?"
    exact = binascii.b2a_base64(decoded, newline=False).translate(_TO_URL) == encoded
    if not exact or text not in {bare, full}:
        raise BadRequestError(
            "is not base64 in the URL alphabet",
            hint="use letters, digits, - and _; padding is optional",
        )
    if len(decoded) > maximum:
        raise _too_long(maximum)
    if size is not None and len(decoded) != size:
        problem = f"has {len(decoded)} bytes, must have {size}"
        raise BadRequestError(problem, hint=f"send {size} bytes in base64")
    return decoded


def _too_long(maximum: int) -> BadRequestError:
    return BadRequestError(f"is longer than {maximum} bytes", hint=f"send at most {maximum} bytes")
