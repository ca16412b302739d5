"""What a quote binds: a certificate and a nonce, or a message, in its report data.

Most bind in the first half, and have zeros in the second. Two kinds are about the transparency log,
and bind all 64 bytes:

::

                at a start                          of a head
    0   SHA-256 over the root certificate       SHA-256 over the root certificate, and the nonce
    32  SHA-256 over "keyhouse start v1",       SHA-256 over "keyhouse head v1", a zero byte, and
        a zero byte, the instance, the size     the text of the checkpoint
        (8 bytes, big-endian) and the root of
        the log before the leaf of the start

All quotes that callers choose a nonce for have zeros in the second half (``report_data``), or one
of a head. So nobody can have a quote made that serves for a start.

Between replicas a quote binds a message of the hand-off, in all 64 bytes:

::

    0   SHA-256 over "keyhouse hand-off v1 <word>", a zero byte, and the sized message:
        its length in 4 bytes, big-endian, then its bytes
    32  SHA-256 over "keyhouse replica v1" and a zero byte

Two kinds are about the line of the root (``transparency.line``), and bind all 64 bytes:

::

                of an entry                         of an answer
    0   SHA-256 over the root certificate       SHA-256 over the root certificate, and the nonce
    32  SHA-256 over "keyhouse line v1",        SHA-256 over "keyhouse line answer v1", a zero byte,
        a zero byte, and the hash of the        the hash of the last entry (32 bytes), and the text
        entry (32 bytes)                        of the checkpoint

All other quotes of a coordinator have something else in the second half: zeros, or the hash of what
begins in another way. So none serves for the other.
"""

import hashlib
import hmac
from typing import Final, Literal

from keyhouse.attestation.errors import IdentityRefusedError

DIGEST = 32
REPORT_DATA = 64

_START: Final = b"keyhouse start v1\0"
_HEAD: Final = b"keyhouse head v1\0"
_LINE: Final = b"keyhouse line v1\0"
_LINE_ANSWER: Final = b"keyhouse line answer v1\0"

Word = Literal["ask", "give", "member"]

_REPLICA: Final = hashlib.sha256(b"keyhouse replica v1\0").digest()


def quote_binding(root_der: bytes, nonce: bytes = b"") -> bytes:
    """Return the 32 bytes a quote binds: SHA-256 over ``root_der``, then ``nonce``.

    For a workload's quote ``root_der`` is its TLS client certificate. Source: Client API,
    "Quote info" (version 2).
    """
    return hashlib.sha256(root_der + nonce).digest()


def report_data(binding: bytes) -> bytes:
    """Return the 64 bytes that a quote carries: the 32 of ``binding``, then zeros."""
    if len(binding) != DIGEST:
        raise ValueError("a binding has 32 bytes")
    return binding.ljust(REPORT_DATA, b"\0")


def require_binding(found: bytes, binding: bytes) -> None:
    """Raise ``IdentityRefusedError`` unless ``found``, 64 bytes, begins with ``binding``.

    Only the first 32 bytes count (wire reference, "Report data"), compared in constant time.
    """
    whole = len(found) == REPORT_DATA and len(binding) == DIGEST
    if not (whole and hmac.compare_digest(found[:DIGEST], binding)):
        raise IdentityRefusedError(
            "the quote was made for another certificate or nonce",
            hint="it may be an old one played back; ask again, and trust nothing meanwhile",
        )


def start_report_data(root_der: bytes, instance: bytes, size: int, tree_root: bytes) -> bytes:
    """Return the report data of the start of ``instance`` (16 bytes), whose leaf is ``size``.

    ``tree_root``: of the log before it. Raises ``ValueError`` for an instance of another length.
    """
    if len(instance) != 16:  # noqa: PLR2004 what follows it would be read as a part of it
        raise ValueError("an instance has 16 bytes")
    position = instance + size.to_bytes(8, "big") + tree_root
    return quote_binding(root_der) + hashlib.sha256(_START + position).digest()


def head_report_data(root_der: bytes, nonce: bytes, text: bytes) -> bytes:
    """Return the report data of a quote for ``nonce`` over the ``text`` of a checkpoint."""
    return quote_binding(root_der, nonce) + hashlib.sha256(_HEAD + text).digest()


def entry_report_data(root_der: bytes, entry_hash: bytes) -> bytes:
    """Return the report data of the quote of an entry of the line, whose hash has 32 bytes."""
    if len(entry_hash) != DIGEST:
        raise ValueError("the hash of an entry has 32 bytes")
    return quote_binding(root_der) + hashlib.sha256(_LINE + entry_hash).digest()


def line_report_data(root_der: bytes, nonce: bytes, last_hash: bytes, text: bytes) -> bytes:
    """Return the report data of an answer of the line that ends with the entry of ``last_hash``.

    ``text``: of the checkpoint in the answer; empty: the deployment has no log.
    """
    if len(last_hash) != DIGEST:
        raise ValueError("the hash of an entry has 32 bytes")
    bound = hashlib.sha256(_LINE_ANSWER + last_hash + text).digest()
    return quote_binding(root_der, nonce) + bound


def require_report_data(found: bytes, wanted: bytes) -> None:
    """Raise ``IdentityRefusedError`` unless ``found`` is ``wanted``: every byte of 64."""
    if not hmac.compare_digest(found, wanted):
        raise IdentityRefusedError(
            "the quote is about another start, head of the log or line, another root or another"
            " nonce",
            hint="it may be an old one played back; ask again, and trust nothing meanwhile",
        )


def replica_report_data(word: Word, message: bytes) -> bytes:
    """Return the 64 bytes that the quote beside ``message``, of the kind ``word``, carries."""
    sized = len(message).to_bytes(4, "big") + message
    context = b"keyhouse hand-off v1 " + word.encode("ascii") + b"\0"
    return hashlib.sha256(context + sized).digest() + _REPLICA


def binds_replica(found: bytes, word: Word, message: bytes) -> bool:
    """Tell whether ``found``, 64 bytes of report data, are those of ``message``: every byte."""
    return hmac.compare_digest(found, replica_report_data(word, message))
