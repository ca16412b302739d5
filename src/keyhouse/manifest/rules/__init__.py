"""The rules of a manifest, a file for each of its sections."""
