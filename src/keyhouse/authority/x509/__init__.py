"""X.509 certificates and certificate requests of the coordinator."""
