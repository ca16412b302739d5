"""The version of this distribution, as in ``pyproject.toml``."""

VERSION = "0.1.0"
