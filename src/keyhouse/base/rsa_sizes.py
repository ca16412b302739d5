"""How large RSA keys may be, in bits: each limit once.

The work of a key grows with the third power of its size, and OpenSSL sets no useful limit itself.
"""

from typing import Final

__all__ = ["LARGEST", "LARGEST_OF_HOLDERS", "SMALLEST", "SMALLEST_GENERATED"]

SMALLEST: Final = 2048
"""Of a key that has to keep or prove something to the coordinator."""

LARGEST: Final = 8192
"""Of a key that is generated, uploaded or shown: seconds of work to make, a millisecond to use."""

SMALLEST_GENERATED: Final = 1024
"""Of a key that a manifest has generated for its workloads, as the interface always did."""

LARGEST_OF_HOLDERS: Final = 16384
"""Of a recovery key, which is only encrypted to: OpenSSL encrypts to nothing larger."""
