"""Replicas on a real database under faults, with recorded answers and a judge of the answers."""
