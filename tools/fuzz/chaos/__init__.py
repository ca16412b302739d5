"""Replicas on a real database under faults: what their clients see, and the judge of that."""
