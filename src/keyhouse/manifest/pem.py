"""The first block of a PEM text, strictly (RFC 7468)."""

import re

from keyhouse.base.errors import BadRequest
from keyhouse.wire.base64text import decode_base64

__all__ = ["first_block"]

_BEGIN = re.compile(r"^-----BEGIN ([A-Z0-9 ]{1,64})-----[ \t]*\r?$", re.MULTILINE)


def first_block(text: str, label: str) -> bytes:
    """Return the DER bytes of the first block, which must be a ``label``.

    Text before and after it is not looked at, header lines are refused. Raises ``BadRequest``,
    without the text.
    """
    begin = _BEGIN.search(text)
    if begin is None:
        raise BadRequest("is no PEM text", hint=f"it has a line -----BEGIN {label}-----")
    if begin[1] != label:
        raise BadRequest(f"is a PEM block of another type than {label}", hint=_HINTS.get(label, ""))
    body, end, _ = text[begin.end() :].partition(f"-----END {label}-----")
    if not end:
        raise BadRequest(f"has no line -----END {label}-----")
    return decode_base64("".join(body.split()))


_HINTS = {
    "CERTIFICATE": "put the certificate first",
    "PUBLIC KEY": "openssl rsa -RSAPublicKey_in -pubout converts the form RSA PUBLIC KEY",
}
