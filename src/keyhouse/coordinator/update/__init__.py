"""Updates of the manifest: planning, preparing and applying them, and what they retain."""
