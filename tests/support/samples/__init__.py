"""Samples: users, manifests, states, certificates, quotes, and platforms."""
