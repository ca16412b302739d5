"""The commands ``keyhouse context``."""
