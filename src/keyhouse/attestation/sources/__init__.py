"""Sources of collateral: a PCCS, and files that operators replace in use."""
