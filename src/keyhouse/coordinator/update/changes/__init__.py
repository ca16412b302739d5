"""The changes that an update makes, as a plan lists them: by section of the manifest."""
