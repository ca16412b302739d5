"""Example clusters for a laptop. The script ``run`` in each folder starts the example."""
