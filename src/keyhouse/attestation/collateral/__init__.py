"""The collateral of quotes: reading it, keeping it, and fetching it from a PCCS."""
