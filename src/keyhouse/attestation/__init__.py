"""Quotes and who may be trusted: the verifier and the platform protocol."""
