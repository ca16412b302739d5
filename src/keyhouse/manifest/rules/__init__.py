"""The rules of a manifest, one file for each of its sections."""
