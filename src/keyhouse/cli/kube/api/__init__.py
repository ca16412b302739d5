"""A client of the Kubernetes API: the user's kubeconfig, requests, and the objects of the API."""
