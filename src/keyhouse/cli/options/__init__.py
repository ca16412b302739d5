"""Options that several commands share, and the connection from these options."""
