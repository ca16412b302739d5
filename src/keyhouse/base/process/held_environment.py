"""The variables that a launcher was started with, carried through its isolated start.

The launcher itself runs in an environment of its own (process.py), and the program that it becomes
gets the one that was meant for it. In between the variables have names that mean nothing to Python,
OpenSSL or the loader.
"""

import os
from collections.abc import Mapping
from typing import Final

__all__ = ["PREFIX", "held", "release"]

PREFIX: Final = "KEYHOUSE_HELD_"


def held(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` under names that have no effect."""
    return {PREFIX + name: value for name, value in environment.items()}


def release() -> dict[bytes, bytes]:
    """Take what was held out of this process's environment and return it as it was."""
    prefix = PREFIX.encode("ascii")
    names = [name for name in os.environb if name.startswith(prefix)]
    return {name.removeprefix(prefix): os.environb.pop(name) for name in names}
