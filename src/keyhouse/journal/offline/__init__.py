"""State directories that no coordinator has open: archives, backups, copies."""
