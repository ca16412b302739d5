"""The state directory: its files, its lock, and the store that is open in it."""
