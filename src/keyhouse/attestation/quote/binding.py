"""What a quote binds: a certificate and a nonce, in the first half of its report data."""

import hashlib
import hmac

from keyhouse.attestation.errors import IdentityRefusedError

DIGEST = 32
REPORT_DATA = 64


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
