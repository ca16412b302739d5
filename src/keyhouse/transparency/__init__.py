"""Transparency logs: trees, tiles, checkpoints, cosignatures and leaves, as values. No I/O."""
