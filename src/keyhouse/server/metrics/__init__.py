"""Metrics and events, and their listener."""
