"""Check the origin of a state's root key before each start."""
