"""The state directory: its files, its lock, and its open store."""
