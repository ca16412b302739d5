"""Serial numbers of certificates."""

import secrets

__all__ = ["random_serial"]


def random_serial() -> int:
    """Return a random n with 1 <= n < 2^128 (RFC 5280 4.1.2.2: positive, at most 20 octets)."""
    return 1 + secrets.randbelow(2**128 - 1)
