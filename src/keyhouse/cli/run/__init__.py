"""The command ``keyhouse run``: its settings, and what it tells."""
