"""The pictures of the documentation. ``scripts/pictures`` draws them into ``docs/pictures``."""
