"""gRPC over HTTP/2: calls in, answers out. Knows no coordinator."""
