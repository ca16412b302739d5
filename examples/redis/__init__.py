"""An unmodified Redis of Debian, whose TLS identity and password come from the manifest."""
