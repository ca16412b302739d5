"""`keyhouse kube`: install and observe the coordinator in a Kubernetes cluster."""
