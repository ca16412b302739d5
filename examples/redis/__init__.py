"""An unmodified Redis of Debian, with TLS key, certificate and password from the manifest."""
