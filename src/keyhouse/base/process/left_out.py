"""Optional modules that libraries import if present, and that Keyhouse does not need.

httpx imports ``pygments`` and ``rich`` for a command of its own, which takes as long as importing
httpx itself. structlog imports ``rich`` to draw tracebacks, which would show values; that is a
third of the time in which a coordinator starts. httpcore imports ``h2`` for HTTP/2, which no
command speaks. All do without them where they are not installed, and none has a setting for that.
What is ``None`` in ``sys.modules`` counts as not installed:
https://docs.python.org/3/reference/import.html#the-module-cache
"""

import sys


def leave_out(*names: str) -> None:
    """Let this process import none of the modules ``names``; one that it has already stays."""
    for name in names:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # typeshed knows no None
