"""Version 1 of the Client API."""
