"""A shop: a front end that calls a stock service, with mutual TLS from marble certificates."""
