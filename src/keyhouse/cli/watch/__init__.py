"""The command ``keyhouse watch``: follow transparency logs, and print new leaves and alerts."""
