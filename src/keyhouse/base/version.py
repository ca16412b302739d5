"""The version of this distribution, as in ``pyproject.toml``."""

__all__ = ["VERSION"]

VERSION = "0.1.0"
