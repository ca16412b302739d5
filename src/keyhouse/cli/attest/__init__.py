"""Commands for quotes: ``keyhouse attest``, ``collateral`` and ``package-info``."""
