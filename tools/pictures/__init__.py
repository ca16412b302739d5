"""The pictures of the pages. ``scripts/pictures`` draws them all again into ``docs/pictures``."""
