"""Certificates and requests for them: X.509 as the coordinator issues and reads it."""
