"""The encrypted, chained record of events behind a small store protocol."""
