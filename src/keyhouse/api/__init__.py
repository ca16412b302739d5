"""The Client API over HTTPS."""
