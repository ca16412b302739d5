"""The extension of a certificate that names a workload's type, as raw UTF-8.

Only certificates have it that the marble root has signed itself: who reads it has to make sure of
that. Source: wire reference, 9.3.
"""

from typing import Final

__all__ = ["MARBLE_TYPE", "MARBLE_TYPE_DER"]

MARBLE_TYPE: Final = "1.3.9903.2.1"

MARBLE_TYPE_DER: Final = bytes.fromhex("06052bcd2f0201")
"""The same identifier in DER."""
