"""Activations of workloads: what they are given, and the buffer of their audit trail."""
