"""The OpenAPI description of the Client API."""
