"""Updates of the manifest: planning, preparing and applying an update, and retaining values."""
