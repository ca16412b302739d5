"""A real API server of Kubernetes, and pods for admission."""
