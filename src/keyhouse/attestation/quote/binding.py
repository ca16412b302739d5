"""The report data of a quote: the binding to a certificate and a nonce, or to a message.

Most quotes bind in the first half, with zeros in the second half. Two kinds concern the
transparency log and bind all 64 bytes:

::

                    at a start                          of a head
    0   SHA-256 over the root certificate       SHA-256 over the root certificate, and the nonce
    32  SHA-256 over "keyhouse start v1",       SHA-256 over "keyhouse head v1", a zero byte, and
        a zero byte, the instance, the size     the text of the checkpoint
        (8 bytes, big-endian) and the root of
        the log before the leaf of the start

A caller can choose the nonce only of quotes with zeros in the second half (``report_data``), with a
head, or with an answer about the line (below). So no caller can obtain a quote that passes for a
start.

Between replicas a quote binds a message of the hand-off, in all 64 bytes:

::

    0   SHA-256 over "keyhouse hand-off v1 <word>", a zero byte, and the sized message:
        its length in 4 bytes, big-endian, then its bytes
    32  SHA-256 over "keyhouse replica v1" and a zero byte

Two kinds concern the line of the root (``transparency.line``) and bind all 64 bytes:

::

                    of an entry                         of an answer
    0   SHA-256 over the root certificate       SHA-256 over the root certificate, and the nonce
    32  SHA-256 over "keyhouse line v1",        SHA-256 over "keyhouse line answer v1", a zero byte,
        a zero byte, and the hash of the        the hash of the last entry (32 bytes), and the text
        entry (32 bytes)                        of the checkpoint

All other quotes of a coordinator have a different second half: zeros, or the hash of a text with
another beginning. So a quote of one kind never passes for another kind.

The renewal of a workload's certificate binds all 64 bytes, too:

::

    0   SHA-256 over the certificate signing request of the new key
    32  SHA-256 over "keyhouse renewal v1", a zero byte, the nonce (32 bytes), and the SHA-256 of
        the certificate in the handshake (32 bytes)

So the evidence of a renewal belongs to one new key, one old certificate and one connection.
"""

import hashlib
import hmac
from typing import Final, Literal

from keyhouse.attestation.errors import IdentityRefusedError

DIGEST = 32  # bytes of SHA-256
REPORT_DATA = 64  # bytes, the same for SGX, TDX and SEV-SNP

_START: Final = b"keyhouse start v1\0"
_HEAD: Final = b"keyhouse head v1\0"
_LINE: Final = b"keyhouse line v1\0"
_LINE_ANSWER: Final = b"keyhouse line answer v1\0"
_RENEWAL: Final = b"keyhouse renewal v1\0"

Word = Literal["ask", "give", "member"]

_REPLICA: Final = hashlib.sha256(b"keyhouse replica v1\0").digest()


def quote_binding(root_der: bytes, nonce: bytes = b"") -> bytes:
    """Return the 32 bytes that a quote binds: SHA-256 over ``root_der``, then ``nonce``.

    For a workload's quote ``root_der`` is its TLS client certificate. Source:
    ``docs/reference/evidence-quotes.md``, "Report data".
    """
    return hashlib.sha256(root_der + nonce).digest()


def report_data(binding: bytes) -> bytes:
    """Return the 64 bytes of report data: the 32 of ``binding``, then zeros."""
    if len(binding) != DIGEST:
        raise ValueError(f"a binding has {len(binding)} bytes, must have {DIGEST}")
    return binding.ljust(REPORT_DATA, b"\0")


def require_binding(data: bytes, binding: bytes) -> None:
    """Raise ``IdentityRefusedError`` unless ``data``, 64 bytes, begins with ``binding``.

    Only the first 32 bytes count (``docs/reference/evidence-quotes.md``, "Report data"), compared
    in constant time.
    """
    whole = len(data) == REPORT_DATA and len(binding) == DIGEST
    if not (whole and hmac.compare_digest(data[:DIGEST], binding)):
        raise IdentityRefusedError(
            "the quote was made for another certificate or nonce",
            hint="request a new quote; do not trust this quote, because it may be a replay",
        )


def start_report_data(root_der: bytes, instance: bytes, size: int, tree_root: bytes) -> bytes:
    """Return the report data for the start of the process ``instance`` (16 random bytes).

    ``size``: the number of leaves before the leaf of the start. ``tree_root``: the root of the log
    over these leaves. Raises ``ValueError`` for a wrong length of the instance.
    """
    if len(instance) != 16:  # noqa: PLR2004 another length could hide the next field
        raise ValueError(f"an instance has {len(instance)} bytes, must have 16")
    position = instance + size.to_bytes(8, "big") + tree_root
    return quote_binding(root_der) + hashlib.sha256(_START + position).digest()


def head_report_data(root_der: bytes, nonce: bytes, text: bytes) -> bytes:
    """Return the report data of a quote for ``nonce`` over the ``text`` of a checkpoint."""
    return quote_binding(root_der, nonce) + hashlib.sha256(_HEAD + text).digest()


def entry_report_data(root_der: bytes, entry_hash: bytes) -> bytes:
    """Return the report data for the quote of an entry of the line.

    ``entry_hash``: the hash of the entry, 32 bytes.
    """
    _require_hash(entry_hash)
    return quote_binding(root_der) + hashlib.sha256(_LINE + entry_hash).digest()


def line_report_data(root_der: bytes, nonce: bytes, last_hash: bytes, text: bytes) -> bytes:
    """Return the report data for an answer with the line of the root.

    ``last_hash``: the hash of the last entry. ``text``: the checkpoint in the answer; empty if the
    deployment has no log.
    """
    _require_hash(last_hash)
    bound = hashlib.sha256(_LINE_ANSWER + last_hash + text).digest()
    return quote_binding(root_der, nonce) + bound


def renewal_report_data(request: bytes, nonce: bytes, certificate: bytes) -> bytes:
    """Return the report data for the renewal of ``certificate`` with a signing request.

    ``request``: the signing request of the new key, DER. ``certificate``: the DER of the workload's
    leaf in the handshake. Raises ``ValueError`` unless ``nonce`` has 32 bytes.
    """
    if len(nonce) != DIGEST:
        raise ValueError("the nonce of a renewal must have 32 bytes")
    bound = hashlib.sha256(_RENEWAL + nonce + hashlib.sha256(certificate).digest()).digest()
    return hashlib.sha256(request).digest() + bound


def _require_hash(entry_hash: bytes) -> None:
    if len(entry_hash) != DIGEST:
        raise ValueError(
            f"the hash of an entry of the line has {len(entry_hash)} bytes, must have {DIGEST}"
        )


def require_report_data(data: bytes, wanted: bytes) -> None:
    """Raise ``IdentityRefusedError`` unless ``data`` equals ``wanted``, in all 64 bytes."""
    if not hmac.compare_digest(data, wanted):
        raise IdentityRefusedError(
            "the quote was made for another start, head of the log, line, root or nonce",
            hint="request a new quote; do not trust this quote, because it may be a replay",
        )


def replica_report_data(word: Word, message: bytes) -> bytes:
    """Return the 64 bytes of report data for the hand-off ``message`` of the kind ``word``."""
    sized = len(message).to_bytes(4, "big") + message
    context = b"keyhouse hand-off v1 " + word.encode("ascii") + b"\0"
    return hashlib.sha256(context + sized).digest() + _REPLICA


def binds_replica(data: bytes, word: Word, message: bytes) -> bool:
    """Return whether ``data``, 64 bytes of report data, belong to the hand-off ``message``."""
    return hmac.compare_digest(data, replica_report_data(word, message))
