"""The secrets of a manifest: generating them, and checking those that users upload."""
