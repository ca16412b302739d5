"""Clusters that run on a laptop: each in a folder of its own, with a script `run`."""
