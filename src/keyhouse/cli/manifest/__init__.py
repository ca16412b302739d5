"""The commands ``keyhouse manifest``."""
