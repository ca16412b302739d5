"""What a quote between replicas binds: a message of the hand-off, in all 64 bytes of report data.

::

    0   SHA-256 over "keyhouse hand-off v1 <word>", a zero byte, and the sized message:
        its length in 4 bytes, big-endian, then its bytes
    32  SHA-256 over "keyhouse replica v1" and a zero byte

All other quotes of a coordinator have something else in the second half (``binding``): zeros, or
the hash of what begins in another way. So none serves for the other.
"""

import hashlib
import hmac
from typing import Final, Literal

Word = Literal["ask", "give", "member"]

_REPLICA: Final = hashlib.sha256(b"keyhouse replica v1\0").digest()


def replica_report_data(word: Word, message: bytes) -> bytes:
    """Return the 64 bytes that the quote beside ``message``, of the kind ``word``, carries."""
    sized = len(message).to_bytes(4, "big") + message
    context = b"keyhouse hand-off v1 " + word.encode("ascii") + b"\0"
    return hashlib.sha256(context + sized).digest() + _REPLICA


def binds_replica(found: bytes, word: Word, message: bytes) -> bool:
    """Tell whether ``found``, 64 bytes of report data, are those of ``message``: every byte."""
    return hmac.compare_digest(found, replica_report_data(word, message))
