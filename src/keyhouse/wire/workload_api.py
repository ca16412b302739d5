"""The workload API: how a UUID is written, and how a certificate names a workload's type."""

import re
from typing import Final
from uuid import UUID

MARBLE_TYPE: Final = "1.3.9903.2.1"
"""The certificate extension whose value is the workload's type, as raw UTF-8.

It means something only in certificates that the marble root itself has signed: readers check that
first. Source: wire reference, 9.3.
"""

MARBLE_TYPE_DER: Final = bytes.fromhex("06052bcd2f0201")
"""The same identifier in DER."""

_DASHED: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FORM: Final = re.compile(
    rf"(?:urn:uuid:)?(?P<plain>{_DASHED})|\{{(?P<braced>{_DASHED})\}}|(?P<digits>[0-9a-f]{{32}})",
    re.IGNORECASE | re.ASCII,
)


def uuid_of(text: str) -> UUID | None:
    """Return the UUID that ``text`` spells: 36 characters, with ``urn:uuid:``, in braces, or 32.

    None for everything else. The nil UUID is returned. Source: wire reference, "Checks in order".
    """
    found = _FORM.fullmatch(text)
    return UUID(found["plain"] or found["braced"] or found["digits"]) if found else None
