"""Keyhouse: the trusted coordinator of a confidential-computing cluster."""

__version__ = "0.1.0"
