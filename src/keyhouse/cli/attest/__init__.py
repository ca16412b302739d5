"""The commands about quotes: ``keyhouse attest``, ``collateral`` and ``package-info``."""
