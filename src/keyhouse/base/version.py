"""The version of this distribution, as in ``pyproject.toml``."""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
