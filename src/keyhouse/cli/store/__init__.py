"""The commands ``keyhouse store``, ``backup`` and ``restore``."""
