"""Warm interpreters that become `keyhouse` processes, and how they are asked."""
