"""HTTP of the SDK: one exchange, its retries, and two kinds of connections."""
