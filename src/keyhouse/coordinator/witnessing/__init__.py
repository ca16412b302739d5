"""Witnesses of the transparency log: submissions of checkpoints, and the effects of the answers."""
