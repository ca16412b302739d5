"""Why the system would not: in its own words, as they stand in a message."""

import os

__all__ = ["os_reason"]


def os_reason(error: OSError) -> str:
    """Return the reason alone, lower case: no path and no number."""
    return os.strerror(error.errno).lower() if error.errno else "unknown reason"
