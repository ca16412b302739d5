"""Replicas of one deployment under everything that may happen, and the judge of what they tell."""
