"""What people are shown of manifests, plans and secrets, wherever they see it."""
