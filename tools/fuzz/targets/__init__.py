"""The targets of campaigns: one file for each target, and their table."""
