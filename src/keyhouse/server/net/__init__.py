"""Connections: TLS, plain TCP, limits, and fairness. Independent of the coordinator."""
