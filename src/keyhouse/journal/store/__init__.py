"""Stores of records: the interface of a store, and the stores in SQLite, PostgreSQL and memory."""
