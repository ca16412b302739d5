"""The server of the Client API and the workload API: protocols, use cases and process."""
