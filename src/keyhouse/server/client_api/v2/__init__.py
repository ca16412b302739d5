"""Version 2 of the Client API."""
