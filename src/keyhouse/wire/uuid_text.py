"""How workloads spell a UUID."""

import re
from typing import Final
from uuid import UUID

__all__ = ["uuid_of"]

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
