"""Quotes of Intel: SGX enclaves and TDX domains, with the collateral of a PCCS."""
