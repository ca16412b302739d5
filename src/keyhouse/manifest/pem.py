"""Parses the first block of a PEM text, strictly (RFC 7468)."""

import re

from keyhouse.base.errors import BadRequestError
from keyhouse.wire.base64_text import decode_base64

_BEGIN = r"^-----BEGIN ([A-Z0-9 ]{1,64})-----[ \t]*\r?$"


def first_block(text: str, label: str) -> bytes:
    """Return the DER bytes of the first PEM block in ``text``, which must have the type ``label``.

    Text before and after the block is ignored (``ignored_part`` reports it). Header lines are
    refused. Raises ``BadRequestError``; its message never quotes ``text``.
    """
    begin = re.search(_BEGIN, text, re.MULTILINE)
    if begin is None:
        raise BadRequestError("is not a PEM text", hint=f"it has a line -----BEGIN {label}-----")
    if begin[1] != label:
        raise BadRequestError(
            f"is a PEM block of another type than {label}", hint=_HINTS.get(label, "")
        )
    body, end, _ = text[begin.end() :].partition(f"-----END {label}-----")
    if not end:
        raise BadRequestError(f"has no line -----END {label}-----")
    return decode_base64("".join(body.split()))


def ignored_part(text: str) -> str:
    """Return a warning about text that ``first_block`` ignores; "" if there is no such text.

    ``first_block`` must have accepted ``text``.
    """
    begin = re.search(_BEGIN, text, re.MULTILINE)
    if begin is None:
        return ""
    after = text[begin.end() :].partition(f"-----END {begin[1]}-----")[2]
    if "-----BEGIN " in after:
        return "has more than one PEM block, and only the first one counts"
    if after.strip() or text[: begin.start()].strip():
        return "has text around its PEM block, which has no effect"
    return ""


_HINTS = {
    "CERTIFICATE": "put the certificate first",
    "PUBLIC KEY": "openssl rsa -RSAPublicKey_in -pubout converts the form RSA PUBLIC KEY",
}
