"""The command ``keyhouse doctor``."""
