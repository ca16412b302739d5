"""Verify the proofs of a deployment's transparency log for outsiders, without network and I/O."""
