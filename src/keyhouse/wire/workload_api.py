"""The workload API: the spelling of a UUID, and the workload's type in a certificate."""

import re
from typing import Final
from uuid import UUID

MARBLE_TYPE: Final = "1.3.9903.2.1"
"""The certificate extension with the workload's type, as raw UTF-8.

The extension counts only in certificates signed by the marble root. Readers verify this first.
Source: docs/how-to/launch-a-workload.md, "Check the type of another workload".
"""

MARBLE_TYPE_DER: Final = bytes.fromhex("06052bcd2f0201")
"""The same identifier in DER."""

_DASHED: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FORM: Final = (
    rf"(?:urn:uuid:)?(?P<plain>{_DASHED})|\{{(?P<braced>{_DASHED})\}}|(?P<digits>[0-9a-f]{{32}})"
)


def uuid_of(text: str) -> UUID | None:
    """Return the UUID in ``text``, in any case of letters; None for any other form.

    The forms are 36 characters, alone, after ``urn:uuid:`` or in braces, and 32 hex digits. The nil
    UUID, all zeros, is not refused here.
    """
    match_ = re.fullmatch(_FORM, text, re.IGNORECASE | re.ASCII)
    return UUID(match_["plain"] or match_["braced"] or match_["digits"]) if match_ else None
