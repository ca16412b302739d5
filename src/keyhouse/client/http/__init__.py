"""HTTP as the SDK speaks it: one exchange, its retries, and the two kinds of connections."""
