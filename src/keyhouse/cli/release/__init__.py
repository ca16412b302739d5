"""Verify the outputs of a release: checksums, their signature, wheels and environments."""
