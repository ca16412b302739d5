"""A real API server of Kubernetes, and a stand-in for its kubelet."""
