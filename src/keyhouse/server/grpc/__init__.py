"""gRPC over HTTP/2, without any knowledge of the coordinator."""
