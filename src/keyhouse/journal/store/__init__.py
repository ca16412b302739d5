"""The places that keep records: the protocol of a store, SQLite, and memory."""
