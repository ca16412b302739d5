"""A demo of the main tasks of a coordinator, with real processes and real HTTPS requests.

``scripts/demo`` runs the demo. Each step shows its purpose, the commands, the answers, and the
checked results. An unexpected result ends the demo with an error.
"""
