"""Forged quotes and collateral, and the oracle of acceptable cases."""
