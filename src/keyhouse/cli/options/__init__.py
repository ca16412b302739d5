"""Options that commands share, and the connection that they lead to."""
