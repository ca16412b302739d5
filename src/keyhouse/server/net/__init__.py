"""Connections: TLS, plain TCP, limits, and fairness between clients. Knows no coordinator."""
