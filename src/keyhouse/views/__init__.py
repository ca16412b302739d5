"""Describes manifests, plans and secrets for people, in equal words for every surface."""
