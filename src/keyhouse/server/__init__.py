"""What serves the Client API and the workload API: protocols, use cases, and the process."""
