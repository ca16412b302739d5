"""Witnesses of transparency logs: requests over HTTP to cosign a checkpoint."""
