"""The state directory: files, lock and open store."""
