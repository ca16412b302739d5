"""The changes of an update, listed by section of the manifest."""
