"""Forged quotes and collateral, and the oracle that says what may be accepted."""
