"""What a campaign attacks: one file for each target, and their table."""
