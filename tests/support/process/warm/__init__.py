"""Warm interpreters that fork `keyhouse` processes, and the requests to them."""
