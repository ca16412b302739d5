"""The commands ``keyhouse secret``."""
