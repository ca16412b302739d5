"""Witnesses of transparency logs: asking them, over HTTP, to cosign a checkpoint."""
