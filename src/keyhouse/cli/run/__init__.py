"""The command ``keyhouse run``: its settings and its reports."""
