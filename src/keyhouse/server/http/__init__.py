"""HTTP/1.1: requests in, answers out. Knows no coordinator."""
