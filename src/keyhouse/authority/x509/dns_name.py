"""What passes for a DNS name in a certificate."""

import re
from typing import Final

__all__ = ["is_dns_name"]

# Letters, digits, hyphens and underscores in labels of 1 to 63; the leftmost may hold a wildcard.
_LABEL: Final = r"[A-Za-z0-9_-]{1,63}"
_NAME: Final = re.compile(rf"(?:\*|{_LABEL})(?:\.{_LABEL})*\.?")
_LONGEST: Final = 253


def is_dns_name(text: str) -> bool:
    """Tell whether ``text`` is an ASCII host name, perhaps with ``*`` as its leftmost label."""
    return len(text) <= _LONGEST and _NAME.fullmatch(text) is not None
