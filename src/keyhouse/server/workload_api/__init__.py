"""The workload API: ``rpc.Marble`` over gRPC."""
