"""Transparency logs: trees, tiles, checkpoints, cosignatures and leaves, as values. No I/O.

A log is a Merkle tree of leaves that only grows (``tree``). Its files are ``tiles``. The key of the
log signs a ``checkpoint``: origin, size and root of the tree, as a signed ``note``. Witnesses
cosign a checkpoint after they verified that the tree continues the former tree. A ``policy`` states
the required cosignatures.
"""
