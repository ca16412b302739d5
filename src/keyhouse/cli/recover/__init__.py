"""The commands ``keyhouse recover``."""
