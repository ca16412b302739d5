"""Workloads that renew their certificates while they run."""
