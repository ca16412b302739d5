"""`keyhouse watch`: follow transparency logs of deployments, and print new leaves and alerts."""
