"""A real API server of Kubernetes, and pods for its admission."""
