"""Witnesses of the transparency log: what is submitted to them, and what follows from answers."""
