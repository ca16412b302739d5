"""Replicas of a deployment under many failures, and checks of their answers."""
