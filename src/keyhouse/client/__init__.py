"""Verify a coordinator first, then talk to it."""
